"""Which workloads have to stop so that another may start, by the preemption that the settings ask for."""

from collections.abc import Sequence

from runrig.engine.quota.quota_node import Request
from runrig.kueue.engine.candidates import nobody
from runrig.kueue.engine.classical import ClassicalSearch
from runrig.kueue.engine.fair import FairSearch
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.workload import WorkloadState, WorkloadTarget
from runrig.kueue.engine.workload_placement import FindsPlacement


def workload_targets(
    context: SchedulerContext,
    preemptor: WorkloadState,
    request: Request,
    contested: frozenset[int],
    finds_placement: FindsPlacement | None = None,
) -> Sequence[WorkloadTarget]:
    """The workloads that have to stop so that *preemptor* gets *request*, and a place; empty if no legal set does.

    O(candidates x depth x resources); twice that for putting back.
    """
    if nobody(context.queues[preemptor.queue], preemptor, contested):
        return ()
    search = ClassicalSearch if context.strategies is None else FairSearch
    return search(context, preemptor, request, contested, finds_placement).run()
