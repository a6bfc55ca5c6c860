"""The engine for imported queues compared with an independent model of the rules, and with brute force. After the first
preemption the two may differ: Kueue preempts in endless loops, which rule R5 prevents. So runs of several cycles are
compared up to the first cycle that preempts, including that one.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from runrig.domain.kueue import Pending, Preemption, Settings
from runrig.domain.quantities import FlavorResource
from runrig.kueue.decisions import CycleReport, PendingReason, PreemptionReason
from runrig.kueue.declared import (
    Fungibility,
    Policy,
    Preference,
    System,
    Workload,
)
from runrig.kueue.engine.simulator import Simulator
from tests.exploring import tries
from tests.kueue.engine.clusters import cluster, pods, queue, runs, waits
from tests.kueue.engine.flavors_model import Nomination, full_counts, nominate, ranges, reduced, totals
from tests.kueue.engine.model import Model, shape
from tests.kueue.engine.preemption_model import Holder, Need, Search, allows, amounts_of, without
from tests.kueue.engine.quota_model import COHORT, QUEUE, Ledger, Node, Tree, plus
from tests.kueue.engine.strategies import Bias, manager_settings, systems, workloads

pytestmark = pytest.mark.explored
FEW = settings(max_examples=tries(60), suppress_health_check=list(HealthCheck))
SOME = settings(max_examples=tries(100), suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=5_000, suppress_health_check=list(HealthCheck))
MOST_CANDIDATES = 12

VALID = Bias()
OVER = Bias(valid=False)
CLASSICAL = Bias(fair=False)
FAIR_SHARING = Bias(fair=True)
QUOTA_ALONE = Bias(preempting=False, plain=True, reducing=True, most_pending=1, most_running=6)


# ---------------------------------------------------------------- the same cycle


def plain(report: CycleReport) -> tuple[object, ...]:
    """The common part of both results, without the order of lists and the engine's own reasons."""
    pending = [replace(w, reasons=()) for w in report.pending]
    return (
        sorted(report.admitted, key=lambda a: a.workload),
        sorted((p.workload, p.queue, p.by, p.reason) for p in report.preempted),
        sorted(map(without_guess, pending), key=lambda w: w.workload),
        {queue: count for queue, count in sorted(report.skipped.items()) if count},
    )


def without_guess(waiting: Pending) -> Pending:
    """Only workloads that were considered have a reason of their own."""
    return waiting if waiting.considered else replace(waiting, reason=None)


def agree(world: Simulator, model: Model) -> None:
    inactive = {entry.name for entry in world.inactive()}
    assert {(e.kind, e.name) for e in world.inactive()} == {
        *(("ClusterQueue", name) for name, queue in model.tree.queues.items() if not model.active(queue)),
        *(("Cohort", name) for name in model.tree.cohorts if model.tree.in_cycle(Node(COHORT, name))),
    }
    ours = {name: numbers for name, numbers in model.quotas().items() if name not in inactive}
    assert {name: numbers for name, numbers in world.quotas().items() if name not in inactive} == ours
    shares = {name: share for name, share in world.shares().items() if name not in inactive}
    assert shares == {name: share for name, share in model.shares().items() if name not in inactive}


def same_cycle(world: Simulator, model: Model, now: float) -> CycleReport:
    theirs, ours = world.cycle(now), model.cycle(now)
    assert plain(theirs) == plain(ours)
    agree(world, model)
    return theirs


def first_cycles(system: System, manager: Settings) -> None:
    """Until the first preemption both do the same, whatever ends in between."""
    world, model = Simulator(system, manager), Model(system, manager)
    agree(world, model)
    for at in range(4):
        report = same_cycle(world, model, system.now + at)
        event(f"admits {min(len(report.admitted), 3)}, preempts {min(len(report.preempted), 3)}")
        if report.preempted or waits_for_evicted(model):
            return
        running = sorted(name for name, w in model.workloads.items() if w.granted is not None)
        if at % 2 and running:
            world.finish(running[0])
            model.finish(running[0])
            agree(world, model)


def waits_for_evicted(model: Model) -> bool:
    return bool(model.sticky)


@FEW
@given(systems(CLASSICAL), manager_settings(CLASSICAL))
def test_classical_cycles_match_the_model(system: System, manager: Settings) -> None:
    first_cycles(system, manager)


@FEW
@given(systems(FAIR_SHARING), manager_settings(FAIR_SHARING))
def test_fair_cycles_match_the_model(system: System, manager: Settings) -> None:
    first_cycles(system, manager)


@FEW
@given(systems(OVER), manager_settings(OVER))
def test_cycles_on_over_committed_trees_match_the_model(system: System, manager: Settings) -> None:
    first_cycles(system, manager)


@FEW
@given(systems(), manager_settings(), st.data())
def test_later_submissions_match_the_model(system: System, manager: Settings, data: st.DataObject) -> None:
    world, model = Simulator(system, manager), Model(system, manager)
    for at in range(3):
        if same_cycle(world, model, system.now + at).preempted or model.sticky:
            return
        queue = data.draw(st.sampled_from(system.queues))
        late = data.draw(workloads(f"late{at}", queue, VALID))
        world.submit(late)
        model.submit(late)
        # The engine may park it immediately with a parked one of its shape, one cycle earlier than the model:
        # both look again.
        alike = any(shape(late) == shape(model.workloads[name]) for name in model.parked)
        if alike or data.draw(st.booleans()):
            world.wake()
            model.wake()


# ---------------------------------------------------------------- rule Q3 by brute force


def every_fr(tree: Tree) -> list[FlavorResource]:
    return sorted({fr for node in tree.nodes for fr in tree.quotas(node)})


@SOME
@given(systems(QUOTA_ALONE), manager_settings())
def test_a_workload_is_admitted_exactly_if_every_balance_holds(system: System, manager: Settings) -> None:
    """Q3 at all nodes, directly from its definition, for every choice of flavors and every step of counts."""
    model = Model(system, manager)
    (workload,) = [w for w in system.workloads if w.granted is None]
    report = Simulator(system, manager).cycle(system.now)
    queue = model.tree.queues[workload.queue]
    if not model.active(queue):
        assert report.admitted == ()
        return
    full = full_counts(workload, manager)
    spans = ranges(workload, full) if manager.gates.get("PartialAdmission", True) else (0,)
    wanted = next((counts for counts in steps(full, spans) if somewhere(model, workload, counts)), None)
    event("nothing" if wanted is None else "whole" if wanted == full else "fewer")
    assert [tuple(g.count for g in a.granted) for a in report.admitted] == ([] if wanted is None else [wanted])


def steps(full: tuple[int, ...], spans: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [reduced(full, spans, step) for step in range(sum(spans) + 1)] if sum(spans) else [full]


def somewhere(model: Model, workload: Workload, counts: tuple[int, ...]) -> bool:
    """True if each resource group has a flavor with which all balances hold (one pod set)."""
    (pod_set,) = workload.pod_sets
    queue = model.tree.queues[workload.queue]
    asked = totals(queue, pod_set, counts[0])
    return all(
        any(
            all(holds_after(model, queue.name, FlavorResource(f, r), asked[r]) for r in group.resources if r in asked)
            for f in group.flavors
            if f != "b"  # no pod here tolerates its taint
        )
        for group in queue.groups
        if any(resource in asked for resource in group.resources)
    )


def holds_after(model: Model, queue: str, fr: FlavorResource, amount: int) -> bool:
    return Ledger(model.tree, plus(model.usage(), queue, {fr: amount})).valid(fr)


@FEW
@given(systems(), manager_settings())
def test_from_a_valid_start_every_balance_holds_after_the_targets_stop(system: System, manager: Settings) -> None:
    world, model = Simulator(system, manager), Model(system, manager)
    ledger = model.ledger()
    report = world.cycle(system.now)
    targets = {p.workload for p in report.preempted}
    for admission in report.admitted:
        ledger = ledger.plus(admission.queue, amounts_of(admission.granted))
    after = without(ledger, [holder for holder in model.holders() if holder.name in targets])
    assert [key for key in every_fr(model.tree) if not after.valid(key)] == []
    gone = set(world.carry_out())
    assert targets <= gone
    assert gone - targets <= {workload.name for workload in system.workloads if workload.evicted}
    ledger = without(ledger, [holder for holder in model.holders() if holder.name in gone])
    for node in model.tree.nodes:
        for key, numbers in world.quotas().get(model.label(node), {}).items():
            assert numbers == ledger.numbers(node, key)


@SOME
@given(systems(OVER))
def test_available_quota_of_an_over_committed_tree_matches_a_recount(system: System) -> None:
    world, model = Simulator(system), Model(system)
    event("negative" if any(n.available < 0 for ns in model.quotas().values() for n in ns.values()) else "positive")
    agree(world, model)


# ---------------------------------------------------------------- targets


def single_preemption(system: System, manager: Settings) -> tuple[Model, Nomination, set[str], CycleReport] | None:
    """The only preemptor of a first cycle, and its targets in the engine. With several preemptors, targets may depend
    on those of an earlier one.
    """
    report = Simulator(system, manager).cycle(system.now)
    if len(preemptors := {p.by for p in report.preempted}) != 1:
        return None
    model = Model(system, manager)
    nomination = nominate(model.situation(), model.workloads[preemptors.pop()], {})
    return model, nomination, {p.workload for p in report.preempted}, report


def legal(model: Model, nomination: Nomination, holder: Holder, reason: PreemptionReason) -> bool:
    """True if policy and position allow it."""
    incoming, ledger = nomination.workload, model.ledger()
    policies = model.tree.queues[incoming.queue].policies
    contested = nomination.assignment.contested
    if not any(fr in holder.amounts for fr in contested) or not model.same_tree(holder.queue, incoming.queue):
        return False
    if holder.queue == incoming.queue:
        return reason is PreemptionReason.IN_QUEUE and allows(policies.within_queue, incoming, holder.workload)
    if not ledger.borrows_any(Node(QUEUE, holder.queue), contested):
        return False
    if reason is PreemptionReason.RECLAIM_WHILE_BORROWING:
        limit, priority = policies.borrow_max_priority, holder.workload.priority
        if policies.borrow is Policy.NEVER or priority >= incoming.priority or (limit is not None and priority > limit):
            return False
    fair = model.settings.strategies is not None
    reasons = (
        PreemptionReason.RECLAIM,
        PreemptionReason.FAIR_SHARING if fair else PreemptionReason.RECLAIM_WHILE_BORROWING,
    )
    return reason in reasons and allows(policies.reclaim, incoming, holder.workload)


def irreducible(model: Model, nomination: Nomination, taken: set[str]) -> bool:
    """True if the request fits without the targets, but not with any one of them back; both with borrowing, or both
    without.
    """
    search = searcher(model, nomination)
    held = [(holder, PreemptionReason.IN_QUEUE) for holder in model.holders() if holder.name in taken]
    return any(
        search.fits(held, borrowing=borrowing)
        and not any(search.fits([other for other in held if other is not one], borrowing=borrowing) for one in held)
        for borrowing in (True, False)
    )


def searcher(model: Model, nomination: Nomination) -> Search:
    assignment = nomination.assignment
    need = Need(nomination.workload, assignment.amounts, assignment.contested)
    return Search(model.ledger(), list(model.holders()), need)


def gap(model: Model, nomination: Nomination, taken: set[str]) -> int | None:
    """How many fewer targets would be enough, of all allowed sets; None if there are too many candidates to try."""
    search = searcher(model, nomination)
    reasons = (PreemptionReason.IN_QUEUE, PreemptionReason.RECLAIM, PreemptionReason.FAIR_SHARING)
    candidates = [h for h in model.holders() if any(legal(model, nomination, h, reason) for reason in reasons)]
    if len(candidates) > MOST_CANDIDATES:
        return None
    for size in range(1, len(taken)):
        for some in combinations(candidates, size):
            if search.fits([(holder, PreemptionReason.IN_QUEUE) for holder in some]):
                return len(taken) - size
    return 0


def check_targets(system: System, manager: Settings, gaps: Counter[str]) -> None:
    found = single_preemption(system, manager)
    if found is None:
        event("no single preemptor")
        return
    model, nomination, taken, report = found
    held = {holder.name: holder for holder in model.holders()}
    illegal = [
        p for p in report.preempted if not legal(model, nomination, held[p.workload], PreemptionReason(p.reason))
    ]
    assert illegal == []
    assert irreducible(model, nomination, taken)
    more = gap(model, nomination, taken)
    event(f"targets more than the fewest: {more}")
    gaps[f"{len(taken)} targets, {more} more than the fewest"] += 1


CROWDED = Bias(most_running=12, most_pending=2)


@FEW
@given(systems(CROWDED), manager_settings())
def test_targets_are_allowed_and_all_of_them_are_needed(system: System, manager: Settings) -> None:
    check_targets(system, manager, Counter())


# ---------------------------------------------------------------- counts

REDUCING = Bias(most_pending=1, most_running=6, reducing=True)


@FEW
@given(systems(REDUCING), manager_settings())
def test_counts_match_an_exhaustive_search_where_acceptance_is_monotone(system: System, manager: Settings) -> None:
    check_counts(system, manager)


def check_counts(system: System, manager: Settings) -> None:
    model = Model(system, manager)
    heads = model.heads()
    report = Simulator(system, manager).cycle(system.now)
    if not heads or not manager.gates.get("PartialAdmission", True):
        return
    (workload,) = heads
    if not model.welcome(workload) or not model.active(model.tree.queues[workload.queue]):
        return
    full = full_counts(workload, manager)
    tried = [accepted(model, workload, counts) for counts in steps(full, ranges(workload, full))]
    if tried != sorted(tried):
        event("not monotone")
        return
    wanted = next((c for c, yes in zip(steps(full, ranges(workload, full)), tried, strict=True) if yes), None)
    started = [tuple(g.count for g in a.granted) for a in report.admitted]
    event("nothing" if wanted is None else "whole" if wanted == full else "fewer")
    assert bool(started or report.preempted) is (wanted is not None)
    assert started in ([], [wanted])


def accepted(model: Model, workload: Workload, counts: tuple[int, ...]) -> bool:
    fixed = tuple(
        replace(pod_set, count=count, min_count=None, reclaimable=0)
        for pod_set, count in zip(workload.pod_sets, counts, strict=True)
    )
    return nominate(model.situation(), replace(workload, pod_sets=fixed), {}).accepted


# ---------------------------------------------------------------- cases found by the tests above


def test_a_flavor_where_one_resource_borrows_and_another_needs_targets_preempts() -> None:
    """The flavor is ranked by the resource that borrows, but the workload still needs preemption."""
    prefers = Fungibility(True, True, Preference.PREEMPTION_OVER_BORROWING)
    queues = queue("q0", "c0", rules=prefers, cpu=3, gpu=0), queue("q1", "c0", cpu=0, gpu=4)
    jobs = runs("r", "q0", pods(cpu=3)), waits("w", "q0", pods(cpu=2, gpu=4), priority=1)
    report = cluster((), queues, *jobs).cycle(0.0)
    assert report.preempted == (Preemption("r", "q0", "w", PreemptionReason.IN_QUEUE),)
    assert [(w.workload, w.reason, w.parked) for w in report.pending] == [
        ("w", PendingReason.WAITING_FOR_TARGETS, False)
    ]


def test_a_flavor_that_can_never_fit_is_reported_even_if_another_resource_is_only_short() -> None:
    jobs = runs("r", "q0", pods(cpu=4)), waits("w", "q0", pods(cpu=4, gpu=4))
    (pending,) = cluster((), [queue("q0", cpu=6, gpu=2)], *jobs).cycle(0.0).pending
    assert pending.reason is PendingReason.EXCEEDS_MAX_QUOTA


# ---------------------------------------------------------------- more cases


@pytest.mark.soak
@MANY
@given(systems(), manager_settings())
def test_many_cycles_match_the_model(system: System, manager: Settings) -> None:
    first_cycles(system, manager)


@pytest.mark.soak
@MANY
@given(systems(OVER), manager_settings(OVER))
def test_many_over_committed_cycles_match_the_model(system: System, manager: Settings) -> None:
    first_cycles(system, manager)


@pytest.mark.soak
@MANY
@given(systems(REDUCING), manager_settings())
def test_many_counts_match_an_exhaustive_search(system: System, manager: Settings) -> None:
    check_counts(system, manager)


@pytest.mark.soak
def test_distance_of_the_targets_from_the_minimum() -> None:
    gaps: Counter[str] = Counter()

    @MANY
    @given(systems(CROWDED), manager_settings())
    def look(system: System, manager: Settings) -> None:
        check_targets(system, manager, gaps)

    look()
    for line, count in sorted(gaps.items()):
        print(f"{count:7} systems: {line}")
    assert gaps
