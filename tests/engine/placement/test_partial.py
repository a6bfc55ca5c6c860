"""Smaller counts: in proportion, largest first; every step if there are few, bisection if there are many (rule A1)."""

from runrig.domain.gangs import PodSet
from runrig.engine.placement.partial import ALL_TRIED, largest, least_counts


def sets(*ranges: tuple[int, int | None]) -> tuple[PodSet, ...]:
    """One pod set per (count, min_count)."""
    return tuple(PodSet(f"s{at}", count, (), minimum) for at, (count, minimum) in enumerate(ranges))


def with_room_for(pods: int, *ranges: tuple[int, int | None]) -> tuple[tuple[int, ...] | None, int]:
    """The counts found if there is room for *pods* pods, and how many were tried."""
    tried = []

    def attempt(counts: tuple[int, ...]) -> tuple[int, ...] | None:
        tried.append(counts)
        return counts if sum(counts) <= pods else None

    return largest(sets(*ranges), attempt), len(tried)


def test_pod_sets_lose_the_same_part_of_their_ranges() -> None:
    assert with_room_for(19, (1, None), (4, 2), (20, 10))[0] == (1, 3, 15)


def test_two_ranges_of_a_gang_shrink_together() -> None:
    assert with_room_for(3, (2, 1), (2, 1))[0] == (1, 1)


def test_nothing_smaller_than_the_minimum_is_tried() -> None:
    assert with_room_for(1, (4, 2)) == (None, 2)
    assert least_counts(sets((4, 2), (3, None))) == (2, 3)


def test_a_gang_without_a_range_has_no_smaller_counts() -> None:
    assert with_room_for(0, (4, None)) == (None, 0)


def test_few_steps_are_all_tried_so_that_a_gap_does_not_hide_a_fit() -> None:
    """12 of 20 would fit, 5 to 11 would not."""
    found = largest(sets((20, 4)), lambda counts: counts if counts in {(12,), (4,)} else None)
    assert found == (12,)


def test_impossible_counts_are_skipped_and_do_not_count_as_steps() -> None:
    tried: list[tuple[int, ...]] = []

    def attempt(counts: tuple[int, ...]) -> tuple[int, ...] | None:
        tried.append(counts)
        return counts if sum(counts) <= 210 else None

    found = largest(sets((400, 3)), attempt, lambda counts: counts[0] % 10 == 0)
    assert found == (210,)
    assert tried == [(count,) for count in range(390, 200, -10)]


def test_the_minimum_counts_are_the_smallest_possible_ones() -> None:
    def in_fours(counts: tuple[int, ...]) -> bool:
        return counts[0] % 4 == 0

    assert least_counts(sets((16, 5)), in_fours) == (8,)
    assert least_counts(sets((16, 4)), in_fours) == (4,)
    assert least_counts(sets((7, 5)), in_fours) == (5,)


def test_many_steps_are_bisected() -> None:
    found, tried = with_room_for(700, (1000, 1))
    assert found == (700,)
    assert tried <= 11 < ALL_TRIED
