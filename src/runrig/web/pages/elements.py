"""Arrays that are opened in place in the list of workflows: their elements, those that failed and those that run first."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from runrig.domain.errors import NotFound
from runrig.domain.natural_order import natural
from runrig.domain.shown.workflows import TaskAttempt, TaskGroup, WorkflowEntry
from runrig.service.queries.visibility import Visibility
from runrig.web.pages.past import Views
from runrig.web.rendering import kind_of

PAGE = 10
MOST_OPEN = 5
"""Arrays that are open at the same time."""
RANK = {"failed": 0, "taken": 1, "runs": 2, "waits": 3, "done": 4}
"""Kinds of statuses in the order of lists that do not show all."""

Opened = Mapping[str, int]
"""ID of an array → the page of its elements, from 1."""
Address = Callable[[Opened], str]


@dataclass(frozen=True, slots=True)
class Fold:
    """*turn*: the address that opens or closes it. *first*: number of the first of *elements*; 0: it is closed."""

    turn: str
    first: int = 0
    elements: tuple[Mapping[str, Any], ...] = ()
    total: int = 0
    previous: str | None = None
    following: str | None = None


def opened_of(words: Sequence[str]) -> Opened:
    """Reads ``ID`` or ``ID:PAGE``; what is neither opens nothing."""
    found: dict[str, int] = {}
    for word in words[:MOST_OPEN]:
        id, _, page = word.partition(":")
        found[id] = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
    return found


def words_of(opened: Opened) -> list[str]:
    return [id if page == 1 else f"{id}:{page}" for id, page in opened.items()]


def folds_of(
    views: Views, items: Sequence[WorkflowEntry], opened: Opened, visibility: Visibility, address: Address
) -> dict[str, Fold]:
    """Returns a fold for each array of *items*, by ID."""
    found: dict[str, Fold] = {}
    for each in items:
        if each.array is None:
            continue
        others = {id: page for id, page in opened.items() if id != each.id}
        found[each.id] = Fold(address(others | {each.id: 1}))
        if each.id in opened:
            with suppress(NotFound):  # The workflow was just deleted.
                found[each.id] = _open(views, each.id, opened[each.id], visibility, others, address)
    return found


def _open(views: Views, id: str, page: int, visibility: Visibility, others: dict[str, int], address: Address) -> Fold:
    """Reads no more of an array than the statuses of its elements and what it shows. Raises NotFound."""
    statuses = views.workflow_queries.statuses(id, visibility)
    names = sorted(statuses, key=lambda name: (RANK[kind_of(statuses[name].value)], natural(name)))
    pages = -(-len(names) // PAGE)
    page = max(1, min(page, pages))
    first = (page - 1) * PAGE
    shown = views.workflow_queries.elements(id, names[first : first + PAGE], visibility)
    return Fold(
        address(others),
        first + 1,
        tuple(map(_element, shown)),
        len(names),
        address(others | {id: page - 1}) if page > 1 else None,
        address(others | {id: page + 1}) if page < pages else None,
    )


def _element(group: TaskGroup) -> Mapping[str, Any]:
    """*task*: whose output to show; "": none has been placed."""
    latest: dict[str, TaskAttempt] = {each.name: each for each in sorted(group.tasks, key=lambda each: each.attempt)}
    placed = [each for each in latest.values() if each.node]
    ended = group.end_time or max((each.end_time for each in placed if each.end_time), default=None)
    ran: Any = ended - group.start_time if ended and group.start_time else None
    return {
        "name": group.name,
        "status": group.status,
        "task": next(iter(latest), ""),
        "gpus": sum(len(each.gpus) for each in placed),
        "ran_s": ran and ran.total_seconds(),
        "nodes": sorted({str(each.node) for each in placed}, key=natural),
        "message": group.message,
    }
