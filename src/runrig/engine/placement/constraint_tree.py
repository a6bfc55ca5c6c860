"""The constraint tree of a task group: which pods are placed together, level by level (rule T3).

Its levels are the topology keys that some task of the group names, in the order of the pool's keys, coarse to fine. Tasks that
do not name a level share a pad there: an unnamed, preferred branch per parent. So all leaves have the same depth. A branch with
slices stands for all of its slices; `constraints_of` expands them for given pod counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from runrig.domain.errors import Refused
from runrig.domain.gangs import PodSet, Requirement
from runrig.domain.pools import Pool, TopologyKey
from runrig.domain.quantities import counted
from runrig.domain.workflows import TaskSpec, WorkflowSpec
from runrig.engine.nodes.topology import ROOT, TopologyIndex

Asking = TaskSpec | PodSet
"""Anything with topology requirements: a task of a workflow file, or a pod set of a gang."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Pods that go into one domain of *key*. *key* None: the root, without a requirement.

    *group*: the name in the tasks; None for a pad. *tasks*: on leaves only; the root is a leaf if no task has a requirement.
    *slice_size*: each slice of this many consecutive pods of the one task below needs its own domain; None: all pods together.
    """

    key: TopologyKey | None = None
    group: str | None = None
    required: bool = False
    branches: tuple["Branch", ...] = ()
    tasks: tuple[Asking, ...] = ()
    slice_size: int | None = None

    @property
    def pods(self) -> int:
        """The number of pods of all tasks below, without partial admission."""
        return sum(task.pods for task in self.tasks) + sum(branch.pods for branch in self.branches)

    def leaves(self) -> Iterator["Branch"]:
        if not self.branches:
            yield self
        for branch in self.branches:
            yield from branch.leaves()


def tree_of(keys: Sequence[TopologyKey], tasks: Sequence[Asking]) -> Branch:
    """Builds the tree and returns its root.

    Branches and tasks keep the order of *tasks*. *keys* must contain every key that a task names.
    Raises Refused if one task requires a group that another only prefers, a task names a key twice, or a group of several tasks
    has slices. It also does if the size of finer slices does not divide that of coarser ones.
    """
    named = {requirement.key for task in tasks for requirement in task.topology}
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
        requirement = _requirement(task, key.key)
        members.setdefault(requirement.group if requirement else None, []).append(task)
    return tuple(
        Branch(
            key,
            group,
            group is not None and _required(key.key, group, group_tasks),
            _branches(finer, group_tasks),
            () if finer else tuple(group_tasks),
            None if group is None else _slice_size(key.key, group, group_tasks),
        )
        for group, group_tasks in members.items()
    )


def _requirement(task: Asking, key: str) -> Requirement | None:
    """The requirement of *task* for *key*; None if it has none. Raises Refused if it has two."""
    matching = [requirement for requirement in task.topology if requirement.key == key]
    if len(matching) > 1:
        raise Refused(f"task {task.name} names topology key {key!r} twice. Keep one of them", "T3")
    return matching[0] if matching else None


def _slice_size(key: str, group: str, tasks: Sequence[Asking]) -> int | None:
    sizes = {
        task.name: requirement.slice_size for task in tasks if (requirement := _requirement(task, key)) is not None
    }
    sliced = [name for name, size in sizes.items() if size is not None]
    if sliced and len(tasks) > 1:
        raise Refused(
            f"group {group!r} of topology key {key!r} has slices of task {sliced[0]}, so it cannot contain other tasks "
            f"({', '.join(task.name for task in tasks if task.name != sliced[0])}). Use another group for task {sliced[0]}",
            "T3",
            {"key": key, "group": group, "tasks": [task.name for task in tasks]},
        )
    return sizes[sliced[0]] if sliced else None


def _check_slices(levels: Sequence[TopologyKey], task: Asking) -> None:
    """Raises Refused if a slice would extend over two coarser slices."""
    coarser: Requirement | None = None
    for key in levels:
        finer = _requirement(task, key.key)
        if finer is None or finer.slice_size is None:
            continue
        if coarser is not None and coarser.slice_size is not None and coarser.slice_size % finer.slice_size:
            raise Refused(
                f"task {task.name} has slices of {_pods(finer.slice_size)} for topology key {finer.key!r}, which does not divide its "
                f"slices of {_pods(coarser.slice_size)} for the coarser key {coarser.key!r}. Use a sliceSize for {finer.key!r} that "
                f"divides {coarser.slice_size}",
                "T3",
                {"task": task.name, "sizes": {coarser.key: coarser.slice_size, finer.key: finer.slice_size}},
            )
        coarser = finer


def _pods(count: int) -> str:
    return counted(count, "pod")


def _required(key: str, group: str, tasks: Sequence[Asking]) -> bool:
    requirements = [(task.name, _requirement(task, key)) for task in tasks]
    hard = [name for name, requirement in requirements if requirement is not None and requirement.required]
    soft = [name for name, requirement in requirements if requirement is not None and not requirement.required]
    if hard and soft:
        raise Refused(
            f"group {group!r} of topology key {key!r} is required by task {hard[0]} and preferred by task {soft[0]}. "
            "Use the same requirementType in both, or two groups",
            "T3",
            {"key": key, "group": group, "required": hard, "preferred": soft},
        )
    return bool(hard)


# ---------------------------------------------------------------- checks


def check_requirements(pool: Pool, spec: WorkflowSpec) -> None:
    """Raises Refused if a requirement names a key that *pool* does not have, or if requirements contradict each other (rules T3, T6)."""
    for group in spec.written:
        for task in group.tasks:
            for requirement in task.topology:
                _check_key(pool, task, requirement)
        tree_of(pool.topology_keys, group.tasks)


def _check_key(pool: Pool, task: TaskSpec, requirement: Requirement) -> None:
    known = [key.key for key in pool.topology_keys]
    details: dict[str, object] = {"pool": pool.name, "task": task.name, "key": requirement.key, "keys": known}
    if not known:
        raise Refused(
            f"task {task.name} has a requirement for topology key {requirement.key!r}, but pool {pool.name} has no topology keys. "
            "Remove the requirement, or use a pool with this key",
            "T6",
            details,
        )
    if requirement.key not in known:
        raise Refused(
            f"task {task.name}: pool {pool.name} has no topology key {requirement.key!r}. Available: {', '.join(known)}",
            "T6",
            details,
        )


# ---------------------------------------------------------------- with pod counts


PodCounts = tuple[tuple[int, int], ...]
"""(index of the pod set in the gang, pods), in pod order."""


@dataclass(frozen=True, slots=True)
class ConstraintNode:
    """Pods that go into one domain of *level*, an index into the pool's keys; ROOT: anywhere.

    *required*: True if the gang cannot start otherwise; False for a preference. *pods*: empty if there are *parts*. *group*:
    the name in the tasks.
    """

    level: int
    required: bool
    pods: PodCounts = ()
    parts: tuple["ConstraintNode", ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementConstraints:
    """Constraints of a gang with given pod counts. Compared by identity, because `constraints_of` caches them.

    *labels*: the node labels of the levels, coarse to fine. *asks*: some pod set has a requirement, so only nodes with all
    labels can be used.
    """

    labels: tuple[str, ...]
    root: ConstraintNode
    asks: bool


def constraints_of(
    keys: tuple[TopologyKey, ...], pod_sets: tuple[PodSet, ...], counts: tuple[int, ...]
) -> PlacementConstraints | None:
    """The constraints of a gang with *counts* pods per pod set.

    None if a pod set names a key that is not in *keys*, or if their order contradicts the gang: the pool's keys changed after
    submission.
    """
    if not any(pod_set.topology for pod_set in pod_sets):
        return _anywhere(keys, counts)
    return _expanded(keys, pod_sets, counts)


@lru_cache(maxsize=1024)
def _anywhere(keys: tuple[TopologyKey, ...], counts: tuple[int, ...]) -> PlacementConstraints:
    return PlacementConstraints(_labels(keys), ConstraintNode(ROOT, False, tuple(enumerate(counts))), False)


@lru_cache(maxsize=1024)
def _expanded(
    keys: tuple[TopologyKey, ...], pod_sets: tuple[PodSet, ...], counts: tuple[int, ...]
) -> PlacementConstraints | None:
    levels = {key.key: level for level, key in enumerate(keys)}
    if any(requirement.key not in levels for pod_set in pod_sets for requirement in pod_set.topology):
        return None
    try:
        branch = tree_of(keys, pod_sets)
    except Refused:  # submission would be rejected: the keys of the pool were reordered later
        return None
    return PlacementConstraints(_labels(keys), _Tree(levels, pod_sets, counts).root(branch), True)


def _labels(keys: Sequence[TopologyKey]) -> tuple[str, ...]:
    return tuple(key.label for key in keys)


class _Tree:
    """Converts branches to constraint nodes with pod counts."""

    def __init__(self, levels: dict[str, int], pod_sets: Sequence[PodSet], counts: Sequence[int]) -> None:
        self._levels = levels
        self._index = {pod_set.name: index for index, pod_set in enumerate(pod_sets)}
        self._counts = counts

    def root(self, branch: Branch) -> ConstraintNode:
        parts = [node for child in branch.branches for node in self._nodes(child, None)]
        return ConstraintNode(ROOT, False, () if parts else self._pods(branch, None), tuple(parts))

    def _nodes(self, branch: Branch, slice_pods: int | None) -> Iterator[ConstraintNode]:
        """Yields one node, or one per slice. *slice_pods*: pods of the one task below if a coarser level is already sliced."""
        if branch.slice_size is None:
            yield self._node(branch, slice_pods)
            return
        left = self._counts[self._index[_task(branch)]] if slice_pods is None else slice_pods
        while left > 0:
            yield self._node(branch, min(left, branch.slice_size))
            left -= branch.slice_size

    def _node(self, branch: Branch, slice_pods: int | None) -> ConstraintNode:
        assert branch.key is not None, "only the root has no key"
        parts = tuple(node for child in branch.branches for node in self._nodes(child, slice_pods))
        pods = () if branch.branches else self._pods(branch, slice_pods)
        return ConstraintNode(self._levels[branch.key.key], branch.required, pods, parts, branch.group or "")

    def _pods(self, branch: Branch, slice_pods: int | None) -> PodCounts:
        indices = [self._index[task.name] for task in branch.tasks]
        return tuple((index, self._counts[index] if slice_pods is None else slice_pods) for index in indices)


def _task(branch: Branch) -> str:
    """The name of the one task below a branch with slices."""
    while branch.branches:
        branch = branch.branches[0]
    return branch.tasks[0].name


def holds_on(constraints: PlacementConstraints, topology: TopologyIndex, nodes: Sequence[Sequence[str]]) -> bool:
    """Whether pods on these nodes meet all requirements. *nodes*: per pod set, the node name of each pod, in order."""
    if not constraints.asks:
        return True
    if any(topology.index.get(name, topology.labelled) >= topology.labelled for names in nodes for name in names):
        return False
    queues = [iter(names) for names in nodes]
    return _kept(constraints.root, topology, queues)[0]


def _kept(node: ConstraintNode, topology: TopologyIndex, queues: Sequence[Iterator[str]]) -> tuple[bool, list[int]]:
    """(whether *node* and its parts are met, the node index of each of its pods). Takes these pods from *queues*."""
    node_indices = [topology.index[next(queues[pod_set])] for pod_set, pods in node.pods for _ in range(pods)]
    parts_kept = True
    for part in node.parts:
        kept, part_indices = _kept(part, topology, queues)
        parts_kept = parts_kept and kept
        node_indices += part_indices
    together = not node.required or len({int(topology.of[node.level][index]) for index in node_indices}) < 2
    return parts_kept and together, node_indices
