"""Preemption: which running gangs stop so that another may start (scheduling.md; laws R1-R5).

Candidates are taken as gone one by one, in one total order, until the preemptor fits; then, from the last but one back to
the first, each is put back if it fits all the same: what remains is irreducible (law R3).
Pure: edits the ledger on trial and always restores it.  Why it ends (law R5): only gangs that may not borrow preempt, they
are never preempted themselves, and each nomination holds its place until it is admitted.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

from runrig.domain.gangs import GangState, Law, Placement
from runrig.engine.balance import CHARGED, Kind, Request, TreeNode, fits, headroom
from runrig.engine.fit import settle, would_start
from runrig.engine.flavors import options
from runrig.engine.ledger import Entry, Ledger

MOST_SPARED = 8
"""How many cheaper candidates a preemption names (law R6)."""


class Told(NamedTuple):
    """A gang that has to stop.  *spared*: see `Preempt`."""

    gang: str
    law: Law
    spared: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """*placement*: where the preemptor goes once all of *gangs* are gone.  *told*: those of them that do not stop already."""

    placement: Placement
    gangs: tuple[str, ...]
    told: tuple[Told, ...]


def find_targets(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Targets | None:
    """The gangs whose stop lets *entry* start with *counts* pods; None if no legal set does.

    Flavors in the order of the pool, but first one in which only those have to be waited for that stop already.  Within one,
    O(candidates x (depth + nodes)).
    """
    leaf = ledger.leaf(entry)
    if not entry.bucket.firm or not leaf.active:
        return None
    first: Targets | None = None
    for choice, request in options(ledger, entry, counts):
        if _guaranteed(leaf, request):
            found = _Trial(ledger, entry, choice, request).run()
            if found is not None and (not found.told or not ledger.unclaimed):
                return first or found if found.told else found
            first = first or found
    return first


def _guaranteed(leaf: TreeNode, request: Request) -> bool:
    """Law P2 without Q3: the request is within what the pool was promised, here and in every pool above."""
    usage = leaf.usage[CHARGED]
    for index, amount in request:
        if usage[index] + amount > leaf.subtree[index]:
            return False
    return all(
        pool.used[CHARGED][index] + amount <= pool.nominal[index] for pool in leaf.capping for index, amount in request
    )


class _Trial:
    """One search in one choice of flavors."""

    def __init__(self, ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> None:
        self._ledger = ledger
        self._entry = entry
        self._choice = choice
        self._request = request
        self._leaf = ledger.leaf(entry)
        short = tuple(index for index, amount in request if amount > headroom(self._leaf, index))
        # Where the quota is there and only nodes are full, whoever holds of the same resources may be in the way.
        self._contested = short or tuple(index for index, _ in request)
        self._flavors = {each.flavor for each in choice} if ledger.place else set()
        self._resources = {resource for pod_set in entry.gang.pod_sets for resource, _ in pod_set.requests}
        self._seen: dict[str, str] = {}  # candidates in order, with the law that spares them unless they stay targets

    def run(self) -> Targets | None:
        gone: list[Entry] = []
        try:
            placement = self._fit()
            for candidate in self._candidates():
                if placement is not None:
                    break
                self._ledger.uncharge(candidate)
                gone.append(candidate)
                self._seen[candidate.gang.id] = "R3"
                placement = self._fit()
            if placement is None:
                return None
            kept = self._put_back(gone)
            placement = self._fit()
            assert placement is not None, "putting back must keep the fit"
            return self._targets(placement, kept)
        finally:
            for each in gone:
                if not each.charged:
                    self._ledger.charge(each)

    def _fit(self) -> Placement | None:
        """Where the preemptor goes as things stand on trial."""
        if not fits(self._leaf, self._request):
            return None
        return settle(self._ledger, self._entry, self._choice)

    def _put_back(self, gone: Sequence[Entry]) -> list[Entry]:
        """Those of *gone* that are needed: none of them can return without the preemptor losing its place."""
        kept = list(gone[-1:])
        for each in reversed(gone[:-1]):
            self._ledger.charge(each)
            if self._fit() is None:
                self._ledger.uncharge(each)
                kept.append(each)
        return kept[::-1]

    def _targets(self, placement: Placement, gone: Sequence[Entry]) -> Targets:
        own = self._entry.gang.pool
        spared = self._spared_before(gone)
        told = tuple(
            Told(each.gang.id, Law.PRIORITY if each.gang.pool == own else Law.RECLAIM, spared[each.gang.id])
            for each in gone
            if each.state is GangState.ADMITTED
        )
        leaving = tuple(each.gang.id for each in gone)
        return Targets(placement, (*leaving, *self._counted_on(placement, gone)), told)

    def _spared_before(self, gone: Sequence[Entry]) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each of *gone*: who came before it in the order and goes on, the last ones first."""
        going = {each.gang.id for each in gone}
        last: deque[tuple[str, str]] = deque(maxlen=MOST_SPARED)
        spared: dict[str, tuple[tuple[str, str], ...]] = {}
        for seen in self._seen.items():
            if seen[0] in going:
                spared[seen[0]] = tuple(reversed(last))
            else:
                last.append(seen)
        return spared

    def _counted_on(self, placement: Placement, gone: Sequence[Entry]) -> tuple[str, ...]:
        """Who stops for others and frees what the preemptor needs beside *gone*: it keeps its place until they are gone too."""
        ledger = self._ledger
        if not ledger.skewed:
            return ()
        with ledger.as_if_gone(gone):
            if would_start(ledger, self._entry, placement, self._request):
                return ()
        nodes = {share.node for each in placement for share in each.shares}
        indices = {index for index, _ in self._request}
        return tuple(
            name
            for name, each in sorted(ledger.stopping.items())
            if not each.charged
            and each not in gone
            and (indices.intersection(index for index, _ in each.request) or nodes.intersection(_nodes_of(each)))
        )

    # ------------------------------------------------------------ candidates, in the order of law R3

    def _candidates(self) -> Iterator[Entry]:
        """Already stopping; then who borrows, nearest common cohort first; then the own pool."""
        yield from self._stopping()
        yield from self._borrowers(inner_too=False)
        yield from self._borrowers(inner_too=True)
        yield from (each for _, each in self._ledger.preemptible.get(self._entry.gang.pool, ()) if self._may_go(each))

    def _stopping(self) -> Iterator[Entry]:
        for _, each in sorted(self._ledger.unclaimed.items()):
            if self._holds_contested(each):
                yield each

    def _may_go(self, candidate: Entry) -> bool:
        """It still counts, ranks lower, and holds of what is short."""
        return (
            candidate.charged and candidate.bucket.rank < self._entry.bucket.rank and self._holds_contested(candidate)
        )

    def _holds_contested(self, candidate: Entry) -> bool:
        return any(index in self._contested for index, _ in candidate.request) or self._in_the_way(candidate)

    def _in_the_way(self, candidate: Entry) -> bool:
        """It holds room on nodes of what the preemptor asks, be it something that no quota counts (law R1).

        The node's flavor of today counts: it may have changed since the candidate was admitted.
        """
        nodes = self._ledger.room.nodes
        return any(
            any(resource in self._resources for resource, _ in pod_set.requests)
            and any(share.node in nodes and nodes[share.node].node.flavor in self._flavors for share in each.shares)
            for each, pod_set in zip(candidate.placement, candidate.gang.pod_sets, strict=True)
        )

    def _borrowers(self, *, inner_too: bool) -> Iterator[Entry]:
        """LOW of other pools, from the own leaf's parent up; within one common cohort by priority, start and id.

        Safe is whoever sits in an outermost pool that is within its nominal (law R2).  *inner_too* takes, where that pool is
        over, also those of its inner pools that are not.
        """
        below: TreeNode = self._leaf
        for ancestor in self._leaf.path[1:]:
            siblings = [child for child in ancestor.children if child is not below and child.kind is not Kind.LOW]
            if ancestor.kind is not Kind.OWN:
                yield from self._of(siblings, inner_too=inner_too)
            below = ancestor

    def _of(self, subtrees: Iterable[TreeNode], *, inner_too: bool) -> Iterator[Entry]:
        leaves = [leaf for top in subtrees for leaf in self._low_leaves(top)]
        queues = [self._ledger.preemptible.get(leaf.name, []) for leaf, _ in leaves]
        pools_of = {leaf.name: pools for leaf, pools in leaves}
        for _, candidate in merge(*queues):
            if self._may_go(candidate):
                if self._unprotected(pools_of[candidate.gang.pool], inner_too=inner_too):
                    yield candidate
                else:
                    self._seen.setdefault(candidate.gang.id, "R2")

    def _low_leaves(self, top: TreeNode) -> Iterator[tuple[TreeNode, tuple[TreeNode, ...]]]:
        """The low leaves under *top*, each with the pools between, outermost first; protected subtrees are not entered."""
        stack: list[tuple[TreeNode, tuple[TreeNode, ...]]] = [(top, ())]
        while stack:
            node, pools = stack.pop()
            if node.kind is Kind.LOW:
                yield node, pools
                continue
            if node.kind is Kind.COHORT and not any(node.over[index] for index in self._contested):
                continue
            if node.kind is Kind.POOL:
                if not pools and not node.over_nominal(self._contested):
                    continue
                pools = (*pools, node)
            stack.extend((child, pools) for child in node.children if child.kind is not Kind.FIRM)

    def _unprotected(self, pools: Sequence[TreeNode], *, inner_too: bool) -> bool:
        """As things stand on trial: a pool that has come within its nominal is safe from then on."""
        asked = pools[:1] if inner_too else pools
        return all(pool.over_nominal(self._contested) for pool in asked)


def _nodes_of(entry: Entry) -> Iterator[str]:
    return (share.node for each in entry.placement for share in each.shares)
