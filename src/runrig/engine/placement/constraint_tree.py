"""Which pods of a gang shall lie near each other: its constraint tree for so many pods, with slices written out (law T3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from runrig.domain.constraints import Branch, tree_of
from runrig.domain.errors import Refused
from runrig.domain.gangs import PodSet
from runrig.domain.pools import TopologyKey
from runrig.engine.nodes.topology import ROOT, TopologyIndex

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
