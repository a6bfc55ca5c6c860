"""The field of words that filters workflows: ``pool:vision status:RUNNING,PENDING by:ann label:team=x since:2d train``.

The words are the options of `runrig workflow list`. Pure.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.gangs import Priority
from runrig.domain.instants import instant
from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.store import WorkflowQuery
from runrig.spec.labels import read_selector, read_tags

LONGEST = 1_000
_HELP = "Use pool:, status:, by:, priority:, label:, tag:, since:, until:, is:array, or a part of a name"


def _one_of(values: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.upper() not in values:
            raise ValueError(f"Use one of {', '.join(values)}")
        return text.upper()

    return read


_STATUS = _one_of(tuple(each.value for each in WorkflowStatus))
_PRIORITY = _one_of(tuple(each.value for each in Priority))
_MANY: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "pool": ("pools", str),
    "status": ("statuses", _STATUS),
    "by": ("users", str),
    "priority": ("priorities", _PRIORITY),
    "label": ("labels", read_selector),
    "tag": ("tags", lambda text: read_tags([text])[0]),
}
"""Words that can have several values, separated by commas, and the field of the query that has them."""
_TIMES = {"since": "submitted_after", "until": "submitted_before"}


def read_words(text: str, now: datetime) -> WorkflowQuery:
    """Raises InvalidInput with all words that are wrong. *now*: in UTC."""
    found: dict[str, Any] = {}
    parts: list[str] = []
    problems: list[Problem] = []
    for word in text[: LONGEST + 1].split():
        name, colon, value = word.partition(":")
        try:
            if not colon:
                parts.append(word)
            elif name in _MANY and value:
                field, read = _MANY[name]
                values = [read(each) for each in value.split(",") if each] if name != "label" else [read(value)]
                found[field] = (*found.get(field, ()), *values)
            elif word == "is:array":
                found["arrays"] = True
            elif name in _TIMES:
                found[_TIMES[name]] = _time(value, now)
            else:
                raise ValueError(_HELP)
        except InvalidInput as error:
            problems.append(Problem(f"invalid word {word!r:.80}: {error.problems[0].message}", "q"))
        except ValueError as error:
            problems.append(Problem(f"invalid word {word!r:.80}. {error}", "q"))
    if len(text) > LONGEST:
        problems.append(Problem(f"too long: at most {LONGEST:,} characters", "q"))
    if len(parts) > 1:
        problems.append(Problem(f"use only one part of a name, not {' and '.join(parts)!r:.80}", "q"))
    if problems:
        raise InvalidInput(tuple(problems))
    return WorkflowQuery(name=parts[0] if parts else None, **found)


def _time(value: str, now: datetime) -> float:
    try:
        return instant(value, now).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("Use 10m, 2h, today, or a time such as 2026-01-31T12:00") from None
