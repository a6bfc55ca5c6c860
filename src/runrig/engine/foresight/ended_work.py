"""Which workflows might let a gang start by ending: arithmetic on the current ledger, before any cycle is run.

A necessary condition, as in `refuting`, computed for all workflows together: a workflow frees at most what it uses. LOW work
needs unused quota and room. Guaranteed work needs its guarantee (rule P2) and nodes without other guaranteed work, since LOW
work can be preempted. Judged for the minimum size (rule A1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.gangs import Placement
from runrig.domain.quantities import totals
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Bucket, Entry
from runrig.engine.nodes.fit_counts import pods_per_node, with_more
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.nodes.topology import Ints, TopologyIndex, added_up, distinct
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.place import DomainNeed, needs_in_domains
from runrig.engine.quota.guarantees import nodes_under
from runrig.engine.quota.limits import ceilings, promises
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaLeaf, QuotaNode, Request

Chosen = NDArray[np.bool_]
"""One value per workflow."""

MOST_AHEAD = 64
"""Maximum number of gangs of one kind ahead that are taken into account."""

MOST_TOGETHER = 256
"""Maximum number of workflows in a reported set."""


class EndedWork:
    """*workflows*: candidates, as numbers of `Ledger.holdings`, which must be up to date.

    They are identified by their index in it.
    Valid as long as the ledger does not change.
    """

    def __init__(self, ledger: Ledger, entry: Entry, workflows: Ints) -> None:
        self._ledger, self._entry = ledger, entry
        columns = self._columns = ledger.holdings
        self._many = len(workflows)
        places = np.full(len(columns.names), -1)
        places[workflows] = np.arange(self._many)
        self._slots = columns.order
        self._who = places[columns.workflow[self._slots]]  # index into *workflows*, by index into *slots*; -1: none
        leaf = ledger.leaf(entry)
        choices = list(options(ledger, entry, least_counts(entry.gang.pod_sets), mixed=True)) if leaf.active else []
        # With several flavors, gangs ahead may use another one, so what they leave is unknown.
        alone = len(choices) > 1
        ways = (
            self._way(leaf, choice, request, Ahead() if alone else self._ahead(choice)) for choice, request in choices
        )
        self._ways = [way for way in ways if way is not None]

    def alone(self) -> Chosen:
        """Per workflow, whether the gang may start after that workflow ends."""
        found = np.zeros(self._many, dtype=np.bool_)
        for way in self._ways:
            found |= way.alone(self._many)
        return found

    def least_set(self) -> list[int] | None:
        """Workflows with which it may start, all of them needed as far as is known; the earliest in order.

        None: it cannot start even if all end, or more than MOST_TOGETHER are needed.
        """
        for way in self._ways:
            useful = way.useful(self._many)
            first, last = 0, len(useful)
            if not way.met_by(self._chosen(useful)):
                continue
            while first < last:  # bisects: a longer list of workflows frees at least as much
                half = (first + last) // 2
                first, last = (first, half) if way.met_by(self._chosen(useful[:half])) else (half + 1, last)
            needed = way.nearest(self._chosen(useful[:first]))
            if len(needed) <= MOST_TOGETHER:
                return self._without_spare(needed)
        return None

    def may_start_with(self, numbers: Sequence[int]) -> bool:
        chosen = self._chosen(numbers)
        return any(way.met_by(chosen) for way in self._ways)

    def _without_spare(self, needed: list[int]) -> list[int]:
        for number in reversed(list(needed)):
            fewer = [other for other in needed if other != number]
            if self.may_start_with(fewer):
                needed = fewer
        return needed

    def _chosen(self, numbers: Sequence[int]) -> Chosen:
        chosen = np.zeros(self._many, dtype=np.bool_)
        chosen[np.array(numbers, dtype=np.int64)] = True
        return chosen

    # ------------------------------------------------------------ gangs ahead

    def _ahead(self, choice: Placement) -> "Ahead":
        """Gangs that start first if it starts as *choice*, without those of workflows that may themselves end."""
        bucket = self._entry.bucket
        less: list[tuple[Request, int]] = []
        for other in self._ledger.ranks[bucket.rank].by_pool[bucket.pool].buckets if not bucket.firm else ():
            if other is not bucket and not other.key.refused and (request := self._no_harder(other, choice)):
                less.append((request, self._stay(other)))
        return Ahead(self._stay(bucket), tuple(less))

    def _stay(self, bucket: Bucket) -> int:
        """How many gangs of *bucket* are ahead, up to MOST_AHEAD, whose workflows use nothing."""
        first = bucket.waiting[: min(bucket.ahead_of(self._entry), MOST_AHEAD)]
        return sum(not self._columns.knows(each.gang.workflow) for each in first)

    def _no_harder(self, other: Bucket, choice: Placement) -> Request:
        """The request of a gang of *other*, in the same pool, if it fits wherever this one fits as *choice*; otherwise empty."""
        head = other.waiting[0]
        found = list(options(self._ledger, head, other.counts))
        if len(head.gang.pod_sets) > 1 or len(found) != 1:
            return ()
        (pods,), (((lies,), request),) = head.gang.pod_sets, found
        required = [each for each in pods.topology if each.required]
        if pods.min_count is not None or len(required) > 1:
            return ()
        for assignment, pod_set in zip(choice, self._entry.gang.pod_sets, strict=True):
            asks = dict(pod_set.requests)
            fits = pods.count <= assignment.count and all(asks.get(name, 0) >= amount for name, amount in pods.requests)
            if fits and lies.flavor == assignment.flavor and (not required or pods.topology == pod_set.topology):
                return request
        return ()

    # ------------------------------------------------------------ what is lacking

    def _way(self, leaf: QuotaLeaf, choice: Placement, request: Request, ahead: "Ahead") -> "_Way | None":
        """The quota and nodes that one choice of flavors lacks; None if the pool no longer has a topology key of the
        gang.
        """
        total = ahead.and_then(request)
        lacks = list(self._headroom(leaf, total) if leaf.kind is NodeKind.LOW else self._promise(leaf, total))
        if not self._ledger.place:
            return _Way(lacks, [])
        asked = self._ledger.asked_of_nodes(self._entry, choice)
        if asked is None:
            return None
        rooms = (self._room(need, pods, 1 + ahead.alike) for need, pods in needs_in_domains(asked))
        return _Way(lacks, [room for room in rooms if not room.met])

    def _headroom(self, leaf: QuotaLeaf, request: Request) -> Iterator["_Quota"]:
        """Yields the lack at each limit that blocks it. Room at a limit grows by at most what is freed below it (rule Q4)."""
        for index, amount in request:
            for node, left in ceilings(leaf, index, REAL):
                if amount > left:
                    yield _Quota(amount - left, self._given(self._below(node), index))

    def _below(self, node: QuotaNode) -> Chosen:
        """Which of *slots* use quota below *node*."""
        if node.parent is None:
            return np.ones(len(self._slots), dtype=np.bool_)
        columns, leaves = self._columns, list(nodes_under(node))
        low, firm = ({each.name: 1 for each in leaves if each.kind is kind} for kind in (NodeKind.LOW, NodeKind.FIRM))
        pools, is_firm = columns.pool[self._slots], columns.firm[self._slots]
        found: Chosen = np.where(is_firm, columns.by_pool(firm)[pools], columns.by_pool(low)[pools]) > 0
        return found

    def _promise(self, leaf: QuotaLeaf, request: Request) -> Iterator["_Quota"]:
        """Rule P2: only guaranteed work frees a guarantee, in pools that share a cohort's quota or a pool above."""
        if self._ledger.nominated or self._ledger.stopping:
            return  # see `refuting`
        for index, amount in request:
            if (lack := amount - min(left for _, left in promises(leaf, index))) > 0:
                columns = self._columns
                related = columns.by_pool(dict.fromkeys(_related(leaf), 1))[columns.pool[self._slots]] > 0
                yield _Quota(lack, self._given(related & columns.firm[self._slots], index))

    def _given(self, counts: Chosen, index: int) -> Ints:
        """How much of *index* each workflow uses, in the *slots* where *counts* is True."""
        columns, counts = self._columns, counts & (self._who >= 0)
        amounts = np.array([dict(request).get(index, 0) for request in columns.requests], dtype=np.int64)
        return added_up(self._who[counts], amounts[columns.request[self._slots[counts]]], self._many)

    def _room(self, need: DomainNeed, pods: int, gangs: int) -> "_Room":
        nodes, firm = self._ledger.nodes, self._entry.bucket.firm
        topology, resources = nodes.topology(need.labels), [resource for resource, _ in need.shape.requests]
        counts = self._firm_that_runs if firm else self._who >= 0
        rows = self._columns.held(self._slots[counts], resources, topology, topology.whole(labelled=need.labelled))
        who = self._who[counts][rows.who]
        columns = []
        for resource in resources:
            free = nodes.free(need.labels, resource, EMPTY if firm else REAL).astype(np.int64)
            if firm:  # LOW can be preempted; other guaranteed work stays, candidate or not
                free = with_more(free, -added_up(rows.node, rows.amounts[resource], len(topology.nodes)))
            columns.append(free)
        takes = nodes.counts(need.labels, need.shape, (REAL,)).takes
        mine = who >= 0
        held = [rows.amounts[resource][mine] for resource in resources]
        return _Room(topology, need, (pods, gangs), takes, columns, who[mine], rows.node[mine], held)

    @cached_property
    def _firm_that_runs(self) -> Chosen:
        columns = self._columns
        stops = columns.among([each for each in self._ledger.stopping.values() if each.held])
        found: Chosen = columns.firm[self._slots] & ~stops[self._slots]
        return found


def _related(leaf: QuotaLeaf) -> Iterator[str]:
    """Pools whose guaranteed work shares a pool above, or a cohort's quota, with that of *leaf*."""
    yield leaf.name
    shared = [*leaf.pools_above, *([] if leaf.twin is None else [leaf.twin.path[-2]])]
    for top in shared:
        yield from (node.name for node in nodes_under(top) if isinstance(node, QuotaLeaf))


class Ahead(NamedTuple):
    """Gangs that start before it if it starts: *alike* of its own kind; for others, the request of one and their number."""

    alike: int = 0
    less: tuple[tuple[Request, int], ...] = ()

    def and_then(self, request: Request) -> Request:
        """*request*, including the requests of all of them."""
        every = ((request, 1 + self.alike), *self.less)
        return tuple(totals((index, amount * gangs) for asked, gangs in every for index, amount in asked).items())


@dataclass(slots=True)
class _Quota:
    """*lack*: what is missing. *given*: the most that each workflow frees of it."""

    lack: int
    given: Ints


class _Room:
    """Domains for several gangs of equal pods (*size*: pods, gangs). Some of the gangs do not have one yet.

    *columns*: free amounts per node. A row is what *who* uses on a node.
    """

    def __init__(
        self,
        topology: TopologyIndex,
        need: DomainNeed,
        size: tuple[int, int],
        takes: NDArray[np.bool_],
        columns: list[Ints],
        who: Ints,
        places: Ints,
        held: list[Ints],
    ) -> None:
        (self._pods, self._gangs), self._requests = size, need.shape.requests
        self._takes, self._columns = takes, columns
        last = topology.whole(labelled=need.labelled).last
        self._domains = topology.of[need.level] if need.level >= 0 else np.zeros(len(topology.nodes), dtype=np.int64)
        inside = (places < last) & takes[places]
        self.who, self._places, self._held = who[inside], places[inside], [each[inside] for each in held]
        self._fits = pods_per_node(len(takes), self._requests, columns)
        self._fits[~takes] = 0
        self._now = np.bincount(self._domains[:last], weights=self._fits[:last]).astype(np.int64)
        self._there = int((self._now // self._pods).sum())
        self.met = self._there >= self._gangs

    def alone(self, many: int) -> Chosen:
        who, domain, pods = self._after(self.who)
        now = self._now[domain]
        more = added_up(who, (now + pods) // self._pods - now // self._pods, many)
        found: Chosen = self._there + more >= self._gangs
        return found

    def after(self, chosen: Chosen) -> Ints:
        """Pods that fit per domain, once all *chosen* have ended."""
        _, domain, pods = self._after(np.where(chosen[self.who], 0, -1))
        now = self._now.copy()
        now[domain] += pods
        return now

    def met_by(self, chosen: Chosen) -> bool:
        return int((self.after(chosen) // self._pods).sum()) >= self._gangs

    def nearest(self, chosen: Chosen) -> Ints:
        """The workflows that use the domains with the most room once all *chosen* have ended; one domain per gang."""
        most = np.zeros(len(self._now), dtype=np.bool_)
        most[np.argsort(-self.after(chosen), kind="stable")[: self._gangs]] = True
        found: Ints = self.who[most[self._domains[self._places]]]
        return found

    def _after(self, who: Ints) -> tuple[Ints, Ints, Ints]:
        """Rows (who, domain, additional pods that fit there) if everything that each of *who* uses is freed.

        *who* -1: not a candidate.
        """
        mine = who >= 0
        nodes, domains = len(self._takes), len(self._now)
        pairs, row = distinct(who[mine] * nodes + self._places[mine])
        whose, places = np.divmod(pairs, max(1, nodes))
        columns = (
            with_more(free[places], added_up(row, held[mine], len(pairs)))
            for free, held in zip(self._columns, self._held, strict=True)
        )
        more = pods_per_node(len(pairs), self._requests, columns) - self._fits[places]
        both, row = distinct(whose * domains + self._domains[places])
        return (*np.divmod(both, max(1, domains)), added_up(row, more, len(both)))


class _Way:
    """A choice of flavors, and everything that it lacks."""

    def __init__(self, quota: list[_Quota], room: list[_Room]) -> None:
        self._quota, self._room = quota, room

    def alone(self, many: int) -> Chosen:
        found = np.ones(many, dtype=np.bool_)
        for quota in self._quota:
            found &= quota.given >= quota.lack
        for room in self._room:
            found &= room.alone(many)
        return found

    def met_by(self, chosen: Chosen) -> bool:
        if any(quota.given[chosen].sum() < quota.lack for quota in self._quota):
            return False
        return all(room.met_by(chosen) for room in self._room)

    def useful(self, many: int) -> list[int]:
        """The workflows that free anything that is lacking."""
        gives = np.zeros(many, dtype=np.bool_)
        for quota in self._quota:
            gives |= quota.given > 0
        for room in self._room:
            gives[room.who] = True
        found: list[int] = gives.nonzero()[0].tolist()
        return found

    def nearest(self, chosen: Chosen) -> list[int]:
        """Narrows *chosen* to those in the domains with the most room, if they are enough."""
        inside = chosen.copy()
        for room in self._room:
            there = np.zeros(len(chosen), dtype=np.bool_)
            there[room.nearest(chosen)] = True
            inside &= there
        found: list[int] = (inside if self.met_by(inside) else chosen).nonzero()[0].tolist()
        return found
