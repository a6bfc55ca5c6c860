"""Partial admission: which smaller counts a gang accepts (partial-admission.md; law A1).

Each pod set gives up its share of the range count - minCount: with N = the sum of all ranges, step i of N gives
count - floor(range x i / N).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

ALL_TRIED = 64
"""Up to so many steps each is tried, because acceptance need not be monotone; beyond, the search is a bisection."""

Found = TypeVar("Found")


class Ranged(Protocol):
    """A pod set, as far as its size goes.  *min_count* None: no fewer than *count* will do."""

    @property
    def count(self) -> int: ...

    @property
    def min_count(self) -> int | None: ...


def largest(pod_sets: Sequence[Ranged], attempt: Callable[[tuple[int, ...]], Found]) -> Found | None:
    """What *attempt* finds for the largest counts, below the full ones, for which it finds anything.

    None if it finds nothing, or no pod set has a range.  At most ALL_TRIED attempts, or log2(N) + 1 where there are more steps.
    """
    steps = sum(pod_set.count - _least(pod_set) for pod_set in pod_sets)
    if steps > ALL_TRIED:
        return _bisected(pod_sets, steps, attempt)
    counts = [_counts(pod_sets, step, steps) for step in range(1, steps + 1)]
    return next((found for each in dict.fromkeys(counts) if (found := attempt(each)) is not None), None)


def _bisected(pod_sets: Sequence[Ranged], steps: int, attempt: Callable[[tuple[int, ...]], Found]) -> Found | None:
    return _smallest_step(1, steps, lambda step: attempt(_counts(pod_sets, step, steps)))


def bisected(pod_sets: Sequence[Ranged], attempt: Callable[[tuple[int, ...]], Found]) -> Found | None:
    """As `largest`, but always by bisection, and over all steps, the full counts too: what imported queues do.

    Where acceptance is not monotone it may miss a count that would do.
    """
    steps = sum(pod_set.count - _least(pod_set) for pod_set in pod_sets)
    if not steps:
        return None
    return _smallest_step(0, steps, lambda step: attempt(_counts(pod_sets, step, steps)))


def _smallest_step(low: int, last: int, attempt: Callable[[int], Found]) -> Found | None:
    best: Found | None = None
    high = last + 1
    while low < high:
        middle = (low + high) // 2
        found = attempt(middle)
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _counts(pod_sets: Sequence[Ranged], step: int, steps: int) -> tuple[int, ...]:
    return tuple(each.count - (each.count - _least(each)) * step // steps for each in pod_sets)


def least_counts(pod_sets: Sequence[Ranged]) -> tuple[int, ...]:
    """The smallest gang that would do."""
    return tuple(_least(pod_set) for pod_set in pod_sets)


def _least(pod_set: Ranged) -> int:
    return pod_set.count if pod_set.min_count is None else pod_set.min_count
