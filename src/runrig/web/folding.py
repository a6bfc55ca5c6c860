"""Events for users: one line for the same event of many tasks."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from runrig.domain.laws import cited
from runrig.domain.shown.events import ClusterEvent, WorkflowEvent

LONG = 140
"""Characters above which a line is shortened."""
_OF_A_TASK = re.compile(r"task (\S+) \(attempt (\d+)\) (is|starts) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """*rest*: shown on demand; "" if the whole line is shown."""

    time: datetime
    text: str
    rest: str
    law: str
    workflow: str | None


def folded(events: Iterable[WorkflowEvent | ClusterEvent]) -> list[Line]:
    """Merges adjacent events that are equal except for their task, in order."""
    found: list[tuple[tuple[object, ...] | None, list[WorkflowEvent | ClusterEvent]]] = []
    for event in events:
        match = _OF_A_TASK.fullmatch(event.text)
        key = (event.time, event.law, _workflow(event), match[3], match[4]) if match else None
        if key is not None and found and found[-1][0] == key:
            found[-1][1].append(event)
        else:
            found.append((key, [event]))
    return [_line(same) for _, same in found]


def _line(same: list[WorkflowEvent | ClusterEvent]) -> Line:
    first, text = same[0], same[0].text
    match = _OF_A_TASK.fullmatch(text)
    if len(same) > 1 and match:
        text = f"{len(same)} tasks {'are' if match[3] == 'is' else 'start'} {match[4]}"
    shown, rest = _cut(text.replace(f" {cited(first.law)}", "") if first.law else text)  # Shown in its own column.
    return Line(first.time, shown, rest, first.law, _workflow(first))


def _cut(text: str) -> tuple[str, str]:
    """Returns (shown part, rest), cut at the end of a clause."""
    if len(text) <= LONG:
        return text, ""
    for end in ("; ", "), ", ", ", " "):
        at = text.rfind(end, LONG // 3, LONG)
        if at >= 0:
            at += end.startswith(")")
            return text[:at], text[at:].lstrip(",; ")
    return text, ""


def _workflow(event: WorkflowEvent | ClusterEvent) -> str | None:
    return event.workflow if isinstance(event, ClusterEvent) else None
