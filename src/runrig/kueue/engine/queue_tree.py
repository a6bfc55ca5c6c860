"""The quota trees of imported queues: cohorts above, one plain leaf per cluster queue, no implicit root (laws Q1, Q5, Q6)."""

from collections.abc import Iterable, Iterator

from runrig.domain.balances import Balance
from runrig.domain.kueue import Inactive
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.numbers import balance_of
from runrig.engine.quota.quota_node import REAL, Kind, QuotaLeaf, QuotaNode
from runrig.engine.quota.tree import TreeBuilder, hang
from runrig.kueue.declared import ClusterQueue, QueueCohort, Workload

COHORT_CYCLE = "CohortCycle"


class QueueTree:
    """Every tree.  *index_of*: where a (flavor, resource) lies in the lists of a node.  Only usage changes after building."""

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
            known = declared.get(name)
            self.cohorts[name] = (
                builder.node(Kind.COHORT, name, known.quotas, known.weight)
                if known
                else builder.node(Kind.COHORT, name, {})
            )
        self.queues: dict[str, QuotaLeaf] = {
            name: builder.leaf(Kind.QUEUE, name, queue.quotas, queue.weight) for name, queue in listed.items()
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
        """Cohorts, then queues, each sorted by name."""
        yield from self.cohorts.values()
        yield from self.queues.values()

    def label(self, node: QuotaNode) -> str:
        """Returns what the node is called where queues and cohorts are listed together."""
        return f"cohort/{node.name}" if node.kind is Kind.COHORT and node.name in self.queues else node.name

    def leave_out(self, queues: Iterable[str]) -> None:
        """Heights from now on are those of the tree without *queues*; what these bring and hold still counts."""
        left_out = {self.queues[name] for name in queues}
        for cohort in sorted(self.cohorts.values(), key=lambda node: -len(node.path)):
            cohort.height = max((child.height + 1 for child in cohort.children if child not in left_out), default=0)

    def inactive(self) -> tuple[Inactive, ...]:
        """Queues and cohorts whose parents form a circle (law Q5), sorted by name."""
        kinds = {Kind.COHORT: "Cohort", Kind.QUEUE: "ClusterQueue"}
        found = [
            Inactive(node.name, kinds[node.kind], COHORT_CYCLE, self._held(node))
            for node in self.nodes()
            if not node.active
        ]
        return tuple(sorted(found, key=lambda each: (each.name, each.kind)))

    def _held(self, node: QuotaNode) -> tuple[tuple[FlavorResource, int], ...]:
        return tuple((key, node.usage[REAL][index]) for key, index in self.index_of.items() if node.usage[REAL][index])

    def balances(self) -> dict[str, dict[FlavorResource, Balance]]:
        """Returns for each node the numbers of laws Q3 and Q4 for what it declares or holds; for a cohort also what is below it."""
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
