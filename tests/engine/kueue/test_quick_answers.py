"""Heads that are answered at once get the answer of the whole scan (laws A1, R2)."""

from collections.abc import Iterator

from runrig.domain.kueue import PendingReason
from runrig.engine.kueue.flavors import assign
from runrig.engine.kueue.nomination import finder, hopeless, nominate
from runrig.engine.kueue.scheduler_context import SchedulerContext
from runrig.engine.kueue.simulator import Simulator
from runrig.engine.kueue.workload import FIT, WorkloadState
from tests.engine.kueue import drawn


def waiting_in_each_cycle(systems: int) -> Iterator[tuple[SchedulerContext, WorkloadState]]:
    for number in range(systems):
        system, settings = drawn.case(number)
        world = Simulator(system, settings)
        context = world._context
        for at in range(3):
            for queue in context.queues.values():
                if queue.leaf.active:
                    yield from ((context, each) for each, _ in queue.waiting() if not each.spec.problem)
            world.decide(system.now + at)


def test_who_is_called_hopeless_finds_nothing_in_the_whole_scan() -> None:
    found = 0
    for context, workload in waiting_in_each_cycle(300):
        if hopeless(context, workload):
            found += 1
            entry = nominate(context, workload)
            assert (entry.assigned.mode < FIT, entry.targets) == (True, ())
            assert entry.assigned.tried == (-1,)
            assert entry.assigned.pending_reason is PendingReason.WAITING_FOR_QUOTA
            assert entry.assigned.short == ()
    assert found > 10


def test_what_fits_at_once_is_assigned_as_by_the_whole_scan() -> None:
    found = 0
    for context, workload in waiting_in_each_cycle(100):
        ready, workload.shape.ready = workload.shape.ready, ()
        scanned = assign(context, finder(context), workload, workload.shape.counts)
        workload.shape.ready = ready
        assert assign(context, finder(context), workload, workload.shape.counts) == scanned
        found += bool(ready) and scanned.mode == FIT and not scanned.level
    assert found > 40
