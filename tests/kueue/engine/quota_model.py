"""A slow and simple model of the quota tree: every number is computed from the usage of the leaves when it is needed.
It is independent of the engine and shares only the values of ``domain.kueue`` with it.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from runrig.domain.balances import Balance, Share
from runrig.domain.pools import Quota, Quotas
from runrig.domain.quantities import FlavorResource
from runrig.kueue.declared import ClusterQueue, QueueCohort, ResourceGroup, StopPolicy, System

QUEUE = "queue"
COHORT = "cohort"
INFINITE = 2**63 - 1

Amounts = dict[FlavorResource, int]
Usage = dict[tuple[str, FlavorResource], int]
"""What each queue holds, by (queue, flavor and resource); what is not listed is 0."""


class Node(NamedTuple):
    kind: str
    name: str


class Weighted(NamedTuple):
    """A comparable share: a node with weight 0 that borrows comes after all others."""

    infinite: bool
    ratio: Fraction


class Dominant(NamedTuple):
    ratio: Fraction
    resource: str
    borrowing: bool


def plus(usage: Usage, queue: str, amounts: Mapping[FlavorResource, int], times: int = 1) -> Usage:
    """*usage* plus *amounts* in *queue*; *times* -1 subtracts them."""
    after = dict(usage)
    for fr, amount in amounts.items():
        after[queue, fr] = after.get((queue, fr), 0) + times * amount
    return after


class Tree:
    """Queues and cohorts, including cohorts that are only named."""

    def __init__(self, system: System) -> None:
        self.queues: dict[str, ClusterQueue] = {queue.name: queue for queue in system.queues}
        defined = {flavor.name for flavor in system.flavors}
        self.without_flavor = {
            queue.name
            for queue in system.queues
            if defined and any(not defined.issuperset(group.flavors) for group in queue.groups)
        }
        self.cohorts: dict[str, QueueCohort] = {cohort.name: cohort for cohort in system.cohorts}
        named = [queue.cohort for queue in system.queues] + [cohort.parent for cohort in system.cohorts]
        for name in named:
            if name is not None and name not in self.cohorts:
                self.cohorts[name] = QueueCohort(name)
        self.nodes = [Node(QUEUE, name) for name in sorted(self.queues)]
        self.nodes += [Node(COHORT, name) for name in sorted(self.cohorts)]
        self.below: dict[Node | None, list[Node]] = {}
        for node in self.nodes:
            self.below.setdefault(self.parent(node), []).append(node)

    def parent(self, node: Node) -> Node | None:
        name = self.queues[node.name].cohort if node.kind == QUEUE else self.cohorts[node.name].parent
        return None if name is None else Node(COHORT, name)

    def children(self, node: Node) -> list[Node]:
        return self.below.get(node, [])

    def path(self, node: Node) -> list[Node]:
        """*node* and its ancestors, bottom up. Raises ValueError if the parents form a cycle."""
        path = [node]
        while (above := self.parent(path[-1])) is not None:
            if above in path:
                raise ValueError(f"cycle above {node}")
            path.append(above)
        return path

    def in_cycle(self, node: Node) -> bool:
        try:
            self.path(node)
        except ValueError:
            return True
        return False

    def root(self, node: Node) -> Node | None:
        """None if the parents form a cycle."""
        return None if self.in_cycle(node) else self.path(node)[-1]

    def height(self, node: Node) -> int:
        """The number of edges to the deepest leaf, without queues in which nothing new starts."""
        counted = (child for child in self.children(node) if child.kind == COHORT or self.open(child.name))
        return max((1 + self.height(child) for child in counted), default=0)

    def open(self, queue: str) -> bool:
        return self.queues[queue].stop is StopPolicy.NONE and queue not in self.without_flavor

    def quotas(self, node: Node) -> Quotas:
        return self.queues[node.name].quotas if node.kind == QUEUE else self.cohorts[node.name].quotas

    def quota(self, node: Node, fr: FlavorResource) -> Quota:
        return self.quotas(node).get(fr, Quota())

    def weight(self, node: Node) -> Fraction:
        return self.queues[node.name].weight if node.kind == QUEUE else self.cohorts[node.name].weight

    def listed(self, node: Node) -> set[FlavorResource]:
        """Every (flavor, resource) with a quota at the node or below it."""
        return set(self.quotas(node)).union(*(self.listed(child) for child in self.children(node)))

    def subtree(self, node: Node, fr: FlavorResource) -> int:
        total = self.quota(node, fr).nominal
        for child in self.children(node):
            below, limit = self.subtree(child, fr), self.quota(child, fr).lending_limit
            total += below if limit is None else min(below, limit)
        return total

    def local(self, node: Node, fr: FlavorResource) -> int:
        limit = self.quota(node, fr).lending_limit
        return 0 if limit is None else max(0, self.subtree(node, fr) - limit)

    def potential(self, node: Node, fr: FlavorResource) -> int:
        above = self.parent(node)
        if above is None:
            return self.subtree(node, fr)
        most = self.local(node, fr) + self.potential(above, fr)
        limit = self.quota(node, fr).borrowing_limit
        return most if limit is None else min(most, self.subtree(node, fr) + limit)

    def group_of(self, queue: str, resource: str) -> ResourceGroup | None:
        return next((group for group in self.queues[queue].groups if resource in group.resources), None)


class Ledger:
    """The tree with a usage. Immutable: another usage is another ledger."""

    def __init__(self, tree: Tree, usage: Usage) -> None:
        self.tree = tree
        self.usage_of_queues = usage

    def plus(self, queue: str, amounts: Mapping[FlavorResource, int]) -> "Ledger":
        return Ledger(self.tree, plus(self.usage_of_queues, queue, amounts))

    def minus(self, queue: str, amounts: Mapping[FlavorResource, int]) -> "Ledger":
        return Ledger(self.tree, plus(self.usage_of_queues, queue, amounts, times=-1))

    def usage(self, node: Node, fr: FlavorResource) -> int:
        if node.kind == QUEUE:
            return self.usage_of_queues.get((node.name, fr), 0)
        tree = self.tree
        return sum(max(0, self.usage(child, fr) - tree.local(child, fr)) for child in tree.children(node))

    def local_available(self, node: Node, fr: FlavorResource) -> int:
        return max(0, self.tree.local(node, fr) - self.usage(node, fr))

    def available(self, node: Node, fr: FlavorResource) -> int:
        tree = self.tree
        above = tree.parent(node)
        if above is None:
            return tree.subtree(node, fr) - self.usage(node, fr)
        room = self.available(above, fr)
        limit = tree.quota(node, fr).borrowing_limit
        if limit is not None:
            local = tree.local(node, fr)
            stored = tree.subtree(node, fr) - local
            room = min(room, stored - max(0, self.usage(node, fr) - local) + limit)
        return self.local_available(node, fr) + room

    def fits(self, queue: str, amounts: Mapping[FlavorResource, int]) -> bool:
        node = Node(QUEUE, queue)
        return all(amount <= max(0, self.available(node, fr)) for fr, amount in amounts.items())

    def borrows(self, node: Node, fr: FlavorResource, more: int = 0) -> bool:
        """True if a queue exceeds its nominal quota, or a cohort that of its subtree."""
        return self.usage(node, fr) + more > self.tree.subtree(node, fr)

    def borrows_any(self, node: Node, frs: Iterable[FlavorResource]) -> bool:
        return any(self.borrows(node, fr) for fr in frs)

    def balance(self, node: Node, fr: FlavorResource) -> int:
        """T of rule Q3, computed from its definition and not from other numbers."""
        tree = self.tree
        if node.kind == QUEUE:
            return tree.quota(node, fr).nominal - self.usage_of_queues.get((node.name, fr), 0)
        total = tree.quota(node, fr).nominal
        for child in tree.children(node):
            below, limit = self.balance(child, fr), tree.quota(child, fr).lending_limit
            total += below if limit is None else min(limit, below)
        return total

    def valid(self, fr: FlavorResource) -> bool:
        """Rule Q3 at every node."""
        for node in self.tree.nodes:
            if self.tree.in_cycle(node):
                continue
            limit = self.tree.quota(node, fr).borrowing_limit
            if self.tree.parent(node) is None:
                limit = 0
            if limit is not None and self.balance(node, fr) < -limit:
                return False
        return True

    def borrowing_level(self, queue: str, fr: FlavorResource, amount: int) -> tuple[int, bool]:
        """The borrowing level of a request, and whether it is below the root's."""
        tree, node = self.tree, Node(QUEUE, queue)
        above = tree.parent(node)
        if above is None or not self.borrows(node, fr, amount):
            return 0, above is not None
        left = amount - self.local_available(node, fr)
        for cohort in tree.path(node)[1:]:
            if tree.subtree(cohort, fr) >= self.usage(cohort, fr) + left:
                return tree.height(cohort), tree.parent(cohort) is not None
            left -= self.local_available(cohort, fr)
        return tree.height(tree.path(node)[-1]), False

    def dominant(self, node: Node) -> Dominant:
        tree = self.tree
        above = tree.parent(node)
        if above is None:
            return Dominant(Fraction(0), "", False)
        borrowed: dict[str, int] = {}
        for fr in tree.listed(node):
            over = self.usage(node, fr) - tree.subtree(node, fr)
            if over > 0:
                borrowed[fr.resource] = borrowed.get(fr.resource, 0) + over
        best = Dominant(Fraction(0), "", bool(borrowed))
        for resource in sorted(borrowed):
            root = tree.path(node)[-1]
            lendable = sum(tree.potential(above, fr) for fr in tree.listed(root) if fr.resource == resource)
            ratio = Fraction(borrowed[resource] * 1000, lendable) if lendable > 0 else Fraction(0)
            if ratio > best.ratio:
                best = Dominant(ratio, resource, True)
        return best

    def weighted(self, node: Node) -> Weighted:
        ratio, weight = self.dominant(node).ratio, self.tree.weight(node)
        if weight == 0:
            return Weighted(ratio > 0, ratio)
        return Weighted(False, ratio / weight)

    def share(self, node: Node) -> Share:
        dominant, weighted = self.dominant(node), self.weighted(node)
        value = INFINITE if weighted.infinite else -(-weighted.ratio.numerator // weighted.ratio.denominator)
        return Share(value, dominant.resource, dominant.borrowing)

    def numbers(self, node: Node, fr: FlavorResource) -> Balance:
        tree = self.tree
        return Balance(
            nominal=tree.quota(node, fr).nominal,
            subtree=tree.subtree(node, fr),
            local=tree.local(node, fr),
            usage=self.usage(node, fr),
            balance=self.balance(node, fr),
            available=self.available(node, fr),
            potential=tree.potential(node, fr),
        )
