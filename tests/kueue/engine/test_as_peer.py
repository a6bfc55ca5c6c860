"""Settings.as_peer: preemptors without rule R5, as in Kueue, and preemptions that are in progress in a dump."""

from dataclasses import replace

import pytest

from runrig.domain.kueue import Settings
from runrig.domain.pools import Quota
from runrig.domain.quantities import FlavorResource
from runrig.kueue.decisions import CycleReport, PendingReason
from runrig.kueue.declared import Fungibility, Policies, Policy, QueueCohort, Workload
from runrig.kueue.engine.simulator import Simulator
from tests.kueue.engine.clusters import (
    LOWER,
    ONE_HOST,
    cluster,
    decided,
    flavor,
    machine,
    outcome,
    pods,
    queue,
    runs,
    waits,
)

AS_PEER = Settings(as_peer=True)
BOTH = pytest.mark.parametrize("settings", [Settings(), AS_PEER], ids=["law R5", "as the peer"])


def preempting(workload: Workload, since: float = 50.0) -> Workload:
    return replace(workload, preempting_since=since)


def told(made: Simulator, cycles: int, *, slow: bool = False) -> list[list[str]]:
    """The decisions of each cycle in short form. *slow*: targets do not stop in between."""
    found = []
    for number in range(1, cycles + 1):
        found.append(short(made.cycle(100.0 + number)))
        if not slow:
            made.carry_out()
    return found


def short(report: CycleReport) -> list[str]:
    return [
        *(f"{each.workload} starts" for each in report.admitted),
        *(f"{each.workload} goes for {each.by}" for each in report.preempted),
    ]


# ---------------------------------------------------------------- without law R5


def turns(settings: Settings) -> Simulator:
    """*near* borrows from its own team and is served first. *far* has a higher priority, borrows from the bank and may
    preempt *near*.
    """
    while_borrowing = Policies(reclaim=Policy.LOWER, borrow=Policy.LOWER)
    return cluster(
        [],
        [queue("n", "team", cpu=0), queue("f", "team", while_borrowing, cpu=0), queue("bank", "org", cpu=10)],
        waits("near", "n", pods(3, cpu=1)),
        waits("far", "f", pods(7, cpu=1), priority=9, at=20),
        cohorts=[QueueCohort("org"), QueueCohort("team", "org", {FlavorResource("f", "cpu"): Quota(3, 4)})],
        settings=settings,
    )


def test_evicted_workloads_take_the_quota_again_before_their_preemptor() -> None:
    turn = [["near starts"], ["near goes for far"]]
    assert told(turns(AS_PEER), 6) == turn * 3


def test_with_rule_r5_the_preemptor_is_served_first() -> None:
    assert told(turns(Settings()), 6) == [["near starts"], ["near goes for far"], ["far starts"], [], [], []]


def test_a_gate_serves_preemptors_first_without_rule_r5() -> None:
    gated = Settings(gates={"PrioritizePreemptorWorkloads": True}, as_peer=True)
    assert told(turns(gated), 4) == [["near starts"], ["near goes for far"], ["far starts"], []]


# ---------------------------------------------------------------- a preemptor in a dump


def behind(strict: bool, settings: Settings, *preemptors: Workload) -> object:
    """The first workload to start in a queue with room for one: *early* was created first."""
    made = cluster(
        [], [queue("q", cpu=4, strict=strict)], waits("early", "q", pods(4, cpu=1)), *preemptors, settings=settings
    )
    return decided(made)["starts"]


LATE = waits("late", "q", pods(3, cpu=1), at=20)


@BOTH
def test_a_preemptor_goes_first_in_its_queue(settings: Settings) -> None:
    assert behind(False, settings, LATE) == {"early": {"main": 4}}
    assert behind(False, settings, preempting(LATE)) == {"late": {"main": 3}}


def test_in_a_strict_queue_only_rule_r5_puts_it_first() -> None:
    assert behind(True, AS_PEER, preempting(LATE)) == {"early": {"main": 4}}
    assert behind(True, Settings(), preempting(LATE)) == {"late": {"main": 3}}


@BOTH
@pytest.mark.parametrize(("since", "first"), [((50, 60), "b"), ((60, 50), "a"), ((50, 50), "b")])
def test_the_latest_preemptor_goes_first(settings: Settings, since: tuple[int, int], first: str) -> None:
    several = [
        preempting(waits(name, "q", pods(3, cpu=1), at=20), at)
        for name, at in zip("ab", map(float, since), strict=True)
    ]
    assert behind(False, settings, *several) == {first: {"main": 3}}


@BOTH
def test_workloads_behind_it_wait_while_it_reserves_the_quota(settings: Settings) -> None:
    """*small* would fit into the idle quota."""
    made = cluster(
        [],
        [queue("q", cpu=4)],
        runs("going", "q", pods(3, cpu=1), evicted=True),
        preempting(waits("big", "q", pods(4, cpu=1), priority=5, at=20)),
        waits("small", "q", pods(1, cpu=1)),
        settings=settings,
    )
    assert decided(made)["starts"] == {}


# ---------------------------------------------------------------- workloads that are being evicted


def going(settings: Settings, *more: Workload) -> Simulator:
    """*going* was evicted by *high* and still uses all quota."""
    return cluster(
        [],
        [queue("q", policies=LOWER, cpu=4)],
        runs("going", "q", pods(3, cpu=1), evicted=True),
        *more,
        preempting(waits("high", "q", pods(4, cpu=1), priority=5, at=20)),
        settings=settings,
    )


def test_an_evicted_workload_keeps_its_quota_and_is_not_evicted_again() -> None:
    made = going(AS_PEER)
    assert told(made, 4) == [[]] * 4
    assert made.quotas()["q"][FlavorResource("f", "cpu")].usage == 3


def test_the_preemptor_evicts_more_workloads_if_it_needs_them() -> None:
    made = going(AS_PEER, runs("more", "q", pods(1, cpu=1)))
    assert told(made, 3) == [["more goes for high"], [], []]


def test_evicted_workloads_are_gone_after_one_cycle() -> None:
    assert told(going(Settings()), 2)[1] == ["high starts"]


@pytest.mark.parametrize(("slow", "then"), [(False, ["high starts"]), (True, [])])
def test_workloads_preempted_in_a_cycle_are_gone_after_it_unless_they_stop_slowly(slow: bool, then: list[str]) -> None:
    made = cluster(
        [],
        [queue("q", policies=LOWER, cpu=4)],
        runs("low", "q", pods(3, cpu=1)),
        waits("high", "q", pods(4, cpu=1), priority=5),
        settings=AS_PEER,
    )
    assert told(made, 3, slow=slow) == [["low goes for high"], then, []]
    assert not slow or decided(made) == outcome()


# ---------------------------------------------------------------- nodes of several flavors

TWO = ("f", "g")


def two_flavors(settings: Settings, *work: Workload, rules: Fungibility = Fungibility()) -> Simulator:  # noqa: B008
    """A node with four cores in each flavor, and quota for all of them."""
    return cluster(
        [machine("f1", kind="f", cpu=4), machine("g1", kind="g", cpu=4)],
        [queue("q", flavors=TWO, rules=rules, cpu=99), queue("p", flavors=TWO, cpu=99)],
        *work,
        flavors=[flavor(each) for each in TWO],
        settings=settings,
    )


FOUR = waits("w", "q", pods(4, ONE_HOST, cpu=1), priority=9)
ON_G = {"w": {"main": {"g1": 4}}}


def test_as_peer_each_cycle_checks_the_nodes_of_one_flavor() -> None:
    full = runs("full", "p", pods(1, ONE_HOST, cpu=4), {"f1": 1})
    assert decided(two_flavors(Settings(), full, FOUR)) == outcome(ON_G)
    made = two_flavors(AS_PEER, full, FOUR)
    assert decided(made) == outcome()
    assert decided(made) == outcome(ON_G)


@pytest.mark.parametrize("next_if_preempts", [True, False])
def test_as_peer_the_flavor_with_quota_is_used_for_preemption_whatever_its_queue_prefers(
    next_if_preempts: bool,
) -> None:
    """Nothing would have to stop on g1, and `whenCanPreempt: TryNextFlavor` prefers that."""
    rules = Fungibility(next_if_preempts=next_if_preempts)
    low = runs("low", "q", pods(1, ONE_HOST, cpu=4), {"f1": 1}, priority=1)
    stops = outcome(stops={"low": ("w", "InClusterQueue")})
    assert decided(two_flavors(Settings(), low, FOUR, rules=rules)) == (outcome(ON_G) if next_if_preempts else stops)
    assert decided(two_flavors(AS_PEER, low, FOUR, rules=rules)) == stops


def test_as_peer_pods_that_never_fit_in_a_flavor_try_the_next_one_a_cycle_later() -> None:
    six = waits("w", "q", pods(1, ONE_HOST, cpu=6), priority=9)
    made = cluster(
        [machine("f1", kind="f", cpu=4), machine("g1", kind="g", cpu=6)],
        [queue("q", flavors=TWO, cpu=99)],
        six,
        flavors=[flavor(each) for each in TWO],
        settings=AS_PEER,
    )
    (waiting,) = made.cycle(1.0).pending
    assert (waiting.parked, waiting.reason) == (False, PendingReason.TOPOLOGY)
    assert [str(reason) for reason in waiting.reasons] == ["no node has room for its pod"]
    assert decided(made) == outcome({"w": {"main": {"g1": 1}}})


@BOTH
def test_with_one_flavor_both_modes_decide_alike(settings: Settings) -> None:
    low = runs("low", "q", pods(1, ONE_HOST, cpu=4), {"f1": 1}, priority=1)
    fewer = waits("fewer", "p", pods(4, ONE_HOST, least=2, cpu=1), at=20)
    made = cluster(
        [machine("f1", cpu=4), machine("f2", cpu=2)],
        [queue("q", cpu=99), queue("p", cpu=99)],
        low,
        FOUR,
        fewer,
        settings=settings,
    )
    assert decided(made) == outcome({"fewer": {"main": {"f2": 2}}}, {"low": ("w", "InClusterQueue")})
    made.carry_out()
    assert decided(made)["starts"] == {"w": {"main": {"f1": 4}}}
