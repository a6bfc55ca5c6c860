"""Taking candidates until it fits, and returning those that are not needed: with plain numbers, independently of any
engine.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from runrig.engine.preemption.fill_back import fill_back, take_until_fits

AMOUNTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)
"""Per candidate what it frees of two resources."""

ASKED = st.tuples(st.integers(0, 12), st.integers(0, 12))


class Shelf:
    """The candidates taken, by number. *fits*: those taken free enough of both resources."""

    def __init__(self, amounts: Sequence[tuple[int, int]], asked: tuple[int, int]) -> None:
        self.amounts = amounts
        self.asked = asked
        self.away: set[int] = set()

    def take(self, candidate: int) -> None:
        assert candidate not in self.away
        self.away.add(candidate)

    def put_back(self, candidate: int) -> None:
        self.away.remove(candidate)

    def fits(self) -> bool:
        return self.enough(self.away)

    def enough(self, away: set[int]) -> bool:
        return all(sum(self.amounts[each][index] for each in away) >= self.asked[index] for index in (0, 1))


def _steps(shelf: Shelf) -> tuple[Callable[[int], None], Callable[[int], None], Callable[[], bool]]:
    return shelf.take, shelf.put_back, shelf.fits


@given(AMOUNTS, ASKED)
def test_only_as_many_candidates_as_needed_are_taken_in_order(
    amounts: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    shelf = Shelf(amounts, asked)
    taken = take_until_fits(range(len(amounts)), *_steps(shelf))
    least = next((n for n in range(1, len(amounts) + 1) if shelf.enough(set(range(n)))), None)
    assert taken == (None if least is None else list(range(least)))
    assert shelf.away == set(taken or ())


@given(AMOUNTS, ASKED)
def test_all_that_stay_taken_are_needed_and_later_ones_are_returned_first(
    amounts: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    shelf = Shelf(amounts, asked)
    everybody = range(len(amounts))
    shelf.away = set(everybody)
    if not shelf.fits():
        return
    needed = fill_back(everybody, *_steps(shelf), last_is_needed=False)
    assert shelf.away == set(needed)
    enough = [
        set(each) for n in range(len(amounts) + 1) for each in combinations(everybody, n) if shelf.enough(set(each))
    ]
    irreducible = [each for each in enough if not any(other < each for other in enough)]
    # Of all irreducible sets: one without the last candidate, if any; among these, one without the last but one;
    # and so on.
    assert set(needed) == min(irreducible, key=lambda each: [candidate in each for candidate in reversed(everybody)])
    assert needed == sorted(needed)


@given(AMOUNTS, ASKED)
def test_the_last_one_that_made_it_fit_stays_taken_with_and_without_a_test(
    amounts: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    shelf = Shelf(amounts, asked)
    taken = take_until_fits(range(len(amounts)), *_steps(shelf))
    if taken is None or shelf.enough(set()):
        return
    other = Shelf(amounts, asked)
    other.away = set(taken)
    assert fill_back(taken, *_steps(shelf), last_is_needed=True) == fill_back(
        taken, *_steps(other), last_is_needed=False
    )


def test_the_next_candidate_may_depend_on_those_taken() -> None:
    shelf = Shelf([(1, 1)] * 4, (2, 2))
    order = (candidate for candidate in range(4) if len(shelf.away) == candidate // 2)
    assert take_until_fits(order, *_steps(shelf)) == [0, 2]
