"""Chooses the workloads to preempt so that another one can start, by the strategy in the settings."""

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
    """The workloads that must stop so that *preemptor* gets *request* and its pods get nodes; empty if no allowed set
    is enough.

    O(candidates × depth × resources), once to choose targets and once to drop those that are not needed.
    """
    if nobody(context.queues[preemptor.queue], preemptor, contested):
        return ()
    search = ClassicalSearch if context.strategies is None else FairSearch
    return search(context, preemptor, request, contested, finds_placement).run()
