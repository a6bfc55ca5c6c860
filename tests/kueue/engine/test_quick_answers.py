"""Heads that need no scan get the same result as from the complete scan (rules A1, R2)."""

from collections import Counter
from collections.abc import Iterator

from runrig.kueue.declared import Policy
from runrig.kueue.engine.at_once import at_once
from runrig.kueue.engine.head_order import Nomination
from runrig.kueue.engine.nomination import nominate
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.simulator import Simulator
from runrig.kueue.engine.workload import FIT, RECLAIM, FlavorAssignment, WorkloadState
from tests.conformance.systems import settings, system
from tests.conformance.test_peer import SYSTEMS


def waiting_in_each_cycle() -> Iterator[tuple[SchedulerContext, WorkloadState]]:
    """Those of the random systems that Kueue decided."""
    for case in SYSTEMS:
        made = system(case)
        world = Simulator(made, settings(case))
        context = world._context
        for at in range(3):
            for queue in context.queues.values():
                if queue.leaf.active:
                    yield from ((context, each) for each, _ in queue.waiting() if not each.spec.problem)
            world.decide(made.now + at)


def nominated_without(context: SchedulerContext, workload: WorkloadState, start: int) -> Nomination:
    """The result of `nominate` without shortcuts."""
    ready, workload.shape.ready = workload.shape.ready, ()
    scanned = nominate(context, workload, after=(start - 1,) * len(workload.shape.group_requests))
    workload.shape.ready = ready
    return scanned


def kind(known: FlavorAssignment, workload: WorkloadState, start: int) -> str:
    if known.mode < FIT:
        return "taken back" if known.mode == RECLAIM else "nothing"
    return "first" if known.chosen == [workload.shape.group_requests[0].options[start]] else "later"


def test_shortcuts_give_the_result_of_the_complete_scan() -> None:
    found = Counter[str]()
    for context, workload in waiting_in_each_cycle():
        for start in range(max(1, len(workload.shape.ready))):
            known = at_once(context, workload, start, {})
            if known is None:
                continue
            entry = nominate(context, workload, after=(start - 1,) * len(workload.shape.group_requests))
            scanned = nominated_without(context, workload, start)
            assert entry.assigned == known
            assert entry.targets == scanned.targets
            if known is workload.shape.nothing:
                assert scanned.assigned.mode < FIT
                said = (scanned.assigned.tried, scanned.assigned.pending_reason, scanned.assigned.short)
                assert said == (known.tried, known.pending_reason, known.short)
                assert context.queues[workload.queue].spec.policies.reclaim is Policy.ANY, "it holds nothing back"
            else:
                assert scanned.assigned == known
            found[kind(known, workload, start)] += 1
    assert min(found[each] for each in ("nothing", "taken back", "first", "later")) >= 5, found
