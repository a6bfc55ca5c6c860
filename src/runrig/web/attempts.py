"""The attempts of a workflow's groups over time, derived from its events."""

from collections.abc import Iterable
from dataclasses import replace

from runrig.domain.plan import Admit, MoveGroup, Preempt, Queue, Release, Stop
from runrig.domain.records import Event
from runrig.domain.shown.why import WorkflowCause
from runrig.domain.workflows import Status
from runrig.web.drawings import Attempt

_LAST_OF_PROGRAMS = 128
"""Exit codes above it are 128 and the number of a signal."""
_SAID = {
    Status.COMPLETED: ("done", "completed"),
    Status.FAILED_BACKEND_ERROR: ("failed", "backend error"),
    Status.FAILED_CANCELED: ("failed", "cancelled"),
    Status.FAILED_EVICTED: ("taken", "evicted"),
    Status.FAILED_EXEC_TIMEOUT: ("failed", "time limit reached"),
    Status.FAILED_PREEMPTED: ("taken", "preempted"),
    Status.FAILED_QUEUE_TIMEOUT: ("failed", "queue time limit reached"),
    Status.FAILED_UPSTREAM: ("failed", "an upstream group failed"),
}
"""How an ended attempt is drawn and described; "failed" for others. Taken: it was stopped through no fault of its own."""


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
                found.append(Attempt(group, gang.attempt, event.time, None, None, None, "runs", "waiting"))
            case Admit(gang=id):
                change(_group(id), start=event.time, words="running")
            case Preempt(gang=id):
                change(_group(id), **_ended(Status.FAILED_PREEMPTED))
            case Stop(gang=id, cause=cause) if (group := _group(id)) in last and found[last[group]].outcome == "runs":
                drained = {"words": "drained"} if cause is Status.FAILED_EVICTED else {}
                change(group, **_ended(cause) | drained)
            case Release(gang=id):
                change(_group(id), end=event.time)
            case MoveGroup(group=group, status=Status.RUNNING) if group in last and found[last[group]].ran is None:
                change(group, ran=event.time)
            case MoveGroup(group=group, status=status) if status.finished and group in last:
                attempt = found[last[group]]
                end = event.time if attempt.end is None else attempt.end
                if attempt.outcome == "runs":
                    change(group, **_ended(status), end=end)
                else:
                    change(group, end=end)
    return tuple(found)


def _group(gang: str) -> str:
    return gang.partition("/")[2]


def said_of(status: str) -> str:
    """``time limit reached``, for the status of a workflow that did not end well."""
    return _ended(Status(status))["words"]


def killed(cause: WorkflowCause) -> bool:
    """Whether a signal ended the program, so that its last line need not tell why: it ran out of memory, or was stopped."""
    return (cause.exit_code or 0) > _LAST_OF_PROGRAMS


def _ended(status: Status) -> dict[str, str]:
    outcome, words = _SAID.get(status, ("failed", status.value.lower().replace("_", " ")))
    return {"outcome": outcome, "words": words}
