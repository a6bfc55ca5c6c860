from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.natural_order import natural


def test_numbers_in_names_are_compared_as_numbers() -> None:
    names = ["r10", "r9", "rack-a", "r08", "r8", "10", "9", "r9-b2", "r9-b10", ""]
    assert sorted(names, key=natural) == ["", "9", "10", "r08", "r8", "r9", "r9-b2", "r9-b10", "r10", "rack-a"]


@given(st.text(), st.text())
def test_only_equal_names_have_equal_keys(one: str, other: str) -> None:
    assert (natural(one) == natural(other)) == (one == other)
    assert (natural(one) < natural(other)) != (natural(other) <= natural(one))


@given(st.text(alphabet="ab-"), st.integers(0, 10**20), st.integers(0, 10**20))
def test_numbered_names_are_sorted_by_number(name: str, one: int, other: int) -> None:
    if max(one, other) < 10**18:
        assert (natural(f"{name}{one}") < natural(f"{name}{other}")) == (one < other)
