"""The constraint tree of a task group: which of its pods shall lie together, level by level (topology-aware-scheduling.md; law T3).

Levels are those that some task of the group names, in the order of the pool's keys, coarse to fine.  A task that names none of
a level gets a pad there: a branch without a name that is preferred, and shared by all such tasks under the same parent.  So
every leaf lies at the same depth.  A branch with slices stands for all of them; `constraints_of` writes them out, for so many
pods per pod set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from runrig.domain.errors import Refused
from runrig.domain.gangs import PodSet, Requirement
from runrig.domain.pools import Pool, TopologyKey
from runrig.domain.workflows import TaskSpec, WorkflowSpec
from runrig.engine.nodes.topology import ROOT, TopologyIndex


class Asking(Protocol):
    """What has requirements: a task of a file, or a pod set of a gang."""

    @property
    def name(self) -> str: ...

    @property
    def pods(self) -> int: ...

    @property
    def topology(self) -> tuple[Requirement, ...]: ...


@dataclass(frozen=True, slots=True)
class Branch:
    """Pods that shall lie in one domain of *key*; None: the root, which asks for nothing.

    *group*: as the tasks name it, None of a pad.  *tasks*: only of leaves; the root is one where nobody asks for anything.
    *slice_size*: so many consecutive pods at a time of the one task below it, and not all together; None: all.
    """

    key: TopologyKey | None = None
    group: str | None = None
    required: bool = False
    branches: tuple["Branch", ...] = ()
    tasks: tuple[Asking, ...] = ()
    slice_size: int | None = None

    @property
    def pods(self) -> int:
        """All below it, as asked for."""
        return sum(task.pods for task in self.tasks) + sum(each.pods for each in self.branches)

    def leaves(self) -> Iterator["Branch"]:
        if not self.branches:
            yield self
        for each in self.branches:
            yield from each.leaves()


def tree_of(keys: Sequence[TopologyKey], tasks: Sequence[Asking]) -> Branch:
    """The root.  Branches and tasks are in the order of the file; all keys must be among *keys*.

    Raises Refused if one group is required by one task and preferred by another, a task names a key twice, a group of
    several tasks has slices, or finer slices do not divide the coarser.
    """
    named = {asked.key for task in tasks for asked in task.topology}
    levels = [key for key in keys if key.key in named]
    for task in tasks:
        _check_slices(levels, task)
    return Branch(branches=_branches(levels, tasks), tasks=() if levels else tuple(tasks))


def _branches(levels: Sequence[TopologyKey], tasks: Sequence[Asking]) -> tuple[Branch, ...]:
    if not levels:
        return ()
    key, finer = levels[0], levels[1:]
    members: dict[str | None, list[Asking]] = {}
    for task in tasks:
        asked = _asked(task, key.key)
        members.setdefault(asked.group if asked else None, []).append(task)
    return tuple(
        Branch(
            key,
            group,
            group is not None and _required(key.key, group, inside),
            _branches(finer, inside),
            () if finer else tuple(inside),
            None if group is None else _slice_size(key.key, group, inside),
        )
        for group, inside in members.items()
    )


def _asked(task: Asking, key: str) -> Requirement | None:
    found = [asked for asked in task.topology if asked.key == key]
    if len(found) > 1:
        raise Refused(f"task {task.name} names topology key {key!r} twice: keep one of them", "T3")
    return found[0] if found else None


def _slice_size(key: str, group: str, tasks: Sequence[Asking]) -> int | None:
    sizes = {task.name: asked.slice_size for task in tasks if (asked := _asked(task, key)) is not None}
    sliced = [name for name, size in sizes.items() if size is not None]
    if sliced and len(tasks) > 1:
        raise Refused(
            f"group {group!r} of topology key {key!r} has slices of task {sliced[0]}, and other tasks beside it "
            f"({', '.join(task.name for task in tasks if task.name != sliced[0])}): give that task a group of its own",
            "T3",
            {"key": key, "group": group, "tasks": [task.name for task in tasks]},
        )
    return sizes[sliced[0]] if sliced else None


def _check_slices(levels: Sequence[TopologyKey], task: Asking) -> None:
    """Raises Refused where a slice would lie across two coarser ones."""
    coarser: Requirement | None = None
    for key in levels:
        asked = _asked(task, key.key)
        if asked is None or asked.slice_size is None:
            continue
        if coarser is not None and coarser.slice_size is not None and coarser.slice_size % asked.slice_size:
            raise Refused(
                f"task {task.name} has slices of {coarser.slice_size} pods for topology key {coarser.key!r} and of "
                f"{asked.slice_size} for {asked.key!r}, which is finer: {asked.slice_size} does not divide "
                f"{coarser.slice_size}, so write a sliceSize for {asked.key!r} that does",
                "T3",
                {"task": task.name, "sizes": {coarser.key: coarser.slice_size, asked.key: asked.slice_size}},
            )
        coarser = asked


def _required(key: str, group: str, tasks: Sequence[Asking]) -> bool:
    said = {task.name: asked.required for task in tasks if (asked := _asked(task, key)) is not None}
    hard, soft = ([name for name, required in said.items() if required is wanted] for wanted in (True, False))
    if hard and soft:
        raise Refused(
            f"group {group!r} of topology key {key!r} is required by task {hard[0]} and preferred by task {soft[0]}: "
            "write the same requirementType in both, or name two groups",
            "T3",
            {"key": key, "group": group, "required": hard, "preferred": soft},
        )
    return bool(hard)


# ---------------------------------------------------------------- checks


def check_requirements(pool: Pool, spec: WorkflowSpec) -> None:
    """Raises Refused for requirements that *pool* does not know, or that contradict each other (laws T3, T6)."""
    for group in spec.groups:
        for task in group.tasks:
            for asked in task.topology:
                _check_key(pool, task, asked)
        tree_of(pool.topology_keys, group.tasks)


def _check_key(pool: Pool, task: TaskSpec, asked: Requirement) -> None:
    known = [each.key for each in pool.topology_keys]
    details: dict[str, object] = {"pool": pool.name, "task": task.name, "key": asked.key, "keys": known}
    if not known:
        raise Refused(
            f"task {task.name} has a requirement for topology key {asked.key!r}, and pool {pool.name} has no topology keys: "
            "leave the requirement out, or choose a pool that has the key",
            "T6",
            details,
        )
    if asked.key not in known:
        raise Refused(
            f"topology key {asked.key!r} of task {task.name} was not found in pool {pool.name}: it has {', '.join(known)}",
            "T6",
            details,
        )


# ---------------------------------------------------------------- for so many pods


PodCounts = tuple[tuple[int, int], ...]
"""(place of the pod set in the gang, pods), in the order of their pods."""


@dataclass(frozen=True, slots=True)
class ConstraintNode:
    """Pods that shall lie in one domain of *level*, a place among the keys; ROOT: wherever.

    *required*: or not at all; else it is a preference.  *pods*: only where there are no *parts*.  *group*: as the tasks name it.
    """

    level: int
    required: bool
    pods: PodCounts = ()
    parts: tuple["ConstraintNode", ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementConstraints:
    """Told apart by identity: equal questions are answered with the same one.

    *labels* of the levels, coarse to fine.  *asks*: some pod set has a requirement, so that only labelled nodes will do.
    """

    labels: tuple[str, ...]
    root: ConstraintNode
    asks: bool


def constraints_of(
    keys: tuple[TopologyKey, ...], pod_sets: tuple[PodSet, ...], counts: tuple[int, ...]
) -> PlacementConstraints | None:
    """Of *counts* pods per pod set; None if a pod set names a key that is not among *keys*, or in an order that
    contradicts it: they were changed since the gate let it in."""
    if not any(each.topology for each in pod_sets):
        return PlacementConstraints(_labels(keys), ConstraintNode(ROOT, False, tuple(enumerate(counts))), False)
    return _near(keys, pod_sets, counts)


@lru_cache(maxsize=1024)
def _near(
    keys: tuple[TopologyKey, ...], pod_sets: tuple[PodSet, ...], counts: tuple[int, ...]
) -> PlacementConstraints | None:
    levels = {each.key: at for at, each in enumerate(keys)}
    if any(asked.key not in levels for each in pod_sets for asked in each.topology):
        return None
    try:
        branch = tree_of(keys, pod_sets)
    except Refused:  # the gate lets no such gang in: the keys of the pool have changed their order since
        return None
    return PlacementConstraints(_labels(keys), _Tree(levels, pod_sets, counts).root(branch), True)


@lru_cache(maxsize=256)
def _labels(keys: Sequence[TopologyKey]) -> tuple[str, ...]:
    return tuple(each.label for each in keys)


class _Tree:
    """Branches as knots."""

    def __init__(self, levels: dict[str, int], pod_sets: Sequence[PodSet], counts: Sequence[int]) -> None:
        self._levels = levels
        self._at = {each.name: at for at, each in enumerate(pod_sets)}
        self._counts = counts

    def root(self, branch: Branch) -> ConstraintNode:
        parts = [node for each in branch.branches for node in self._knots(each, None)]
        return ConstraintNode(ROOT, False, () if parts else self._pods(branch, None), tuple(parts))

    def _knots(self, branch: Branch, slice_pods: int | None) -> Iterator[ConstraintNode]:
        """One, or one for each slice.  *slice_pods*: so many of the one task below, where a coarser level has cut it already."""
        if branch.slice_size is None:
            yield self._knot(branch, slice_pods)
            return
        left = self._counts[self._at[_task(branch)]] if slice_pods is None else slice_pods
        while left > 0:
            yield self._knot(branch, min(left, branch.slice_size))
            left -= branch.slice_size

    def _knot(self, branch: Branch, slice_pods: int | None) -> ConstraintNode:
        assert branch.key is not None, "only the root has no key"
        parts = tuple(node for each in branch.branches for node in self._knots(each, slice_pods))
        pods = () if branch.branches else self._pods(branch, slice_pods)
        return ConstraintNode(self._levels[branch.key.key], branch.required, pods, parts, branch.group or "")

    def _pods(self, branch: Branch, slice_pods: int | None) -> PodCounts:
        places = [self._at[each.name] for each in branch.tasks]
        return tuple((at, self._counts[at] if slice_pods is None else slice_pods) for at in places)


def _task(branch: Branch) -> str:
    """The one task below a branch that has slices."""
    while branch.branches:
        branch = branch.branches[0]
    return branch.tasks[0].name


def holds_on(constraints: PlacementConstraints, topology: TopologyIndex, nodes: Sequence[Sequence[str]]) -> bool:
    """Whether pods on these *nodes*, one name per pod of each pod set in order, lie as they are required to."""
    if not constraints.asks:
        return True
    if any(topology.index.get(name, topology.labelled) >= topology.labelled for each in nodes for name in each):
        return False
    queues = [iter(each) for each in nodes]
    return _kept(constraints.root, topology, queues)[0]


def _kept(node: ConstraintNode, topology: TopologyIndex, queues: Sequence[Iterator[str]]) -> tuple[bool, list[int]]:
    """And where its pods stand, which are taken off *queues*."""
    places = [topology.index[next(queues[at])] for at, pods in node.pods for _ in range(pods)]
    fine = True
    for part in node.parts:
        good, inside = _kept(part, topology, queues)
        fine = fine and good
        places += inside
    together = not node.required or len({int(topology.of[node.level][place]) for place in places}) < 2
    return fine and together, places
