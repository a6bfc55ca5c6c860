"""The gangs that may be stopped for another, in the order of law R3, and the gangs that are safe from it (laws R1, R2)."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter

from runrig.domain.gangs import Placement
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.quota.quota_node import Kind, QuotaLeaf, QuotaNode, Request, headroom
from runrig.engine.quota.tournament import Tournament, largest_share

LowLeaf = tuple[QuotaLeaf, tuple[QuotaNode, ...]]
"""A low leaf, and the pools between it and a common ancestor, outermost first."""

COHORT, POOL = Kind.COHORT, Kind.POOL  # looked up for each node of a tree

MOST_SPARED = 8
"""How many cheaper candidates a preemption names (law R6)."""


class Candidates:
    """The candidates of one preemptor in one choice of flavors.  While targets count as gone on trial, it judges what is left."""

    def __init__(self, ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> None:
        self._ledger = ledger
        self._entry = entry
        self._leaf = ledger.leaf(entry)
        self._rank = entry.bucket.rank
        short = tuple(index for index, amount in request if amount > headroom(self._leaf, index))
        # If there is quota and only nodes are full, any holder of the same resources may be in the way.
        self._contested = short or tuple(index for index, _ in request)
        self._flavors = {assignment.flavor for assignment in choice} if ledger.place else set()
        self._resources = {resource for pod_set in entry.gang.pod_sets for resource, _ in pod_set.requests}
        self._passed: dict[str, str] = {}  # id -> the law that spares it unless it becomes a target, in order

    def in_order(self) -> Iterator[Entry]:
        """Yields gangs that stop already, then borrowers (nearest common cohort first), then the own pool.  The caller may skip any."""
        for candidate in self._all():
            if self._draw(candidate):
                yield candidate

    def everybody(self) -> list[Entry]:
        """`in_order` as a list: while nobody is taken, a pool is over its nominal for all of its gangs or for none."""
        if self._ledger.tree.weighted:
            return list(self.in_order())
        drawn = [candidate for candidate in self._stopping() if self._draw(candidate)]
        for _, leaves, inner_too in self._borrowers():
            # The outermost pools are over nominal, or they were not entered.
            unprotected = {leaf.name: inner_too or self._unprotected(pools[1:]) for leaf, pools in leaves}
            holders = [each for name in unprotected for each in self._ledger.preemptible[name]]
            holders.sort(key=itemgetter(0))
            drawn += self._drawn([candidate for _, candidate in holders], unprotected)
        return drawn + [candidate for candidate in self._own() if self._draw(candidate)]

    def _drawn(self, holders: Sequence[Entry], unprotected: Mapping[str, bool]) -> list[Entry]:
        """The candidates among *holders* that were not drawn before."""
        passed, contested, rank = self._passed, self._contested, self._rank
        drawn = []
        for candidate in holders:
            name = candidate.gang.id
            if not candidate.charged or candidate.bucket.rank >= rank or passed.get(name) == "R3":
                continue
            for index, _ in candidate.request:
                if index in contested:
                    break
            else:
                if not self._in_the_way(candidate):
                    continue
            if unprotected[candidate.gang.pool]:
                passed[name] = "R3"
                drawn.append(candidate)
            else:
                passed.setdefault(name, "R2")
        self._ledger.effort += len(drawn)
        return drawn

    def _draw(self, candidate: Entry) -> bool:
        """False if it has been drawn before."""
        self._ledger.effort += 1
        if self._passed.get(candidate.gang.id) == "R3":
            return False
        self._passed[candidate.gang.id] = "R3"
        return True

    def may_take(self, candidate: Entry) -> bool:
        """True if law R2 does not protect *candidate* as things stand on trial."""
        if candidate.gang.pool == self._entry.gang.pool or candidate.gang.id in self._ledger.unclaimed:
            return True
        pools: list[QuotaNode] = []
        for node in self._ledger.leaf(candidate).path:
            if node in self._leaf.path:
                break
            if node.kind is Kind.POOL:
                pools.append(node)
        return self._unprotected(pools[-1:])

    def spared_before(self, gone: Sequence[Entry]) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each of *gone*, the candidates before it in the order that keep running, the latest first, each with its law."""
        going = {entry.gang.id for entry in gone}
        last: deque[tuple[str, str]] = deque(maxlen=MOST_SPARED)
        spared: dict[str, tuple[tuple[str, str], ...]] = {}
        for seen in self._passed.items():
            if seen[0] in going:
                spared[seen[0]] = tuple(reversed(last))
            else:
                last.append(seen)
        return spared

    # ------------------------------------------------------------ the order of law R3

    def _all(self) -> Iterator[Entry]:
        """May yield a gang twice: once as a borrower, once from an inner pool that does not borrow itself."""
        yield from self._stopping()
        for ancestor, leaves, inner_too in self._borrowers():
            yield from self._of(ancestor, leaves, inner_too=inner_too)
        yield from self._own()

    def _own(self) -> Iterator[Entry]:
        own_pool = self._ledger.preemptible.get(self._entry.gang.pool, ())
        return (candidate for _, candidate in own_pool if self._may_go(candidate))

    def _stopping(self) -> Iterator[Entry]:
        for _, entry in sorted(self._ledger.unclaimed.items()):
            if self._holds_contested(entry):
                yield entry

    def _may_go(self, candidate: Entry) -> bool:
        """True if *candidate* still counts, ranks lower, and holds something that is short."""
        return candidate.charged and candidate.bucket.rank < self._rank and self._holds_contested(candidate)

    def _holds_contested(self, candidate: Entry) -> bool:
        contested = self._contested
        for index, _ in candidate.request:
            if index in contested:
                return True
        return self._in_the_way(candidate)

    def _in_the_way(self, candidate: Entry) -> bool:
        """True if *candidate* holds on nodes what the preemptor asks for, even if no quota counts it (law R1).

        The node's present flavor counts: it may have changed since the candidate was admitted.
        """
        nodes = self._ledger.nodes.by_name
        return any(
            any(resource in self._resources for resource, _ in pod_set.requests)
            and any(
                share.node in nodes and nodes[share.node].node.flavor in self._flavors for share in assignment.shares
            )
            for assignment, pod_set in zip(candidate.placement, candidate.gang.pod_sets, strict=True)
        )

    def _borrowers(self) -> Iterator[tuple[QuotaNode, list[LowLeaf], bool]]:
        """Yields a common ancestor, low leaves of other pools below it, and *inner_too*; from the own leaf's parent up, twice.

        A gang is safe while its outermost pool is within its nominal (law R2).  If that pool is over, *inner_too* also takes
        gangs of its inner pools that are not: without weights nobody else is left by then.
        """
        for inner_too in (False, True):
            below: QuotaNode = self._leaf
            for ancestor in self._leaf.path[1:]:
                if ancestor.kind is not Kind.OWN:
                    tops = ancestor.children if ancestor.kind is Kind.POOL else ancestor.over
                    least = 2 if inner_too and not self._ledger.tree.weighted else 0
                    leaves = self._low_leaves([top for top in tops if top is not below], least)
                    if leaves:
                        yield ancestor, leaves, inner_too
                below = ancestor

    def _of(self, ancestor: QuotaNode, leaves: Sequence[LowLeaf], *, inner_too: bool) -> Iterator[Entry]:
        pools_of = {leaf.name: pools for leaf, pools in leaves}
        for candidate in self._in_order_under(ancestor, [leaf for leaf, _ in leaves]):
            if self._may_go(candidate):
                pools = pools_of[candidate.gang.pool]
                if self._unprotected(pools[:1] if inner_too else pools):
                    yield candidate
                else:
                    self._passed.setdefault(candidate.gang.id, "R2")

    def _in_order_under(self, ancestor: QuotaNode, leaves: Iterable[QuotaLeaf]) -> Iterator[Entry]:
        """Orders gangs by priority, start and id; if weights differ, by the largest share, with all drawn so far taken as gone."""
        holders = {leaf: self._ledger.preemptible[leaf.name] for leaf in leaves}
        if self._ledger.tree.weighted:
            return iter(Tournament(ancestor, {leaf: list(held) for leaf, held in holders.items()}, largest_share))
        return (entry for _, entry in merge(*holders.values()))

    def _low_leaves(self, tops: Sequence[QuotaNode], least: int) -> list[LowLeaf]:
        """The low leaves under *tops* that hold work, below *least* pools or more.

        Enters only subtrees with pools over nominal.  O(these).
        """
        contested, held, low = self._contested, self._ledger.preemptible, self._ledger.tree.low
        found: list[LowLeaf] = []
        stack: list[tuple[QuotaNode, tuple[QuotaNode, ...]]] = [(top, ()) for top in reversed(tops)]
        while stack:
            node, pools = stack.pop()
            if node.kind is COHORT:
                if any(node.pools_over_nominal[index] for index in contested):
                    stack += [(child, ()) for child in node.over]
                continue
            if node.kind is POOL:
                lone = len(node.children) == 1  # no subpools beside its own work
                if not pools and ((lone and least > 1) or not node.over_nominal(contested)):
                    continue
                pools = (*pools, node)
                if not lone:
                    stack += [(child, pools) for child in node.children if child.kind is POOL]
            if len(pools) >= least and held.get(node.name):
                found.append((low[node.name], pools))
        return found

    def _unprotected(self, pools: Sequence[QuotaNode]) -> bool:
        """True as long as *pools* are over nominal on trial: one that has come within its nominal is safe from then on."""
        contested = self._contested
        for pool in pools:  # noqa: SIM110  (a loop: this is asked for every candidate)
            if not pool.over_nominal(contested):
                return False
        return True
