"""Converts task groups to gangs."""

from runrig.domain.gangs import Gang, PodSet
from runrig.domain.quantities import of_one_pod
from runrig.domain.workflows import GroupSpec, Workflow, WorkflowSpec


def gang_of(workflow: Workflow, group: GroupSpec, attempt: int = 0) -> Gang:
    """The gang of a group that is about to be queued."""
    pod_sets = tuple(
        PodSet(each.name, each.pods, of_one_pod(each.requests), each.min_count, each.platform, each.topology)
        for each in group.tasks
    )
    gang_id = f"{workflow.id}/{group.name}"
    who, when = workflow.submitted_by, workflow.submit_time
    return Gang(gang_id, workflow.pool, workflow.priority, when, pod_sets, attempt, user=who)


def first_gangs(workflow: Workflow, spec: WorkflowSpec) -> tuple[Gang, ...]:
    """The gangs of a new workflow that do not wait for others of it (rules W1, W4), or for other workflows (rule W5)."""
    if workflow.waits_for_others:
        return ()
    first = [group for group in spec.groups if not group.upstream][: workflow.most]
    return tuple(gang_of(workflow, group) for group in first)
