"""Take candidates away until it fits, then put back whoever is not needed: what stays away is irreducible (law R3).

For any kind of candidate: what taking away and putting back do, and what has to fit, are functions of the caller.  Putting back
must undo taking away exactly, in whatever order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

C = TypeVar("C")


def take_until_fits(
    candidates: Iterable[C], take: Callable[[C], None], put_back: Callable[[C], None], fits: Callable[[], bool]
) -> list[C] | None:
    """Takes *candidates* away one by one until it fits, and returns those taken; None, and all are back, if it never fits.

    *candidates* is read lazily: who comes next may depend on who has been taken.  At least one is taken: `fits` is asked only
    after each.
    """
    taken: list[C] = []
    for candidate in candidates:
        take(candidate)
        taken.append(candidate)
        if fits():
            return taken
    for candidate in taken:
        put_back(candidate)
    return None


def fill_back(
    taken: Sequence[C],
    take: Callable[[C], None],
    put_back: Callable[[C], None],
    fits: Callable[[], bool],
    *,
    last_is_needed: bool,
) -> list[C]:
    """Puts each of *taken* back, the last first, where it fits all the same; returns those that stay away, in their order.

    *last_is_needed*: it did not fit before the last one was taken, so that one stays away without a test.
    """
    needed = [*taken[-1:]] if last_is_needed else []
    for candidate in reversed(taken[:-1] if last_is_needed else taken):
        put_back(candidate)
        if not fits():
            take(candidate)
            needed.append(candidate)
    needed.reverse()
    return needed
