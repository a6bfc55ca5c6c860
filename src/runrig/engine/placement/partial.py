"""Partial admission: the smaller counts with which a gang can still be admitted (rule A1).

Pod sets shrink in proportion to their range, count - minCount: with N the sum of all ranges, step i of N leaves a pod set count
- floor(range × i / N) pods.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

ALL_TRIED = 64
"""Up to this many steps are all tried; with more, the search bisects."""

Counts = tuple[int, ...]
"""Pods per pod set."""

Result = TypeVar("Result")


class Ranged(Protocol):
    """The size of a pod set. *min_count* None: it needs all *count* pods."""

    @property
    def count(self) -> int: ...

    @property
    def min_count(self) -> int | None: ...


def largest(
    pod_sets: Sequence[Ranged],
    attempt: Callable[[Counts], Result],
    possible: Callable[[Counts], bool] | None = None,
) -> Result | None:
    """The result of *attempt* for the largest counts below the full ones for which it is not None, or None.

    *possible*: False for counts that can never be accepted, which are skipped. Up to ALL_TRIED remaining steps are tried one by
    one, largest first. More are bisected, with log2(N) + 1 attempts; this gives the same result if every step below an accepted
    one is accepted. O(N) calls of *possible*.
    """
    total = _steps(pod_sets)
    steps: Sequence[int] = range(1, total + 1)
    if possible is not None:
        steps = [step for step in steps if possible(_counts(pod_sets, step, total))]
    if len(steps) > ALL_TRIED:
        return _first_accepted(pod_sets, steps, attempt)
    sizes = dict.fromkeys(_counts(pod_sets, step, total) for step in steps)
    return next((result for counts in sizes if (result := attempt(counts)) is not None), None)


def bisected(pod_sets: Sequence[Ranged], attempt: Callable[[Counts], Result]) -> Result | None:
    """Like `largest`, but always by bisection and including the full counts, as Kueue does for imported queues.

    May miss accepted counts if some smaller step is not accepted.
    """
    total = _steps(pod_sets)
    return _first_accepted(pod_sets, range(total + 1), attempt) if total else None


def _first_accepted(
    pod_sets: Sequence[Ranged], steps: Sequence[int], attempt: Callable[[Counts], Result]
) -> Result | None:
    """Bisects *steps*, largest counts first, assuming that all steps after an accepted one are accepted."""
    best: Result | None = None
    total = _steps(pod_sets)
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        result = attempt(_counts(pod_sets, steps[middle], total))
        if result is None:
            low = middle + 1
        else:
            best, high = result, middle
    return best


def _steps(pod_sets: Sequence[Ranged]) -> int:
    return sum(pod_set.count - _least(pod_set) for pod_set in pod_sets)


def _counts(pod_sets: Sequence[Ranged], step: int, steps: int) -> Counts:
    return tuple(pod_set.count - (pod_set.count - _least(pod_set)) * step // steps for pod_set in pod_sets)


def least_counts(pod_sets: Sequence[Ranged], possible: Callable[[Counts], bool] | None = None) -> Counts:
    """The counts of the smallest gang that may be admitted. *possible*: see `largest`.

    If no step is possible, the counts of the last step. O(N) calls of *possible*.
    """
    least = tuple(_least(pod_set) for pod_set in pod_sets)
    if possible is None:
        return least
    total = _steps(pod_sets)
    sizes = (_counts(pod_sets, step, total) for step in range(total, 0, -1))
    return next((counts for counts in sizes if possible(counts)), least)


def _least(pod_set: Ranged) -> int:
    return pod_set.count if pod_set.min_count is None else pod_set.min_count
