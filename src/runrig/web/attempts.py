"""The attempts of a workflow's groups over time, out of its events.

Pure.
"""

from collections.abc import Iterable
from dataclasses import replace

from runrig.domain.plan import Admit, MoveGroup, Preempt, Queue, Release, Stop
from runrig.domain.records import Event
from runrig.domain.workflows import Status
from runrig.web.drawings import Attempt


def attempts_of(events: Iterable[Event]) -> tuple[Attempt, ...]:
    """In the order in which they were queued."""
    found: list[Attempt] = []
    last: dict[str, int] = {}

    def change(group: str, **values: object) -> None:
        if group in last:
            found[last[group]] = replace(found[last[group]], **values)  # type: ignore[arg-type]

    for event in events:
        match event.action:
            case Queue(gang):
                group = _group(gang.id)
                last[group] = len(found)
                found.append(Attempt(group, gang.attempt, event.time, None, None, "runs", "waits"))
            case Admit(gang=id):
                change(_group(id), start=event.time, said="holds its place")
            case Preempt(gang=id):
                change(_group(id), outcome="taken", said="preempted")
            case Stop(gang=id, cause=cause) if (group := _group(id)) in last and found[last[group]].outcome == "runs":
                change(group, outcome="failed", said=_words(cause))
            case Release(gang=id):
                change(_group(id), end=event.time)
            case MoveGroup(group=group, status=status) if status.finished and group in last:
                attempt = found[last[group]]
                end = event.time if attempt.end is None else attempt.end
                if attempt.outcome == "runs":
                    good = status is Status.COMPLETED
                    change(group, outcome="done" if good else "failed", said=_words(status), end=end)
                else:
                    change(group, end=end)
    return tuple(found)


def _group(gang: str) -> str:
    return gang.partition("/")[2]


def _words(value: Status) -> str:
    return value.value.lower().replace("_", " ")
