"""Names that were probably meant."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.meant import FARTHEST, MOST, distance, meant, suggested

NAMES = st.text(string.ascii_lowercase[:3] + "-1", max_size=8)


@pytest.mark.parametrize(
    ("typed", "known", "found"),
    [
        ("trian-2", ["train-1", "train-2", "train-12"], ("train-2",)),
        ("train", ["train-10", "train-9", "trains-1", "other-1"], ("train-9", "train-10", "trains-1")),
        ("visoin", ["vision", "vision--a", "batch"], ("vision",)),
        ("pool3", ["pool2", "pool1", "pool10", "pool4", "pool5"], ("pool1", "pool2", "pool4")),
        ("al", ["bo", "ed"], ()),
        ("", ["a", "b"], ()),
        ("bob", ["bo", "rob", "alice"], ("bo", "rob")),
    ],
)
def test_names_that_begin_alike_or_are_nearly_the_same_are_suggested(
    typed: str, known: list[str], found: tuple[str, ...]
) -> None:
    assert meant(typed, known) == meant(typed, reversed(known)) == found


@given(NAMES, st.lists(NAMES, max_size=8))
def test_suggestions_are_known_and_similar(typed: str, known: list[str]) -> None:
    found = meant(typed, known)
    assert len(found) == len(set(found)) <= MOST
    assert set(found) <= set(known)
    assert all(name.startswith(typed) or distance(typed, name, FARTHEST) <= FARTHEST for name in found)


@given(NAMES, NAMES, NAMES)
def test_distance_of_one_edit(one: str, other: str, third: str) -> None:
    between = distance(one, other, 99)
    assert between == distance(other, one, 99)
    assert (between == 0) is (one == other)
    assert between <= distance(one, third, 99) + distance(third, other, 99)
    assert distance(one, other, 1) == min(between, 2)


def test_message_ends_with_the_likely_names_or_with_another_way_out() -> None:
    known = ("team-a", "team-b", "team-c")
    assert [suggested("team", known[:some], " (teams: none)") for some in range(4)] == [
        " (teams: none)",
        ". Did you mean 'team-a'?",
        ". Did you mean 'team-a' or 'team-b'?",
        ". Did you mean 'team-a', 'team-b' or 'team-c'?",
    ]
