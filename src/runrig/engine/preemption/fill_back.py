"""Takes candidates until the preemptor fits, then returns those that are not needed: the rest is irreducible (rule R3).

Works for any kind of candidate: the caller provides functions to take one, to return it and to check the fit. Returning
must exactly undo taking, in any order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

C = TypeVar("C")


def take_until_fits(
    candidates: Iterable[C], take: Callable[[C], None], put_back: Callable[[C], None], fits: Callable[[], bool]
) -> list[C] | None:
    """Takes *candidates* one by one until it fits, and returns those taken. If it never fits, undoes that and returns
    None.

    *candidates* is read lazily, so the next one may depend on those taken. `fits` is called only after each, so at
    least one is taken.
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
    """Undoes taking each of *taken*, last first, if it still fits without it; returns the rest, in order.

    *last_is_needed*: it did not fit before the last one was taken, so that one is not tried.
    """
    needed = [*taken[-1:]] if last_is_needed else []
    for candidate in reversed(taken[:-1] if last_is_needed else taken):
        put_back(candidate)
        if not fits():
            take(candidate)
            needed.append(candidate)
    needed.reverse()
    return needed
