"""The gangs that can be preempted for another gang, in the order of rule R3, and those that are safe (rules R1, R2)."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.gangs import GangState, Placement
from runrig.engine.ledger.candidate_columns import CandidateColumns
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Ints
from runrig.engine.quota.quota_node import NodeKind, QuotaLeaf, QuotaNode, Request, headroom
from runrig.engine.quota.tournament import Tournament, largest_share

LowLeaf = tuple[QuotaLeaf, tuple[QuotaNode, ...]]
"""A low leaf, and the pools between it and a common ancestor, outermost first.

There is no pool between the work of a pool and the pool's own subpool. There `own` is used instead; its nominal is what is
unallocated.
"""

# Local names, because they are looked up for each node of a tree.
COHORT, POOL, OWN = NodeKind.COHORT, NodeKind.POOL, NodeKind.OWN

MOST_SPARED = 8
"""Maximum number of lower-cost candidates that a preemption lists (rule R6)."""

AT_ONCE = 4
"""Candidates drawn together that count as the effort of one drawn alone."""

SAFE, TAKEN = 1, 2
PoolTurn = Ints
"""By number of the pool: its gangs are TAKEN in this turn, or SAFE (rule R2), or it is not their turn (0)."""


class Drawn(NamedTuple):
    """All candidates in order: those that are already *stopping*, then those that are *running*, as slots of *columns*."""

    columns: CandidateColumns
    stopping: list[Entry]
    running: Ints

    def at(self, place: int) -> Entry:
        """The running candidate at index *place*."""
        entry: Entry = self.columns.entries[self.running[place]]
        return entry

    def entries(self) -> Iterator[Entry]:
        yield from self.stopping
        yield from map(self.columns.entries.__getitem__, self.running.tolist())


class Candidates:
    """The candidates of one preemptor for one choice of flavors. Their usage is judged without the targets taken so
    far.
    """

    def __init__(self, ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> None:
        self._ledger = ledger
        self._entry = entry
        self._leaf = ledger.leaf(entry)
        short = tuple(index for index, amount in request if amount > headroom(self._leaf, index))
        # If there is quota and only nodes are full, any gang that uses the same resources may be in the way.
        self._contested = short or tuple(index for index, _ in request)
        self._flavors = {assignment.flavor for assignment in choice} if ledger.place else set()
        self._resources = {resource for pod_set in entry.gang.pod_sets for resource, _ in pod_set.requests}
        self._passed: dict[str, str] = {}  # id → the rule that lets it keep running unless it is a target, in order
        # After these: the slots of those passed together, and by slot whether it was drawn.
        self._seen, self._taken = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)

    def in_order(self) -> Iterator[Entry]:
        """Yields stopping gangs, then borrowers (nearest common cohort first), then gangs of the own pool. The caller may skip any."""
        for candidate in self._all():
            if self._draw(candidate):
                yield candidate

    def everybody(self) -> "Drawn":
        """All of `in_order` together: as long as none is taken, a pool is over its nominal for all of its gangs or for none."""
        columns = self._ledger.candidates
        self._ledger.effort += columns.refresh()
        if self._ledger.tree.weighted:
            everybody = list(self.in_order())
            stopping = [each for each in everybody if each.state is GangState.STOPPING]
            slots = [columns.slots[each] for each in everybody[len(stopping) :]]
            return Drawn(columns, stopping, np.array(slots, dtype=np.int64))
        stopping = [each for each in self._stopping() if self._draw(each)]
        running = self._drawn_at_once(columns, list(self._turns(columns)))
        self._ledger.effort += len(running) // AT_ONCE
        return Drawn(columns, stopping, running)

    def _drawn_at_once(self, columns: CandidateColumns, turns: Sequence[PoolTurn]) -> Ints:
        """The distinct slots drawn in *turns*. Records the candidates that were passed."""
        has_turn = np.zeros(len(columns.pools), dtype=np.bool_)
        for turn in turns:
            has_turn |= turn > 0
        slots = self._in_the_way_of(columns, has_turn)
        pools = columns.pool[slots]
        seen, taken = (np.zeros(len(columns.entries), dtype=np.bool_) for _ in range(2))
        passed, running = [slots[:0]], [slots[:0]]
        for turn in turns:
            now = turn[pools]
            passed.append(slots[(now > 0) & ~seen[slots]])
            seen[passed[-1]] = True
            running.append(slots[(now == TAKEN) & ~taken[slots]])
            taken[running[-1]] = True
        self._seen, self._taken = np.concatenate(passed), taken
        return np.concatenate(running)

    def _turns(self, columns: CandidateColumns) -> Iterator[PoolTurn]:
        """The turns of `_all` after the stopping gangs."""
        for _, leaves, inner_too in self._borrowers():
            # The outermost pools are over nominal; others were not entered.
            unprotected = {leaf.name: inner_too or self._unprotected(pools[1:]) for leaf, pools in leaves}
            yield columns.by_pool({name: TAKEN if may_go else SAFE for name, may_go in unprotected.items()})
        yield columns.by_pool({self._entry.gang.pool: TAKEN})

    def _in_the_way_of(self, columns: CandidateColumns, pools: NDArray[np.bool_]) -> Ints:
        """The slots of all gangs of *pools* for which `_may_go` is true, in the order of rule R3."""
        slots = columns.counted()
        slots = slots[pools[columns.pool[slots]]]
        contested = [any(index in self._contested for index, _ in request) for request in columns.requests]
        in_the_way = np.array(contested, dtype=np.bool_)[columns.request[slots]]
        for at in np.flatnonzero(~in_the_way).tolist() if self._flavors else ():
            in_the_way[at] = self._in_the_way(columns.entries[slots[at]])
        return slots[in_the_way]

    def _draw(self, candidate: Entry) -> bool:
        """Records that *candidate* was drawn. Returns False if it was drawn before."""
        self._ledger.effort += 1
        if self._passed.get(candidate.gang.id) == "R3":
            return False
        self._passed[candidate.gang.id] = "R3"
        return True

    def may_take(self, candidate: Entry) -> bool:
        """Whether rule R2 does not protect *candidate*, given the targets taken so far."""
        if candidate.gang.pool == self._entry.gang.pool or candidate.gang.id in self._ledger.unclaimed:
            return True
        below: list[QuotaNode] = []
        for node in self._ledger.leaf(candidate).path:
            if node in self._leaf.path:
                break
            if node.kind in (POOL, OWN):
                below.append(node)
        return self._unprotected(below[-1:])

    def spared_before(self, gone: Sequence[Entry]) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each of *gone*, the candidates ahead of it that keep running, the latest first, each with its rule."""
        going = {entry.gang.id for entry in gone}
        places = {name: at for at, name in enumerate(self._passed)}
        names = list(self._passed)
        spared = {}
        for entry in gone:
            place = places.get(entry.gang.id)
            if place is None:
                place = len(names) + int(np.flatnonzero(self._seen == self._ledger.candidates.slots[entry])[0])
            before = (self._passed_at(at, names) for at in range(place - 1, -1, -1))
            spared[entry.gang.id] = tuple(islice((each for each in before if each[0] not in going), MOST_SPARED))
        return spared

    def _passed_at(self, place: int, names: Sequence[str]) -> tuple[str, str]:
        if place < len(names):
            return names[place], self._passed[names[place]]
        slot = self._seen[place - len(names)]
        return self._ledger.candidates.entries[slot].gang.id, "R3" if self._taken[slot] else "R2"

    # ------------------------------------------------------------ the order of rule R3

    def _all(self) -> Iterator[Entry]:
        """May yield a gang twice: as a borrower, and from an inner pool that does not borrow itself."""
        yield from self._stopping()
        for ancestor, leaves, inner_too in self._borrowers():
            yield from self._of(ancestor, leaves, inner_too=inner_too)
        own_pool = self._ledger.preemptible.get(self._entry.gang.pool, ())
        yield from (candidate for _, candidate in own_pool if self._may_go(candidate))

    def _stopping(self) -> Iterator[Entry]:
        for _, entry in sorted(self._ledger.unclaimed.items()):
            if entry.gang.id not in self._ledger.left_alone and self._holds_contested(entry):
                yield entry

    def _may_go(self, candidate: Entry) -> bool:
        """Whether *candidate* still counts and uses something that is short. All preemptible gangs have a lower rank (rule P1)."""
        return candidate.charged and self._holds_contested(candidate)

    def _holds_contested(self, candidate: Entry) -> bool:
        contested = self._contested
        for index, _ in candidate.request:
            if index in contested:
                return True
        return self._in_the_way(candidate)

    def _in_the_way(self, candidate: Entry) -> bool:
        """Whether *candidate* uses resources on nodes that the preemptor needs, even if no quota counts them (rule R1).

        The current flavor of the node counts; it may have changed since the candidate was admitted.
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
        """Yields a common ancestor, low leaves of other pools below it, and *inner_too*; from the leaf's parent to the root,
        twice.

        A gang is safe while its outermost pool is within its nominal (rule R2). If that pool is over, *inner_too* also takes
        gangs of inner pools that are not over; without weights, no other gangs are left at that point.
        """
        below: QuotaNode = self._leaf
        found: list[tuple[QuotaNode, list[LowLeaf]]] = []
        for ancestor in self._leaf.path[1:]:
            if ancestor.kind is not OWN:
                tops = ancestor.children if ancestor.kind is NodeKind.POOL else ancestor.over
                leaves = self._low_leaves([top for top in tops if top is not below])
                if leaves:
                    found.append((ancestor, leaves))
                    yield ancestor, leaves, False
            below = ancestor
        least = 0 if self._ledger.tree.weighted else 2
        for ancestor, leaves in found:
            # Usage has only fallen since, so a pool that is over its nominal now was over it before.
            inner = [each for each in leaves if len(each[1]) >= least and self._unprotected(each[1][:1])]
            if inner:
                yield ancestor, inner, True

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
        """Sorts by priority, start and id; if weights differ, by the largest share, without the gangs taken so far."""
        holders = {leaf: self._ledger.preemptible[leaf.name] for leaf in leaves}
        if self._ledger.tree.weighted:
            return iter(Tournament(ancestor, {leaf: list(held) for leaf, held in holders.items()}, largest_share))
        return (entry for _, entry in merge(*holders.values()))

    def _low_leaves(self, tops: Sequence[QuotaNode]) -> list[LowLeaf]:
        """The low leaves below *tops* with running work. Enters only subtrees with pools over nominal. O(those subtrees)."""
        contested, held, low = self._contested, self._ledger.preemptible, self._ledger.tree.low
        found: list[LowLeaf] = []
        stack: list[tuple[QuotaNode, tuple[QuotaNode, ...]]] = [(top, ()) for top in reversed(tops)]
        while stack:
            node, pools = stack.pop()
            if node.kind is COHORT:
                if any(node.pools_over_nominal[index] for index in contested):
                    stack += [(child, ()) for child in node.over]
                continue
            if not pools and not node.over_nominal(contested):
                continue
            pools = (*pools, node)
            if node.kind is POOL and len(node.children) > 1:  # it has subpools in addition to its own work
                stack += [(child, pools) for child in node.children if child.kind is POOL]
            if held.get(node.name):
                found.append((low[node.name], pools))
        return found

    def _unprotected(self, pools: Sequence[QuotaNode]) -> bool:
        """True while *pools* are over nominal without the targets taken so far. A pool that has come within its nominal stays safe."""
        contested = self._contested
        for pool in pools:  # noqa: SIM110  (a loop: this is asked for every candidate)
            if not pool.over_nominal(contested):
                return False
        return True
