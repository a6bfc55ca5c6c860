"""The gang that a task group becomes, and the row that a store keeps of it."""

from runrig.domain.gangs import Gang, PodSet
from runrig.domain.quantities import of_one_pod
from runrig.domain.records import GangRow
from runrig.domain.workflows import GroupSpec, Workflow
from runrig.engine.ledger.queue import Entry


def gang_of(workflow: Workflow, group: GroupSpec, attempt: int = 0) -> Gang:
    """The gang that a group becomes when it is queued."""
    pod_sets = tuple(
        PodSet(each.name, each.pods, of_one_pod(each.requests), each.min_count, each.platform, each.topology)
        for each in group.tasks
    )
    gang_id = f"{workflow.id}/{group.name}"
    return Gang(gang_id, workflow.pool, workflow.priority, workflow.submit_time, pod_sets, attempt)


def gang_row(entry: Entry) -> GangRow:
    """The row of *entry*."""
    return GangRow(
        entry.gang,
        entry.state,
        entry.placement,
        entry.waits_for,
        entry.admitted_at,
        entry.preempted_by,
        entry.law,
    )
