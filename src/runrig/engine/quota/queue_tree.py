"""The quota trees of imported queues: cohorts above, one plain leaf per cluster queue, no implicit root (laws Q1, Q5, Q6)."""

from collections.abc import Iterable, Iterator

from runrig.domain.kueue import Balance, ClusterQueue, Inactive, QueueCohort, Workload
from runrig.domain.pools import Quotas
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.quota_node import REAL, Kind, QuotaNode, headroom, potential, prepare, sum_up, upwards

COHORT_CYCLE = "CohortCycle"


class QueueTree:
    """Every tree.  *index_of*: where a (flavor, resource) lies in the lists of a node.  Only usage changes after building."""

    def __init__(
        self, cohorts: Iterable[QueueCohort], queues: Iterable[ClusterQueue], workloads: Iterable[Workload]
    ) -> None:
        declared = {each.name: each for each in sorted(cohorts, key=lambda each: each.name)}
        listed = {each.name: each for each in sorted(queues, key=lambda each: each.name)}
        keys = {key for each in declared.values() for key in each.quotas}
        keys |= {key for each in listed.values() for key in each.quotas}
        keys |= {FlavorResource(flavor, resource) for each in workloads for flavor, resource in _held(each)}
        self.keys: tuple[FlavorResource, ...] = tuple(sorted(keys))
        self.index_of: dict[FlavorResource, int] = {key: index for index, key in enumerate(self.keys)}
        self.weights = {each.name: each.weight for each in listed.values()}
        self.cohort_weights = {each.name: each.weight for each in declared.values()}
        named = {each.parent for each in declared.values()} | {each.cohort for each in listed.values()}
        self.cohorts: dict[str, QuotaNode] = {
            name: self._node(Kind.COHORT, name, declared[name].quotas if name in declared else {})
            for name in sorted(declared.keys() | {name for name in named if name})
        }
        self.queues: dict[str, QuotaNode] = {
            name: self._node(Kind.QUEUE, name, each.quotas) for name, each in listed.items()
        }
        for name, cohort in declared.items():
            self._hang(self.cohorts[name], cohort.parent)
        for name, queue in listed.items():
            self._hang(self.queues[name], queue.cohort)
        self._link()

    def _node(self, kind: Kind, name: str, quotas: Quotas) -> QuotaNode:
        return QuotaNode(kind, name, {self.index_of[key]: quota for key, quota in quotas.items()}, len(self.keys))

    def _hang(self, node: QuotaNode, parent: str | None) -> None:
        if parent:
            node.parent = self.cohorts[parent]
            node.parent.children.append(node)

    def _link(self) -> None:
        for node in self.nodes():
            node.path = tuple(upwards(node))
            node.active = node.path[-1].parent is None
        for node in sorted(self.nodes(), key=lambda node: -len(node.path)):
            if node.active:
                self._sum_up(node)
        for leaf in self.queues.values():
            prepare(leaf)

    @staticmethod
    def _sum_up(node: QuotaNode) -> None:
        """The node's subtree quota, of children that are summed up already.  A root's limits mean nothing."""
        node.height = 1 + max((child.height for child in node.children), default=-1)
        for index, nominal in enumerate(node.nominal):
            sum_up(node, index, nominal, limited=node.parent is not None)

    def nodes(self) -> Iterator[QuotaNode]:
        """Cohorts, then queues, each sorted by name."""
        yield from self.cohorts.values()
        yield from self.queues.values()

    def label(self, node: QuotaNode) -> str:
        """What the node is called where queues and cohorts are listed together."""
        return f"cohort/{node.name}" if node.kind is Kind.COHORT and node.name in self.queues else node.name

    def inactive(self) -> tuple[Inactive, ...]:
        """Those whose parents run in a circle (law Q5), sorted by name."""
        kinds = {Kind.COHORT: "Cohort", Kind.QUEUE: "ClusterQueue"}
        found = [Inactive(node.name, kinds[node.kind], COHORT_CYCLE) for node in self.nodes() if not node.active]
        return tuple(sorted(found, key=lambda each: (each.name, each.kind)))

    def balances(self) -> dict[str, dict[FlavorResource, Balance]]:
        """By node: the numbers of laws Q3 and Q4 for what it declares or holds, of a cohort also what is below it."""
        shown: dict[str, set[int]] = {}
        for node in sorted(self.nodes(), key=lambda node: -len(node.path)):
            if node.active:
                own = {index for index in range(len(self.keys)) if self._concerns(node, index)}
                shown[self.label(node)] = own.union(*(shown[self.label(child)] for child in node.children))
        by_label = {self.label(node): node for node in self.nodes()}
        return {
            label: {self.keys[index]: _balance(by_label[label], index) for index in sorted(shown[label])}
            for label in sorted(shown)
        }

    def _concerns(self, node: QuotaNode, index: int) -> bool:
        return index in node.declared or bool(node.usage[REAL][index])


def _balance(node: QuotaNode, index: int) -> Balance:
    lends = node.lending[index]
    return Balance(
        nominal=node.nominal[index],
        subtree=node.subtree[index],
        local=0 if lends is None else max(0, node.subtree[index] - lends),
        usage=node.usage[REAL][index],
        balance=node.balance(index),
        available=headroom(node, index, REAL),
        potential=potential(node, index),
    )


def _held(workload: Workload) -> Iterator[tuple[str, str]]:
    for granted in workload.granted or ():
        flavors = dict(granted.flavors)
        yield from ((flavors[resource], resource) for resource, _ in granted.usage if resource in flavors)
