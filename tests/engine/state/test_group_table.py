"""The table of groups behaves like a dictionary, although some groups are stored under their workflow's name."""

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.workflows import Group, GroupKey
from runrig.engine.state.group_table import GroupTable

keys = st.tuples(st.sampled_from(["w-1", "w-2"]), st.sampled_from(["a", "b", "c"]))
steps = st.lists(st.tuples(keys, st.sampled_from(["put", "put", "delete"]), st.integers(0, 3)), max_size=20)


@given(steps)
def test_the_table_has_the_contents_of_a_dictionary(steps: list[tuple[GroupKey, str, int]]) -> None:
    table, plain = GroupTable(), dict[GroupKey, Group]()
    for key, step, attempt in steps:
        if step == "put":
            table[key] = plain[key] = Group(*key, attempt=attempt)
        else:
            assert (table.get(key), key in table) == (plain.get(key), key in plain)
            if plain.pop(key, None) is not None:
                del table[key]
        assert len(table) == len(plain)
        assert table == plain
        assert sorted(table) == sorted(plain)
        assert {each: table[each] for each in table} == plain
