"""How often a workflow was preempted or drained, from its log."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from runrig.domain.laws import cited
from runrig.domain.plan import MoveGroup, Preempt
from runrig.domain.records import Event
from runrig.domain.shown.why import GroupWhy, Preemption
from runrig.domain.value import at
from runrig.domain.workflows import Status, Workflow
from runrig.service.queries.events import preempted_in_words


def with_preemptions(workflow: Workflow, groups: Sequence[GroupWhy], events: Iterable[Event]) -> tuple[GroupWhy, ...]:
    """Returns *groups* with their preemptions; if *workflow* has ended, only groups that had any."""
    preempted = tuple(_preemptions(events))
    if not groups:
        state = Status.__members__.get(workflow.status.name, Status.SCHEDULING)
        groups = [GroupWhy(name, state) for name in sorted({each.gang.partition("/")[2] for each in preempted})]
    of_group = {each.group: f"{workflow.id}/{each.group}" for each in groups if not _runs_on(each)}
    return tuple(
        replace(group, preempted=tuple(each for each in preempted if each.gang == of_group.get(group.group)))
        for group in groups
    )


def _runs_on(group: GroupWhy) -> bool:
    """Whether it is running and this attempt is not being preempted. Earlier attempts are among the events."""
    return group.state in (Status.INITIALIZING, Status.RUNNING) and group.preempted_by is None


def _preemptions(events: Iterable[Event]) -> Iterator[Preemption]:
    for event in events:
        action = event.action
        if isinstance(action, Preempt):
            yield Preemption(at(event.time), action.by, action.law.value, preempted_in_words(action), action.gang)
        elif isinstance(action, MoveGroup) and action.stopping is Status.FAILED_EVICTED:
            gang = f"{action.workflow}/{action.group}"
            yield Preemption(at(event.time), "", "DRAIN", f"was stopped because {action.message} {cited('N2')}", gang)
