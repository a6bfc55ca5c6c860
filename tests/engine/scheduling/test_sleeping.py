"""Sleeping buckets: in every cycle, a ledger with sleepers decides like one loaded from rows, where all buckets are
awake. Histories are drawn by seed: random trees with limits, lending, shared quota, subpools, weights and STRICT_FIFO
pools; nodes in racks, or quota alone; guaranteed and LOW gangs of one or two pod sets, some with fewer pods or in one
rack.
"""

import random
from collections.abc import Hashable
from dataclasses import replace

import pytest

from runrig.domain.gangs import Assignment, Gang, GangState, PodSet, Priority, Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Decision, Queue, Release, Stop
from runrig.domain.pools import HOSTNAME, Cohort, Pool, Queueing, Quota, Quotas, TopologyKey
from runrig.domain.quantities import CPU, GPU, FlavorResource, of_one_pod, requests_of
from runrig.domain.records import GangRow
from runrig.domain.workflows import Status
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.scheduling.admission import decide
from tests.exploring import EXPLORING, tries

pytestmark = pytest.mark.explored

KEYS = (TopologyKey("rack", "rack"), TopologyKey("host", HOSTNAME))
PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.LOW, Priority.LOW)
CYCLES = 30


class History:
    """A random world and the changes to its ledger."""

    def __init__(self, seed: int) -> None:
        self.mix = random.Random(seed)
        self.flavors = ("a", "b")[: self.mix.choice((1, 1, 2))]
        self.ledger = Ledger(place=self.mix.random() < 0.75)
        self.ledger.set_flavors(Flavor(name, position=at) for at, name in enumerate(self.flavors))
        self.weights = self.mix.choice(((1,), (1,), (1,), (1, 2, 3)))
        self.number = 0
        self.now = 0.0
        self.often: tuple[int, ...] = (45, 35, 8, 6, 6, 5)  # of the values that `something_happens` draws
        cohorts = self._declare_cohorts(shared=self.mix.random() < 0.35)
        for at in range(self.mix.randrange(1, 6)):
            self._declare_pool(f"p{at}", self.mix.choice((None, *cohorts)))
        for at in range(self.mix.randrange(2, 9)):
            self._put_node(at)

    def _quotas(self, most: int) -> Quotas:
        return {
            FlavorResource(flavor, GPU): Quota(
                self.mix.randrange(most + 1),
                self.mix.choice((None, None, 0, 2, 4)),
                self.mix.choice((None, None, None, 0, 2)),
            )
            for flavor in self.flavors
        }

    def _declare_cohorts(self, *, shared: bool) -> list[str]:
        names = [f"c{at}" for at in range(self.mix.randrange(1, 4))]
        for at, name in enumerate(names):
            parent = names[at - 1] if at and self.mix.random() < 0.5 else None
            quotas = self._quotas(4) if self.mix.random() < 0.5 else {}
            if not shared:
                quotas = {key: replace(quota, nominal=0) for key, quota in quotas.items()}
            self.ledger.put_cohort(Cohort(name, parent, quotas, self.mix.choice(self.weights)))
        return names

    def _declare_pool(self, name: str, cohort: str | None) -> None:
        queueing = Queueing.STRICT_FIFO if self.mix.random() < 0.15 else Queueing.BEST_EFFORT_FIFO
        weight = self.mix.choice(self.weights)
        pool = Pool(name, self._quotas(8), cohort=cohort, queueing=queueing, topology_keys=KEYS, weight=weight)
        self.ledger.put_pool(pool)
        for at in range(self.mix.choice((0, 0, 1, 2))):
            part = {
                key: replace(each, nominal=self.mix.randrange(each.nominal // 2 + 1))
                for key, each in pool.quotas.items()
            }
            self.ledger.put_pool(replace(pool, name=f"{name}--s{at}", quotas=part, cohort=None, parent=name))

    def _put_node(self, at: int) -> None:
        labels = {"rack": f"r{at // 2}", HOSTNAME: f"n{at}"} if self.mix.random() < 0.95 else {}
        room = {GPU: self.mix.choice((2, 4, 4, 8)), CPU: 8000}
        ready = self.mix.random() < 0.9
        self.ledger.put_node(Node(f"n{at}", room, labels=labels, ready=ready, flavor=self.mix.choice(self.flavors)))

    def _pod_set(self, name: str) -> PodSet:
        pods, gpus = self.mix.choice((1, 1, 1, 2, 3, 4)), self.mix.choice((1, 1, 2, 4))
        near = (Requirement("rack", required=self.mix.random() < 0.6),) if pods > 1 and self.mix.random() < 0.5 else ()
        least = self.mix.randrange(1, pods) if pods > 1 and self.mix.random() < 0.4 else None
        asked = {GPU: gpus} if self.mix.random() < 0.8 else {GPU: gpus, CPU: 1000 * gpus}
        platform = self.mix.choice((None, None, *self.flavors))
        return PodSet(name, pods, of_one_pod(requests_of(asked)), least, platform, near)

    def _submit(self) -> None:
        self.number += 1
        pod_sets = tuple(self._pod_set(name) for name in self.mix.choice((["x"], ["x"], ["x"], ["x", "y"])))
        pool, priority = self.mix.choice(sorted(self.ledger.pools)), self.mix.choice(PRIORITIES)
        at = float(self.mix.randrange(self.number + 3))
        self.ledger.apply(Queue(Gang(f"g{self.number:04}", pool, priority, at, pod_sets)), self.now)

    def _end(self, *states: GangState, stops: float = 0.0) -> None:
        """Releases a gang in one of these states, or makes it stop."""
        names = sorted(name for name, entry in self.ledger.entries.items() if entry.state in states)
        if names:
            name = self.mix.choice(names)
            stop = self.ledger.entries[name].state is GangState.ADMITTED and self.mix.random() < stops
            self.ledger.apply(Stop(name, Status.FAILED_CANCELED) if stop else Release(name), self.now)

    def _node_changes(self) -> None:
        """A node is added, removed or changed; mostly it only becomes ready or not ready."""
        names = sorted(self.ledger.nodes.by_name)
        kind = self.mix.random()
        if kind < 0.5:
            node = self.ledger.nodes.by_name[self.mix.choice(names)].node
            self.ledger.put_node(replace(node, ready=not node.ready))
        elif kind < 0.85 or len(names) == 1:
            self._put_node(self.mix.randrange(10))
        else:
            self.ledger.drop_node(self.mix.choice(names))

    def _declare(self) -> None:
        """A pool or cohort gets other quotas: mostly other numbers, sometimes a limit is added or removed."""
        if self.mix.random() < 0.3:
            cohort = self.ledger.cohorts[self.mix.choice(sorted(self.ledger.cohorts))]
            self.ledger.put_cohort(replace(cohort, quotas=self._other(cohort.quotas, -2)))
            return
        pool = self.ledger.pools[self.mix.choice(sorted(self.ledger.pools))]
        if pool.parent is None:
            has_subpools = any(each.parent == pool.name for each in self.ledger.pools.values())
            self.ledger.put_pool(replace(pool, quotas=self._other(pool.quotas, 0 if has_subpools else -3)))
        else:
            less = {key: Quota(self.mix.randrange(each.nominal + 1)) for key, each in pool.quotas.items()}
            self.ledger.put_pool(replace(pool, quotas=less))

    def _other(self, quotas: Quotas, least: int) -> Quotas:
        return {
            key: replace(
                each,
                nominal=self._other_nominal(each.nominal, least),
                borrowing_limit=self._other_limit(each.borrowing_limit),
                lending_limit=self._other_limit(each.lending_limit),
            )
            for key, each in quotas.items()
        }

    def _other_nominal(self, nominal: int, least: int) -> int:
        """Sometimes a first quota; a cohort that gets one shares it from then on."""
        return max(0, nominal + self.mix.randrange(least, 4)) if nominal or self.mix.random() < 0.2 else 0

    def _other_limit(self, limit: int | None) -> int | None:
        if self.mix.random() < 0.1:
            return self.mix.choice((None, 0, 1, 3))
        return limit if limit is None else self.mix.choice((limit, limit, 0, 1, 3))

    def something_happens(self) -> None:
        kind = self.mix.choices(("submit", "end", "drop", "gone", "node", "declare"), self.often)[0]
        match kind:
            case "submit":
                self._submit()
            case "end":
                self._end(GangState.ADMITTED, GangState.STOPPING, stops=0.15)
            case "drop":
                self._end(*GangState)
            case "gone":
                for _ in range(len(self.ledger.stopping)):
                    self._end(GangState.STOPPING)
            case "node":
                self._node_changes()
            case "declare":
                self._declare()


def loaded(ledger: Ledger) -> Ledger:
    """The same ledger loaded from rows: all buckets are awake."""
    again = Ledger(place=ledger.place)
    again.set_flavors(ledger.flavors.values())
    for cohort in ledger.cohorts.values():
        again.put_cohort(cohort)
    for pool in ledger.pools.values():
        again.put_pool(pool)
    for limits in ledger.users.declared.values():
        again.put_limits(limits)
    for room in ledger.nodes.by_name.values():
        again.put_node(room.node)
    again.restore(
        GangRow(each.gang, each.state, each.placement, each.waits_for, each.admitted_at, each.preempted_by, each.law)
        for each in ledger.entries.values()
    )
    return again


def cycle(ledger: Ledger, now: float) -> list[Decision]:
    made = []
    for decision in decide(ledger):
        if decision is not None:
            ledger.apply(decision, now)
            made.append(decision)
    return made


def forsaken(ledger: Ledger) -> list[Hashable]:
    """Keys of barriers that exist although no bucket sleeps at them."""
    slept_before = {barrier for bucket in ledger.sleepers.asleep for barrier in bucket.before}
    return [key for key, barrier in ledger.sleepers.barriers.items() if barrier not in slept_before]


@pytest.mark.parametrize("seed", range(tries(12)))
@pytest.mark.parametrize("often", [None, (40, 20, 0, 0, 0, 40)], ids=["all", "quotas"])
def test_sleeping_gangs_would_not_have_started_or_changed_other_starts(
    seed: int, often: tuple[int, ...] | None
) -> None:
    history = History(seed)
    history.often = often or history.often
    slept = 0
    for _ in range(CYCLES):
        for _ in range(history.mix.choice((1, 1, 1, 2, 6))):
            history.something_happens()
        history.now += 1
        slept += sum(bucket.asleep is not None for bucket in history.ledger.pending.values())
        everybody_awake = cycle(loaded(history.ledger), history.now)
        assert cycle(history.ledger, history.now) == everybody_awake
        assert forsaken(history.ledger) == []
    assert slept or EXPLORING, (
        "somebody sleeps, else this compares nothing"
    )  # in a few histories nobody does, by chance


def test_a_node_that_becomes_ready_wakes_only_gangs_of_its_flavor() -> None:
    ledger = Ledger()
    ledger.set_flavors([Flavor("a"), Flavor("b", position=1)])
    ledger.put_pool(Pool("p", {FlavorResource(flavor, GPU): Quota(8) for flavor in "ab"}))
    nodes = {name: Node(f"n{name}", {GPU: 4}, flavor=name, ready=False) for name in "ab"}
    for node in nodes.values():
        ledger.put_node(node)
    for at, name in enumerate("ab"):
        pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: 4})), platform=name)
        ledger.apply(Queue(Gang(f"g{name}", "p", Priority.LOW, float(at), (pod_set,))), 0.0)
    assert cycle(ledger, 1.0) == []
    ledger.put_node(replace(nodes["b"], ready=True))
    assert [decision.gang for decision in cycle(ledger, 2.0) if isinstance(decision, Admit)] == ["gb"]
    assert ledger.entries["ga"].bucket.asleep is not None
    assert ledger.sleepers.awake == {}


def test_a_pool_with_more_quota_wakes_only_affected_gangs() -> None:
    ledger = Ledger(place=False)
    ledger.set_flavors([Flavor("a")])
    key = FlavorResource("a", GPU)
    pools = {name: Pool(name, {key: Quota(2)}) for name in ("p", "q")}
    for pool in pools.values():
        ledger.put_pool(pool)
    pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: 4})))
    for at, name in enumerate(pools):
        ledger.apply(Queue(Gang(f"of {name}", name, Priority.NORMAL, float(at), (pod_set,))), 0.0)
    assert cycle(ledger, 1.0) == []
    ledger.put_pool(replace(pools["q"], quotas={key: Quota(4)}))
    assert [decision.gang for decision in cycle(ledger, 2.0) if isinstance(decision, Admit)] == ["of q"]
    assert ledger.entries["of p"].bucket.asleep is not None
    assert ledger.sleepers.awake == {}


@pytest.mark.parametrize("lends", [4, None])
def test_a_pool_that_withholds_more_wakes_only_its_own_gangs(lends: int | None) -> None:
    """Two lenders; one withholds more, so its LOW gang needs less of the cohort. The same applies to a first lending
    limit.
    """
    ledger = Ledger(place=False)
    ledger.set_flavors([Flavor("a")])
    key = FlavorResource("a", GPU)
    ledger.put_cohort(Cohort("c", None, {key: Quota(0, 0)}))
    pools = {name: Pool(name, {key: Quota(4, None, lends)}, cohort="c") for name in ("p", "q")}
    for pool in pools.values():
        ledger.put_pool(pool)
    for at, name in enumerate(pools):
        for each, gpus in (("holds", 3), ("waits", 4)):
            pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: gpus})))
            ledger.apply(Queue(Gang(f"{name} {each}", name, Priority.LOW, float(at), (pod_set,))), 0.0)
    assert len(cycle(ledger, 1.0)) == 2
    other = ledger.entries["p waits"].bucket
    slept = other.before
    ledger.put_pool(replace(pools["q"], quotas={key: Quota(7, None, 2)}))
    assert cycle(ledger, 2.0) == [Admit("q waits", (Assignment("x", "a", 1),))]
    assert other.before is slept


@pytest.mark.parametrize("limit", [3, None])
def test_a_cohort_with_a_higher_borrowing_limit_wakes_only_gangs_below_it(limit: int | None) -> None:
    ledger = Ledger(place=False)
    ledger.set_flavors([Flavor("a")])
    key = FlavorResource("a", GPU)
    ledger.put_pool(Pool("lends", {key: Quota(8)}))
    pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: 3})))
    for at, name in enumerate(("c", "d")):
        ledger.put_cohort(Cohort(name, None, {key: Quota(0, 2)}))
        ledger.put_pool(Pool(f"of {name}", {}, cohort=name))
        ledger.apply(Queue(Gang(f"g{name}", f"of {name}", Priority.LOW, float(at), (pod_set,))), 0.0)
    assert cycle(ledger, 1.0) == []
    other = ledger.entries["gc"].bucket
    slept = other.before
    ledger.put_cohort(Cohort("d", None, {key: Quota(0, limit)}))
    assert cycle(ledger, 2.0) == [Admit("gd", (Assignment("x", "a", 1),))]
    assert other.before is slept, "it was not even woken"


def test_barriers_without_sleepers_are_dropped() -> None:
    ledger = Ledger()
    ledger.set_flavors([Flavor("a")])
    ledger.put_pool(Pool("p", {FlavorResource("a", GPU): Quota(8)}))
    ledger.put_node(Node("n", {GPU: 4, CPU: 1_000}, flavor="a"))

    def waits_and_goes(cpus: int) -> int:
        """The number of barriers after a gang has waited for this many CPUs and was cancelled."""
        pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: 1, CPU: cpus})))
        ledger.apply(Queue(Gang("g", "p", Priority.LOW, 0.0, (pod_set,))), 0.0)
        assert cycle(ledger, 1.0) == []
        assert ledger.entries["g"].bucket.asleep is not None
        ledger.apply(Release("g"), 2.0)
        return len(ledger.sleepers.barriers)

    assert [waits_and_goes(2_000 + cpus) for cpus in range(20)] == [0] * 20
