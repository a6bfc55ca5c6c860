"""The quota trees of imported queues: cohorts, with one leaf per cluster queue and no implicit root (rules Q1, Q5, Q6)."""

from collections.abc import Iterable, Iterator

from runrig.domain.balances import Balance
from runrig.domain.kueue import Inactive
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.numbers import balance_of
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaLeaf, QuotaNode
from runrig.engine.quota.tree import TreeBuilder, hang
from runrig.kueue.declared import ClusterQueue, QueueCohort, Workload

COHORT_CYCLE = "CohortCycle"
QUEUE = "ClusterQueue"
Listed = tuple[str, str, str, str | None]
"""A node: its label, name and kind, and the label of its parent."""
_KINDS = {NodeKind.COHORT: "Cohort", NodeKind.QUEUE: QUEUE}


class QueueTree:
    """All trees. *index_of*: (flavor, resource) → its index in the lists of a node. Only usage changes after construction."""

    def __init__(
        self, cohorts: Iterable[QueueCohort], queues: Iterable[ClusterQueue], workloads: Iterable[Workload]
    ) -> None:
        declared = {cohort.name: cohort for cohort in sorted(cohorts, key=lambda cohort: cohort.name)}
        listed = {queue.name: queue for queue in sorted(queues, key=lambda queue: queue.name)}
        quotas = [*(cohort.quotas for cohort in declared.values()), *(queue.quotas for queue in listed.values())]
        held = {FlavorResource(*pair) for workload in workloads for pair in _held(workload)}
        builder = TreeBuilder([*held, *(key for each in quotas for key in each)])
        self.keys = builder.keys
        self.index_of = builder.index_of
        parents = {cohort.parent for cohort in declared.values()} | {queue.cohort for queue in listed.values()}
        self.cohorts: dict[str, QuotaNode] = {}
        for name in sorted(declared.keys() | {name for name in parents if name}):
            known = declared.get(name, QueueCohort(name))
            self.cohorts[name] = builder.node(NodeKind.COHORT, name, known.quotas, known.weight)
        self.queues: dict[str, QuotaLeaf] = {
            name: builder.leaf(NodeKind.QUEUE, name, queue.quotas, queue.weight) for name, queue in listed.items()
        }
        for name, cohort in declared.items():
            if cohort.parent:
                hang(self.cohorts[name], self.cohorts[cohort.parent])
        for name, queue in listed.items():
            if queue.cohort:
                hang(self.queues[name], self.cohorts[queue.cohort])
        builder.finish()
        self.leave_out(())

    def nodes(self) -> Iterator[QuotaNode]:
        """Yields cohorts, then queues, each sorted by name."""
        yield from self.cohorts.values()
        yield from self.queues.values()

    def label(self, node: QuotaNode) -> str:
        """The name of *node* in lists of queues and cohorts."""
        return f"cohort/{node.name}" if node.kind is NodeKind.COHORT and node.name in self.queues else node.name

    def listed(self) -> Iterator[Listed]:
        """Yields all nodes, also cohorts that are only referred to."""
        for node in self.nodes():
            yield self.label(node), node.name, _KINDS[node.kind], self.label(node.parent) if node.parent else None

    def leave_out(self, queues: Iterable[str]) -> None:
        """Computes heights without *queues*; what these have and use still counts."""
        left_out = {self.queues[name] for name in queues}
        for cohort in sorted(self.cohorts.values(), key=lambda node: -len(node.path)):
            cohort.height = max((child.height + 1 for child in cohort.children if child not in left_out), default=0)

    def inactive(self) -> tuple[Inactive, ...]:
        """Queues and cohorts in or below a cycle of cohorts (rule Q5), sorted by name."""
        found = [
            Inactive(node.name, _KINDS[node.kind], COHORT_CYCLE, self._held(node))
            for node in self.nodes()
            if not node.active
        ]
        return tuple(sorted(found, key=lambda each: (each.name, each.kind)))

    def _held(self, node: QuotaNode) -> tuple[tuple[FlavorResource, int], ...]:
        return tuple((key, node.usage[REAL][index]) for key, index in self.index_of.items() if node.usage[REAL][index])

    def balances(self) -> dict[str, dict[FlavorResource, Balance]]:
        """Node → the numbers of rules Q3 and Q4 for what it declares or uses; for a cohort, including what is below it."""
        shown: dict[str, set[int]] = {}
        for node in sorted(self.nodes(), key=lambda node: -len(node.path)):
            if node.active:
                own = {index for index in range(len(self.keys)) if self._concerns(node, index)}
                shown[self.label(node)] = own.union(*(shown[self.label(child)] for child in node.children))
        by_label = {self.label(node): node for node in self.nodes()}
        return {
            label: {self.keys[index]: balance_of(by_label[label], index) for index in sorted(shown[label])}
            for label in sorted(shown)
        }

    def _concerns(self, node: QuotaNode, index: int) -> bool:
        return index in node.declared or bool(node.usage[REAL][index])


def _held(workload: Workload) -> Iterator[tuple[str, str]]:
    for granted in workload.granted or ():
        flavors = dict(granted.flavors)
        yield from ((flavors[resource], resource) for resource, _ in granted.usage if resource in flavors)
