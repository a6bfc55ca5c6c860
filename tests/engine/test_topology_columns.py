"""Helpers for the columns of nodes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runrig.engine.nodes.topology import distinct


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**62), 2**62), max_size=30))
def test_distinct_values_are_sorted_and_each_value_has_its_index(values: list[int]) -> None:
    found, where = distinct(np.array(values, dtype=np.int64))
    assert found.tolist() == sorted(set(values))
    assert [found[at] for at in where] == values
