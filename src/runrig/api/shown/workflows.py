"""Workflows, and what happened to them."""

from collections.abc import Iterable, Iterator

from runrig import wire
from runrig.domain.gangs import Gang
from runrig.domain.observed import ClusterEvent
from runrig.domain.plan import Admit, Queue, Submit
from runrig.domain.records import Event
from runrig.domain.workflows import Group, Task, Workflow
from runrig.service.queries.events import granted_in_words, in_words
from runrig.service.queries.pod_counts import pod_counts
from runrig.service.queries.workflow_queries import WorkflowView


def queued_s(workflow: Workflow, now: float) -> float:
    """Seconds until its first task ran, or it ended without running, or until now."""
    return round(max(0.0, (workflow.start_time or workflow.end_time or now) - workflow.submit_time), 6)


def duration_s(workflow: Workflow, now: float) -> float | None:
    if workflow.start_time is None:
        return None
    return round(max(0.0, (workflow.end_time or now) - workflow.start_time), 6)


def in_file_order(view: WorkflowView) -> list[Group]:
    if view.spec is None:
        return list(view.stored.groups)
    order = {group.name: place for place, group in enumerate(view.spec.groups)}
    return sorted(view.stored.groups, key=lambda group: (order.get(group.name, len(order)), group.name))


def tasks_of(view: WorkflowView, group: Group) -> list[Task]:
    """The attempts of the group's pods, in the order of the file."""
    return sorted(
        (task for task in view.stored.tasks if task.group == group.name),
        key=lambda task: (*_place_of(view, task), task.index, task.retry_id),
    )


def pods(view: WorkflowView, group: Group) -> list[wire.PodsAnswer]:
    """Nothing where the specification is gone."""
    counts = () if view.spec is None else pod_counts(view.spec.group(group.name), group, view.stored.tasks)
    return [wire.PodsAnswer(task=each.task, asked=each.asked, least=each.least, got=each.got) for each in counts]


def neighbours(view: WorkflowView, name: str) -> tuple[tuple[str, ...], list[str]]:
    """(groups before, groups after); empty if the specification is gone."""
    groups = () if view.spec is None else view.spec.groups
    upstream = next((group.upstream for group in groups if group.name == name), ())
    return upstream, [group.name for group in groups if name in group.upstream]


def _place_of(view: WorkflowView, task: Task) -> tuple[int, str]:
    """The position of the task in the file, to sort by."""
    groups = () if view.spec is None else view.spec.groups
    names = [spec.name for group in groups if group.name == task.group for spec in group.tasks]
    return (names.index(task.spec) if task.spec in names else len(names), task.spec)


def each_in_words(found: Iterable[Event | ClusterEvent]) -> Iterator[tuple[Event | ClusterEvent, str]]:
    """Each with its words: *found* is of one workflow.  An admission is compared with what the gang asked for when it was queued.

    The gang of a workflow with one group is called by the workflow.
    """
    gangs: dict[str, Gang] = {}
    alone, id = "", ""
    for event in found:
        if isinstance(event, ClusterEvent):
            yield event, _noted(event)
            continue
        action, granted = event.action, ""
        if isinstance(action, Submit) and len(action.groups) == 1:
            alone, id = f"{action.workflow.id}/{action.groups[0].name}", action.workflow.id
        elif isinstance(action, Queue):
            gangs[action.gang.id] = action.gang
        elif isinstance(action, Admit) and action.gang in gangs:
            granted = granted_in_words(gangs[action.gang], action.placement)
        words = in_words(action) + granted
        yield event, words.replace(alone, id, 1) if alone and words.startswith(alone) else words


def _noted(event: ClusterEvent) -> str:
    """A line from a program of the cluster begins with the program's name: ``kubelet: task main (attempt 0): Pulled: …  (x3)``."""
    key = event.key
    about = f"task {key.task} (attempt {key.retry_id})" if key else f"group {event.group}" if event.group else ""
    reason = "" if event.text.startswith(event.reason) else event.reason
    words = ": ".join(part for part in (event.source, about, reason, event.text) if part)
    return words if event.count == 1 else f"{words} (x{event.count})"
