"""Properties of every constraint tree (rule T3)."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.gangs import Requirement
from runrig.domain.pools import TopologyKey
from runrig.domain.subgroups import Constraint, Outline
from runrig.domain.workflows import GroupSpec, TaskSpec
from runrig.engine.placement.constraint_tree import Branch, tree_of
from runrig.engine.placement.subgroups import CATCH_ALL, outline_of

KEYS = tuple(TopologyKey(name, f"x/{name}") for name in ("zone", "spine", "rack", "host"))
REQUIRED = {"zone": True, "spine": False, "rack": True, "host": False}
NAMES = st.sampled_from(["a", "A", "a-b", "b", "a_b", "rest", "b" * 63, "s1-0", "s1-0-s1"])
SUBGROUP = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    """Up to eight tasks, each with some levels. Whether a level is required is the same for all, so that none is
    rejected.
    """
    tasks = []
    for number in range(draw(st.integers(1, 8))):
        asked = draw(st.dictionaries(st.sampled_from(list(REQUIRED)), NAMES, max_size=4))
        count = draw(st.sampled_from([None, 1, 3]))
        needs = [Requirement(key, name, REQUIRED[key]) for key, name in asked.items()]
        if draw(st.booleans()):
            count, needs = draw(st.integers(1, 13)), [_maybe_sliced(draw, number, each) for each in needs]
        tasks.append(TaskSpec(f"t{number}", "i", ("run",), count=count, topology=_nested(needs)))
    return GroupSpec("g", tuple(tasks))


def _maybe_sliced(draw: st.DrawFn, number: int, need: Requirement) -> Requirement:
    """With slices, for now as multiples of those of the next finer level, and in a group of its own."""
    times = draw(st.sampled_from([None, 1, 2, 3]))
    return need if times is None else Requirement(need.key, f"s{number}", need.required, times)


def _nested(needs: list[Requirement]) -> tuple[Requirement, ...]:
    """*needs* in their order, each size a multiple of the finer ones."""
    sizes: dict[str, int] = {}
    size = 1
    for need in sorted(needs, key=lambda need: -list(REQUIRED).index(need.key)):
        if need.slice_size is not None:
            sizes[need.key] = size = size * need.slice_size
    return tuple(Requirement(need.key, need.group, need.required, sizes.get(need.key)) for need in needs)


def outline(group: GroupSpec) -> Outline:
    return outline_of(tree_of(KEYS, group.tasks))


def depths(branch: Branch, depth: int = 0) -> set[int]:
    return {depth} if not branch.branches else {each for below in branch.branches for each in depths(below, depth + 1)}


def above(found: Outline, task: TaskSpec, index: int) -> Iterator[tuple[str | None, Constraint]]:
    """(name, constraint) of everything that contains the pod: its leaf, the nodes above it, and the top, which has no
    name.
    """
    subgroups = {each.name: each for each in found.subgroups}
    at: str | None = found.subgroup_of[task.name][index] if found.subgroup_of else None
    while at is not None:
        yield at, subgroups[at].constraint
        at = subgroups[at].parent
    if found.constraint is not None:
        yield None, found.constraint


@given(groups())
def test_all_leaves_have_the_same_depth_and_contain_every_task_once(group: GroupSpec) -> None:
    root = tree_of(KEYS, group.tasks)
    assert len(depths(root)) == 1
    assert Counter(task.name for leaf in root.leaves() for task in leaf.tasks) == Counter(t.name for t in group.tasks)


@given(groups())
def test_each_pod_is_counted_in_one_leaf_or_at_the_top(group: GroupSpec) -> None:
    found = outline(group)
    parents = {each.parent for each in found.subgroups}
    leaves = {each.name: each.pods for each in found.subgroups if each.name not in parents}
    if found.subgroups:
        assert found.pods is None
        assert [each.pods for each in found.subgroups if each.name in parents] == [None] * (len(parents - {None}))
        assert {name: len(each) for name, each in found.subgroup_of.items()} == {t.name: t.pods for t in group.tasks}
        assert Counter(name for each in found.subgroup_of.values() for name in each) == leaves
    else:
        assert (found.pods, found.subgroup_of) == (sum(task.pods for task in group.tasks), {})


@given(groups())
def test_names_are_unique_labels_and_parents_come_before_their_children(group: GroupSpec) -> None:
    found = outline(group)
    seen: set[str] = set()
    for each in found.subgroups:
        assert SUBGROUP.fullmatch(each.name)
        assert each.name not in seen
        assert each.parent is None or each.parent in seen
        seen.add(each.name)


@given(groups())
def test_no_requirement_is_lost(group: GroupSpec) -> None:
    """The finest required level of each pod is kept, in its subgroup, above it or at the top."""
    found = outline(group)
    for task in group.tasks:
        hard = [key.label for key in KEYS if any(need.key == key.key and need.required for need in task.topology)]
        for index in range(task.pods):
            kept = {constraint.required for _, constraint in above(found, task, index)}
            assert hard[-1:] == [label for label in hard[-1:] if label in kept]


@given(groups())
def test_pods_share_a_level_only_with_those_of_their_slice(group: GroupSpec) -> None:
    """A finer level that they share implies it too."""
    found = outline(group)
    for task in group.tasks:
        inside = [dict(above(found, task, index)) for index in range(task.pods)]
        for need in task.topology:
            size = need.slice_size
            if not size:
                continue
            finer = {KEYS[at].label for at in range(list(REQUIRED).index(need.key), len(KEYS))}
            for one, other in combinations(range(task.pods), 2):
                shared = [inside[one][name] for name in inside[one] if name in inside[other]]
                near = any({each.required, each.preferred} & finer for each in shared)
                assert near == (one // size == other // size), (task, need, one, other)


@given(groups())
def test_tasks_without_requirements_get_no_constraint_and_the_catch_all_name(group: GroupSpec) -> None:
    found = outline(group)
    if any(task.topology for task in group.tasks):
        subgroups = {each.name: each for each in found.subgroups}
        for task in (task for task in group.tasks if not task.topology):
            assert found.subgroup_of[task.name] == [CATCH_ALL] * task.pods
            assert (subgroups[CATCH_ALL].constraint.required, found.constraint) == (None, None)


@given(groups())
def test_equal_groups_give_equal_outlines(group: GroupSpec) -> None:
    assert outline(group) == outline(group)


def test_slices_as_long_as_the_task_have_no_effect() -> None:
    """T3: a level that all pods share goes to the top, and in the tree the slices are one branch."""
    for size in (3, 10_000):
        task = TaskSpec("t", "i", ("run",), count=3, topology=(Requirement("rack", slice_size=size),))
        assert outline(GroupSpec("g", (task,))) == Outline(Constraint("x/rack"), (), 3, {})
        branch = Branch(KEYS[2], "default", required=True, tasks=(task,), slice_size=size)
        assert tree_of(KEYS, (task,)) == Branch(branches=(branch,))
