"""What holds of every constraint tree (law T3)."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.constraints import CATCH_ALL, Branch, Outline, outline_of, tree_of
from runrig.domain.pools import TopologyKey
from runrig.domain.workflows import GroupSpec, Requirement, TaskSpec

KEYS = tuple(TopologyKey(name, f"x/{name}") for name in ("zone", "spine", "rack", "host"))
REQUIRED = {"zone": True, "spine": False, "rack": True, "host": False}
NAMES = st.sampled_from(["a", "A", "a-b", "b", "a_b", "rest", "b" * 63])


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    """Up to eight tasks, each naming some levels; whether a level is required is one choice for all, so that none is refused."""
    tasks = []
    for number in range(draw(st.integers(1, 8))):
        asked = draw(st.dictionaries(st.sampled_from(list(REQUIRED)), NAMES, max_size=4))
        needs = tuple(Requirement(key, name, REQUIRED[key]) for key, name in asked.items())
        tasks.append(TaskSpec(f"t{number}", "i", ("run",), count=draw(st.sampled_from([None, 1, 3])), topology=needs))
    return GroupSpec("g", tuple(tasks))


def outline(group: GroupSpec) -> Outline:
    return outline_of(tree_of(KEYS, group))


def depths(branch: Branch, depth: int = 0) -> set[int]:
    return {depth} if not branch.branches else {each for below in branch.branches for each in depths(below, depth + 1)}


@given(groups())
def test_all_leaves_lie_at_one_depth_and_hold_every_task_once(group: GroupSpec):
    root = tree_of(KEYS, group)
    assert len(depths(root)) == 1
    assert Counter(task.name for leaf in root.leaves() for task in leaf.tasks) == Counter(t.name for t in group.tasks)


@given(groups())
def test_pods_are_counted_once_in_leaves_and_each_task_has_one_leaf_or_none_has(group: GroupSpec):
    found = outline(group)
    parents = {each.parent for each in found.subgroups}
    leaves = [each for each in found.subgroups if each.name not in parents]
    pods = sum(task.pods for task in group.tasks)
    if found.subgroups:
        assert found.pods is None
        assert sum(each.pods or 0 for each in leaves) == pods
        assert [each.pods for each in found.subgroups if each.name in parents] == [None] * (len(parents - {None}))
        assert set(found.subgroup_of) == {task.name for task in group.tasks}
        assert set(found.subgroup_of.values()) == {each.name for each in leaves}
    else:
        assert (found.pods, found.subgroup_of) == (pods, {})


@given(groups())
def test_names_differ_and_parents_come_before_their_children(group: GroupSpec):
    found = outline(group)
    seen: set[str] = set()
    for each in found.subgroups:
        assert each.name not in seen
        assert each.parent is None or each.parent in seen
        seen.add(each.name)


@given(groups())
def test_no_requirement_is_lost(group: GroupSpec):
    """Of each task the finest required level is kept, in its subgroup, above it or at the top."""
    found = outline(group)
    subgroups = {each.name: each for each in found.subgroups}
    for task in group.tasks:
        kept = {found.constraint.required} if found.constraint else set()
        at = found.subgroup_of.get(task.name)
        while at is not None:
            kept.add(subgroups[at].constraint.required)
            at = subgroups[at].parent
        hard = [key.label for key in KEYS if any(need.key == key.key and need.required for need in task.topology)]
        assert hard[-1:] == [label for label in hard[-1:] if label in kept]


@given(groups())
def test_who_asks_for_nothing_gets_no_condition_and_the_name_of_the_catch_all(group: GroupSpec):
    found = outline(group)
    if any(task.topology for task in group.tasks):
        subgroups = {each.name: each for each in found.subgroups}
        for name in (task.name for task in group.tasks if not task.topology):
            leaf = subgroups[found.subgroup_of[name]]
            assert (leaf.name, leaf.constraint.required, found.constraint) == (CATCH_ALL, None, None)


@given(groups())
def test_equal_groups_give_equal_outlines(group: GroupSpec):
    assert outline(group) == outline(group)
