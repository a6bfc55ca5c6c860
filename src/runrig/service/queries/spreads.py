"""Reports gangs that are spread over more domains than they prefer, for `query`, `why` and `events`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runrig.domain.gangs import Gang
from runrig.domain.observed import ClusterEvent
from runrig.domain.plan import Admit, Queue
from runrig.domain.records import Event
from runrig.domain.workflows import WorkflowSpec, kind_of_group
from runrig.engine.explain.spread import Admitted, spreads_in
from runrig.service.queries.sources import Asks


class Spread(NamedTuple):
    """*words*: about the admission at *time*; empty if all preferences were met."""

    group: str
    time: float
    words: str


def prefers(spec: WorkflowSpec | None) -> bool:
    """Whether a task of *spec* has a level that is only preferred."""
    tasks = () if spec is None else [task for group in spec.groups for task in group.tasks]
    return any(not each.required for task in tasks for each in task.topology)


def spreads(asker: Asks, events: Iterable[Event]) -> tuple[Spread, ...]:
    """Yields a result for each admission in *events*, a workflow's log, whose gang has a preference; in order."""
    gangs: dict[str, Gang] = {}
    times: list[float] = []
    admitted: list[Admitted] = []
    for event in events:
        action = event.action
        if isinstance(action, Queue):
            gangs[action.gang.id] = action.gang
        elif isinstance(action, Admit) and (gang := gangs.get(action.gang)) is not None and _prefers(gang):
            times.append(event.time)
            admitted.append((gang, action.placement))
    words = asker.ask_steps(spreads_in, tuple(admitted))[0] if admitted else ()
    return tuple(
        Spread(gang.id.partition("/")[2], time, each)
        for (gang, _), time, each in zip(admitted, times, words, strict=True)
    )


def latest_in_words(found: Iterable[Spread]) -> tuple[str, ...]:
    """Returns the words about the last admission of each group, by group."""
    latest = {each.group: each.words for each in found}
    return tuple(
        f"{'Element ' * (kind_of_group(group) == 'element')}{group} is {words}"
        for group, words in sorted(latest.items())
        if words
    )


def noted(found: Iterable[Spread]) -> Sequence[ClusterEvent]:
    return [
        ClusterEvent(each.time, None, each.group, "runrig", "Split", f"Split: {each.words}")
        for each in found
        if each.words
    ]


def _prefers(gang: Gang) -> bool:
    return any(not each.required for pod_set in gang.pod_sets for each in pod_set.topology)
