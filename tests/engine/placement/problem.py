"""A placement problem as plain values: nodes, usage of others, levels, and the gang. Also functions that the solver,
the yardstick and the generator need: the room of a node, its domains, and which pods must be together. Nothing here
comes from the engine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from runrig.domain.gangs import PodSet
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED
from runrig.engine.placement.constraint_tree import Branch, tree_of

Domain = tuple[str, ...]
"""The labels from the coarsest level down to the domain's own: rack r1 of zone a is ("a", "r1")."""

ONE_FLAVOR = (Flavor(DEFAULT_FLAVOR),)


@dataclass(frozen=True, slots=True)
class Run:
    """Pods *start* … *stop*-1 of the pod set at *index*."""

    index: int
    start: int
    stop: int

    @property
    def pods(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Together:
    """Pods that must be in one domain of *level*, an index into the pool's keys; a slice is one of these."""

    level: int
    required: bool
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Problem:
    """*held*: node → resource → usage of other gangs. *counts*: pods per pod set, at most its count."""

    nodes: tuple[Node, ...]
    pod_sets: tuple[PodSet, ...]
    keys: tuple[TopologyKey, ...] = ()
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    flavors: tuple[Flavor, ...] = ONE_FLAVOR
    partial: tuple[int, ...] | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        return self.partial or tuple(each.count for each in self.pod_sets)

    @property
    def has_requirements(self) -> bool:
        return any(each.topology for each in self.pod_sets)

    @cached_property
    def node_of(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def room(self, node: Node, resource: str) -> int | None:
        """The free amount of *resource* on the node; None: no limit."""
        if resource not in node.resources:
            return None if resource in UNLISTED_IS_UNCOUNTED else 0
        return node.resources[resource] - self.held.get(node.name, {}).get(resource, 0)

    def path(self, node: Node) -> Domain | None:
        """The labels of all levels; None if it lacks one."""
        labels = {HOSTNAME: node.name, **node.labels}
        found = tuple(labels[key.label] for key in self.keys if key.label in labels)
        return found if len(found) == len(self.keys) else None

    def domain(self, node: Node, level: int) -> Domain:
        """The domain of *node*; a node without a label has one of its own."""
        path = self.path(node)
        return ("", node.name) if path is None else path[: level + 1]

    def takes(self, node: Node, pod_set: PodSet) -> bool:
        """True if one pod of *pod_set* fits there without the other pods of the gang."""
        flavor = next((each for each in self.flavors if each.name == node.flavor), None)
        if flavor is None or pod_set.platform not in (None, flavor.name) or not node.ready:
            return False
        if any(taint not in flavor.taints for taint in node.taints if taint.effect != "PreferNoSchedule"):
            return False
        if self.has_requirements and self.path(node) is None:
            return False
        rooms = ((self.room(node, resource), amount) for resource, amount in pod_set.requests)
        return all(room is None or room >= amount for room, amount in rooms)

    @cached_property
    def together(self) -> tuple[Together, ...]:
        """All groups of the constraint tree that have pods, coarse to fine; each slice separately."""
        return tuple(self._below(tree_of(self.keys, self.pod_sets)))

    def _below(self, branch: Branch, coarser: int | None = None) -> Iterator[Together]:
        """*coarser*: the size of the slices of *branch*; slices below are not larger."""
        for child in branch.branches:
            assert child.key is not None, "only the root has no key"
            level = self.keys.index(child.key)
            size = child.slice_size or coarser
            for runs in self._runs(child, size):
                yield Together(level, child.required, runs)
            yield from self._below(child, size)

    def _runs(self, branch: Branch, size: int | None) -> list[tuple[Run, ...]]:
        names = [task.name for leaf in branch.leaves() for task in leaf.tasks]
        numbered = [(at, self.counts[at]) for at, each in enumerate(self.pod_sets) if each.name in names]
        if size is None:
            whole = tuple(Run(at, 0, count) for at, count in numbered if count)
            return [whole] if whole else []
        return [
            (Run(at, start, min(start + size, count)),) for at, count in numbered for start in range(0, count, size)
        ]
