"""Partial admission: the smaller counts at which a gang may still be admitted (partial-admission.md; law A1).

Pod sets shrink in proportion to their range, count - minCount: with N the sum of all ranges, step i of N leaves a pod set
count - floor(range x i / N) pods.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

ALL_TRIED = 64
"""With at most this many steps, every step is tried, since acceptance need not be monotone; with more, the search bisects."""

Result = TypeVar("Result")


class Ranged(Protocol):
    """The size of a pod set.  *min_count* None: it needs all *count* pods."""

    @property
    def count(self) -> int: ...

    @property
    def min_count(self) -> int | None: ...


def largest(pod_sets: Sequence[Ranged], attempt: Callable[[tuple[int, ...]], Result]) -> Result | None:
    """The result of *attempt* for the largest counts, below the full ones, for which it is not None.

    None if every attempt fails, or no pod set has a range.  At most ALL_TRIED attempts, or log2(N) + 1 if there are more steps.
    """
    steps = sum(pod_set.count - _least(pod_set) for pod_set in pod_sets)
    if steps > ALL_TRIED:
        return _bisected(pod_sets, steps, attempt)
    tried = dict.fromkeys(_counts(pod_sets, step, steps) for step in range(1, steps + 1))
    return next((result for counts in tried if (result := attempt(counts)) is not None), None)


def _bisected(pod_sets: Sequence[Ranged], steps: int, attempt: Callable[[tuple[int, ...]], Result]) -> Result | None:
    return _smallest_step(1, steps, lambda step: attempt(_counts(pod_sets, step, steps)))


def bisected(pod_sets: Sequence[Ranged], attempt: Callable[[tuple[int, ...]], Result]) -> Result | None:
    """Like `largest`, but always by bisection and with the full counts included, as Kueue does for imported queues.

    If acceptance is not monotone it may miss counts that would be accepted.
    """
    steps = sum(pod_set.count - _least(pod_set) for pod_set in pod_sets)
    if not steps:
        return None
    return _smallest_step(0, steps, lambda step: attempt(_counts(pod_sets, step, steps)))


def _smallest_step(low: int, last: int, attempt: Callable[[int], Result]) -> Result | None:
    best: Result | None = None
    high = last + 1
    while low < high:
        middle = (low + high) // 2
        result = attempt(middle)
        if result is None:
            low = middle + 1
        else:
            best, high = result, middle
    return best


def _counts(pod_sets: Sequence[Ranged], step: int, steps: int) -> tuple[int, ...]:
    return tuple(pod_set.count - (pod_set.count - _least(pod_set)) * step // steps for pod_set in pod_sets)


def least_counts(pod_sets: Sequence[Ranged]) -> tuple[int, ...]:
    """The counts of the smallest gang that may be admitted."""
    return tuple(_least(pod_set) for pod_set in pod_sets)


def _least(pod_set: Ranged) -> int:
    return pod_set.count if pod_set.min_count is None else pod_set.min_count
