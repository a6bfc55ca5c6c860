"""A second opinion on quota and nodes, from what is declared and what is held, straight from the specifications.

T(x, r) as in hierarchical-cohorts.md, by recursion over declared cohorts and pools; no line of it uses `engine.tree` or what
the ledger has summed up.  Slow and plain on purpose.
"""

import sys
from collections.abc import Iterable, Mapping
from functools import cached_property

from runrig.domain.gangs import Gang, GangState, Placement
from runrig.domain.pools import Pool, PoolState, Quota
from runrig.domain.quantities import GPU, UNLISTED_IS_UNCOUNTED, FlavorResource, Requests
from runrig.domain.reasons import Code
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.state import State

Amounts = dict[FlavorResource, int]
Place = tuple[str, str]
"""("root" | "cohort" | "pool" | "firm" | "low", name)."""

Lift = tuple[Code, str, str]
"""What a blocker is about: its code, where, and of what."""

ROOT: Place = ("root", "")
ENOUGH = 2**62
NOTHING = Quota()


def asked(gang: Gang, placement: Placement) -> Amounts:
    """What the placement holds, of every resource."""
    total: Amounts = {}
    for pod_set, each in zip(gang.pod_sets, placement, strict=True):
        for resource, amount in pod_set.requests:
            key = FlavorResource(each.flavor, resource)
            total[key] = total.get(key, 0) + amount * each.count
    return {key: amount for key, amount in total.items() if amount}


def holds_now(entry: Entry) -> bool:
    return entry.state in (GangState.ADMITTED, GangState.STOPPING)


class Oracle:
    """*holders*: the gangs that count, with their placements."""

    def __init__(self, state: State, holders: Iterable[tuple[Gang, Placement]]) -> None:
        self.pools: dict[str, Pool] = {
            name: pool for name, pool in state.pools.items() if pool.state is not PoolState.ARCHIVED
        }
        self.cohorts = state.cohorts
        self.nodes = state.nodes
        self.holders = list(holders)

    @classmethod
    def now(cls, state: State) -> "Oracle":
        """What is held now: admitted and stopping gangs."""
        entries = state.ledger.entries.values()
        return cls(state, [(entry.gang, entry.placement) for entry in entries if holds_now(entry)])

    @classmethod
    def decided(cls, state: State, *, without: Iterable[str] = ()) -> "Oracle":
        """What is decided: nominated gangs in, those that they wait for out; and *without* these."""
        entries = state.ledger.entries
        out = {name for entry in entries.values() for name in entry.waits_for} | set(without)
        counting = [
            entry for name, entry in entries.items() if entry.state is not GangState.PENDING and name not in out
        ]
        return cls(state, [(entry.gang, entry.placement) for entry in counting])

    # ------------------------------------------------------------ the declared tree

    @cached_property
    def cohort_names(self) -> set[str]:
        named = {each.parent for each in self.cohorts.values()} | {each.cohort for each in self._tops()}
        return set(self.cohorts) | {name for name in named if name}

    def _tops(self) -> list[Pool]:
        return [pool for pool in self.pools.values() if pool.parent is None]

    def parent(self, place: Place) -> Place | None:
        kind, name = place
        if kind == "root":
            return None
        if kind in ("firm", "low"):
            return ("pool", name)
        if kind == "pool":
            pool = self.pools[name]
            if pool.parent:
                return ("pool", pool.parent)
            return ("cohort", pool.cohort) if pool.cohort else ROOT
        above = self.cohorts[name].parent if name in self.cohorts else None
        return ("cohort", above) if above else ROOT

    @cached_property
    def _children(self) -> Mapping[Place, list[Place]]:
        everything: list[Place] = [("cohort", name) for name in sorted(self.cohort_names)]
        everything += [(kind, name) for name in sorted(self.pools) for kind in ("pool", "firm", "low")]
        below: dict[Place, list[Place]] = {}
        for each in everything:
            above = self.parent(each)
            assert above is not None
            below.setdefault(above, []).append(each)
        return below

    def children(self, place: Place) -> list[Place]:
        return self._children.get(place, [])

    def path(self, place: Place) -> list[Place]:
        found = [place]
        while (above := self.parent(found[-1])) is not None:
            found.append(above)
        return found

    # ------------------------------------------------------------ quota

    def _nominal_of(self, pool: str, key: FlavorResource) -> int:
        return self.pools[pool].quotas.get(key, NOTHING).nominal

    def nominal(self, place: Place, key: FlavorResource) -> int:
        """What the node itself brings."""
        kind, name = place
        if kind == "firm":
            subpools = [each.name for each in self.pools.values() if each.parent == name]
            return self._nominal_of(name, key) - sum(self._nominal_of(each, key) for each in subpools)
        if kind == "cohort":
            return self.cohorts[name].quotas.get(key, NOTHING).nominal if name in self.cohorts else 0
        if kind == "root":
            capacity = sum(
                node.resources.get(key.resource, 0) for node in self.nodes.values() if node.flavor == key.flavor
            )
            promised = sum(self._nominal_of(each.name, key) for each in self._tops())
            promised += sum(cohort.quotas.get(key, NOTHING).nominal for cohort in self.cohorts.values())
            return max(0, capacity - promised)
        return 0

    def limits(self, place: Place, key: FlavorResource) -> tuple[int | None, int | None]:
        """(borrowing limit, lending limit)."""
        kind, name = place
        if kind == "firm" and self.is_shared(place, key):
            return None, None  # its limit is the guarantee of guaranteed work: `covers`
        if kind in ("firm", "root"):
            return 0, None
        if kind == "low":
            return None, None
        quotas = self.pools[name].quotas if kind == "pool" else getattr(self.cohorts.get(name), "quotas", {})
        quota = quotas.get(key, NOTHING)
        return quota.borrowing_limit, quota.lending_limit

    def counted(self, pool: str) -> set[str]:
        """Resources that the quota of this pool is about: gpu, and what it or something above it has a quota of."""
        found = {GPU}
        for kind, name in self.path(("pool", pool)):
            quotas = self.pools[name].quotas if kind == "pool" else getattr(self.cohorts.get(name), "quotas", {})
            found |= {key.resource for key, quota in quotas.items() if kind == "pool" or quota != NOTHING}
        return found

    def quota_part(self, gang: Gang, placement: Placement) -> Amounts:
        counted = self.counted(gang.pool)
        return {key: amount for key, amount in asked(gang, placement).items() if key.resource in counted}

    def leaf_usage(self, leaf: Place, key: FlavorResource) -> int:
        kind, name = leaf
        return sum(
            self.quota_part(gang, placement).get(key, 0)
            for gang, placement in self.holders
            if gang.pool == name and gang.priority.may_borrow == (kind == "low")
        )

    def balance(self, place: Place, key: FlavorResource) -> int:
        """T(x, r)."""
        total = self.nominal(place, key)
        if place[0] in ("firm", "low"):
            return total - self.leaf_usage(place, key)
        for child in self.children(place):
            lending = self.limits(child, key)[1]
            below = self.balance(child, key)
            total += below if lending is None else min(lending, below)
        return total

    def brings(self, place: Place, key: FlavorResource) -> int:
        """T in an empty tree."""
        total = self.nominal(place, key)
        for child in self.children(place):
            lending = self.limits(child, key)[1]
            below = self.brings(child, key)
            total += below if lending is None else min(lending, below)
        return total

    def usage(self, place: Place, key: FlavorResource) -> int:
        """Returns, for an inner node, what its children hold beyond what they keep for themselves."""
        if place[0] in ("firm", "low"):
            return self.leaf_usage(place, key)
        return sum(max(0, self.usage(child, key) - self._kept(child, key)) for child in self.children(place))

    def _kept(self, place: Place, key: FlavorResource) -> int:
        lending = self.limits(place, key)[1]
        return 0 if lending is None else max(0, self.brings(place, key) - lending)

    def available(self, place: Place, key: FlavorResource) -> int:
        """What the node may still use, with all limits at all levels."""
        above = self.parent(place)
        if above is None:
            return self.brings(place, key) - self.usage(place, key)
        brings, kept, usage = self.brings(place, key), self._kept(place, key), self.usage(place, key)
        free = self.available(above, key)
        borrowing = self.limits(place, key)[0]
        if borrowing is not None:
            free = min(free, brings - kept - max(0, usage - kept) + borrowing)
        return free + max(0, kept - usage)

    def violated(self, key: FlavorResource, places: Iterable[Place]) -> list[tuple[Place, int]]:
        """Nodes that owe more than they may, and how much they owe."""
        found = []
        for place in places:
            borrowing = self.limits(place, key)[0]
            owes = -self.balance(place, key)
            if borrowing is not None and owes > borrowing:
                found.append((place, owes))
        return found

    # ------------------------------------------------------------ quota shared by cohorts (rule P2)

    def is_shared(self, place: Place, key: FlavorResource) -> bool:
        """The cohort itself, or some cohort above, has quota of its own."""
        return any(above[0] == "cohort" and self.nominal(above, key) for above in self.path(place))

    def beyond(self, place: Place, key: FlavorResource, instead: Mapping[Place, int] | None = None) -> int:
        """What firm work below asks of the cohorts above *place*; *instead*: of these places take this amount."""
        if instead and place in instead:
            return instead[place]
        if place[0] == "low":
            return 0
        if place[0] == "firm":
            return max(0, self.leaf_usage(place, key) - self.nominal(place, key))
        below = sum(self.beyond(child, key, instead) for child in self.children(place))
        return max(0, below - self.nominal(place, key)) if place[0] == "cohort" else below

    def covers(self, pool: str, key: FlavorResource, amount: int) -> bool:
        """Firm work of *pool* may hold *amount* more: what goes beyond its own quota is within what cohorts share."""
        leaf: Place = ("firm", pool)
        more = {leaf: max(0, self.leaf_usage(leaf, key) + amount - self.nominal(leaf, key))}
        return all(
            self.beyond(place, key, more) <= max(self.beyond(place, key), self._may_draw(place, key))
            for place in self.path(leaf)[1:]
        )

    def drawn(self, place: Place, key: FlavorResource) -> int:
        """What firm work below holds of what the cohorts above *place* have; the rest has lost its cover."""
        return min(self.beyond(place, key), self.granted(place, key))

    def granted(self, place: Place, key: FlavorResource) -> int:
        """The most that all firm work of *place* could draw beside what others draw; 0 if they draw too much of the same.

        What others hold beyond their quota further up is no concern of it, as long as it asks nothing more there.
        """
        least, most = 0, sum(self.nominal(("cohort", name), key) for name in self.cohort_names)
        while least < most:
            middle = (least + most + 1) // 2
            fits = all(
                self.beyond(above, key, {place: middle})
                <= max(self.beyond(above, key, {place: 0}), self._may_draw(above, key))
                for above in self.path(place)
            )
            least, most = (middle, most) if fits else (least, middle - 1)
        return least

    def _may_draw(self, place: Place, key: FlavorResource) -> int:
        limit = self.limits(place, key)[0]
        return sys.maxsize if limit is None else limit

    def firm_below(self, pool: str, key: FlavorResource) -> int:
        family = [pool, *(each.name for each in self.pools.values() if each.parent == pool)]
        return sum(self.leaf_usage(("firm", name), key) for name in family)

    def allows(self, gang: Gang, placement: Placement) -> bool:
        """Laws Q4 and P2: the headroom is there, and firm work stays within every pool above it."""
        return all(self.allows_amount(gang, key, amount) for key, amount in self.quota_part(gang, placement).items())

    def allows_amount(self, gang: Gang, key: FlavorResource, amount: int) -> bool:
        leaf: Place = ("low" if gang.priority.may_borrow else "firm", gang.pool)
        if amount > self.available(leaf, key):
            return False
        return leaf[0] == "low" or self.promised(gang.pool, key, amount)

    def promised(self, pool: str, key: FlavorResource, amount: int) -> bool:
        """Firm work of *pool* may hold *amount* more by law P2, once nobody borrows."""
        pools = [name for kind, name in self.path(("pool", pool)) if kind == "pool"]
        return self.covers(pool, key, amount) and all(self.promised_by(name, key, amount) for name in pools)

    def promised_by(self, pool: str, key: FlavorResource, amount: int) -> bool:
        """Firm work of *pool* and its subpools may hold *amount* more together."""
        most = self._nominal_of(pool, key) + self.granted(("pool", pool), key)
        return self.firm_below(pool, key) + amount <= most

    def has_room(self, gang: Gang, placement: Placement) -> bool:
        return self.allows(gang, placement) and self.could_place(gang, placement)

    def could_ever(self, gang: Gang, key: FlavorResource, amount: int) -> bool:
        """*amount* is within what the quotas give at all; of a world in which nobody holds anything."""
        assert not self.holders
        if gang.priority.may_borrow:
            return amount <= self.available(("low", gang.pool), key)
        return self.covers(gang.pool, key, amount)

    def would_borrow(self, gang: Gang, placement: Placement) -> bool:
        """With *gang* its pool would hold more than its own quota and what its firm work draws."""
        place: Place = ("pool", gang.pool)
        return any(
            self.usage(place, key) + amount > self.brings(place, key) + self.drawn(place, key)
            for key, amount in self.quota_part(gang, placement).items()
        )

    # ------------------------------------------------------------ who may be preempted

    def with_lifted(self, lifted: Iterable[Lift]) -> "Oracle":
        """The same world in which these quotas and limits refuse nothing."""
        return _Lifted(self, frozenset(lifted))

    # ------------------------------------------------------------ who is safe (rule R2)

    def outermost(self, target: str, preemptor: str) -> Place:
        """The outermost pool between a low leaf and its common cohort with the preemptor's leaf.

        Where there is none the target's pool is the preemptor's parent; its firm leaf then stands for what it does not give away.
        """
        above = self.path(("firm", preemptor))
        pools = []
        for place in self.path(("low", target)):
            if place in above:
                break
            if place[0] == "pool":
                pools.append(place)
        return pools[-1] if pools else ("firm", target)

    def over_nominal(self, place: Place, keys: Iterable[FlavorResource]) -> bool:
        """It borrows: holds more than its own quota and what its firm work draws from cohorts."""
        name = place[1]
        if place[0] == "firm":
            return any(
                self.leaf_usage(place, key) + self.leaf_usage(("low", name), key)
                > self.nominal(place, key) + self.drawn(place, key)
                for key in keys
            )
        return any(self.usage(place, key) > self._nominal_of(name, key) + self.drawn(place, key) for key in keys)

    # ------------------------------------------------------------ nodes

    def free(self, node: str) -> dict[str, int]:
        left = dict(self.nodes[node].resources)
        for gang, placement in self.holders:
            for pod_set, each in zip(gang.pod_sets, placement, strict=True):
                for share in each.shares:
                    if share.node == node:
                        for resource, amount in pod_set.requests:
                            if resource in left:
                                left[resource] -= amount * share.count
        return left

    def could_place(self, gang: Gang, choice: Placement) -> bool:
        """Exhaustive: some way exists to put every pod of *choice* on ready nodes of its flavor."""
        room = {name: self.free(name) for name, node in self.nodes.items() if node.open}
        pods = [
            (pod_set.requests, each.flavor)
            for pod_set, each in zip(gang.pod_sets, choice, strict=True)
            for _ in range(each.count)
        ]
        flavors = {name: self.nodes[name].flavor for name in room}
        return packs(sorted(pods, reverse=True), room, flavors)


class _Lifted(Oracle):
    """A limit is lifted as one on borrowing (law Q3) only: what firm work may draw within it (law P2) has a blocker of its own."""

    def __init__(self, of: Oracle, lifted: frozenset[Lift]) -> None:
        self.pools, self.cohorts, self.nodes, self.holders = of.pools, of.cohorts, of.nodes, of.holders
        self._of, self._lifted = of, lifted

    def _lifts(self, code: Code, where: str, key: FlavorResource) -> bool:
        return (code, where, str(key)) in self._lifted

    def limits(self, place: Place, key: FlavorResource) -> tuple[int | None, int | None]:
        borrowing, lending = super().limits(place, key)
        kind, name = place
        quota = kind == "firm" and self._lifts(Code.QUOTA_FULL, name, key)
        limit = kind in ("pool", "cohort") and self._lifts(Code.BORROWING_LIMIT, f"{kind} {name}", key)
        return None if quota or limit else borrowing, lending

    def available(self, place: Place, key: FlavorResource) -> int:
        if place == ROOT and self._lifts(Code.NO_IDLE_TO_BORROW, "the cluster", key):
            return ENOUGH
        return super().available(place, key)

    def promised(self, pool: str, key: FlavorResource, amount: int) -> bool:
        of = self._of
        if not (self._lifts(Code.QUOTA_FULL, pool, key) or of.covers(pool, key, amount)):
            return False
        pools = [name for kind, name in self.path(("pool", pool)) if kind == "pool"]
        return all(self._lifts(Code.QUOTA_FULL, name, key) or of.promised_by(name, key, amount) for name in pools)


def packs(pods: list[tuple[Requests, str]], room: dict[str, dict[str, int]], flavors: Mapping[str, str]) -> bool:
    """Every pod (requests, flavor) finds a node; tries everything, each distinct room once."""
    dead: set[tuple[object, ...]] = set()

    def fill(at: int) -> bool:
        if at == len(pods):
            return True
        mark = (at, *(tuple(sorted(left.items())) for _, left in sorted(room.items())))
        if mark in dead:
            return False
        requests, flavor = pods[at]
        for name in sorted(room):
            if flavors[name] == flavor and _take(room[name], requests):
                if fill(at + 1):
                    return True
                for resource, amount in requests:
                    if resource in room[name]:
                        room[name][resource] += amount
        dead.add(mark)
        return False

    return fill(0)


def _take(left: dict[str, int], requests: Requests) -> bool:
    for resource, amount in requests:
        if resource not in left and resource not in UNLISTED_IS_UNCOUNTED:
            return False
        if resource in left and left[resource] < amount:
            return False
    for resource, amount in requests:
        if resource in left:
            left[resource] -= amount
    return True
