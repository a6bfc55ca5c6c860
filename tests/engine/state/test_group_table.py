"""The table of groups behaves like a dictionary, although some groups are stored under their workflow's name."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.workflows import Group, GroupKey, Status
from runrig.engine.state.group_table import GroupTable

keys = st.tuples(st.sampled_from(["w-1", "w-2"]), st.sampled_from(["a", "b", "c"]))
steps = st.lists(st.tuples(keys, st.sampled_from(["put", "put", "delete"]), st.sampled_from(Status)), max_size=20)


@given(steps)
def test_the_table_has_the_contents_of_a_dictionary(steps: list[tuple[GroupKey, str, Status]]) -> None:
    table, plain = GroupTable(), dict[GroupKey, Group]()
    for key, step, status in steps:
        if step == "put":
            table[key] = plain[key] = Group(*key, status)
        else:
            assert (table.get(key), key in table) == (plain.get(key), key in plain)
            if plain.pop(key, None) is not None:
                del table[key]
        assert len(table) == len(plain)
        assert table == plain
        assert sorted(table) == sorted(plain)
        assert {each: table[each] for each in table} == plain
        for workflow in {key[0] for key in plain}:
            counts = Counter(group.status for group in plain.values() if group.workflow == workflow)
            assert set(table.statuses(workflow)) == counts.keys()
            assert {each: table.number(workflow, each) for each in counts} == counts
            assert table.number(workflow, *Status) == counts.total()
