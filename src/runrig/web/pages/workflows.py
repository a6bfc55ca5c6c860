"""The list of workflows: a field of words, chips, sums of all that match, and what to do with the chosen ones."""

import csv
import io
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput, NotFound
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.shown.workflows import WorkflowEntry, WorkflowPage
from runrig.domain.workflow_status import WorkflowStatus
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Asked, Serving
from runrig.ports.places import kinds_of
from runrig.ports.store import ORDERS, WorkflowQuery, WorkflowTotals
from runrig.service.past.past import Then
from runrig.service.queries.visibility import Visibility
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.attempts import killed, said_of
from runrig.web.pages import columns
from runrig.web.pages.elements import Opened, folds_of, opened_of, words_of
from runrig.web.pages.past import At, Views, looking
from runrig.web.rendering import answer, html
from runrig.web.routes import router
from runrig.web.words import read_words
from runrig.wire.cursors import cursor_of, place_of
from runrig.wire.json import to_json

PAGE = 50
SUMMED = 10_000
"""Matches in sums that are not kept, the newest ones, so that they cost the same however many there are."""
COUNTED = 1_000
"""Matches of such a chip."""
SAVED = 1_000
"""Rows of a JSON or CSV file."""
NOTHING: Mapping[str, Any] = {"items": (), "causes": {}, "is_first": True, "previous": None, "following": None}
_READ = [needs(Permission.LIST_POOLS)]

Words = Annotated[
    str, Query(description="pool:, status:, by:, priority:, label:, tag:, since:, until:, is:array, part of a name")
]
Older = Annotated[str, Query(deprecated=True, description="In addresses of older releases; becomes a word")]
Sort = Annotated[str, Query(description="submitted, waited, ran or workflow; the largest first with a minus")]


@dataclass(frozen=True, slots=True)
class Chip:
    """*count*: "" if it is not known."""

    label: str
    words: str
    count: str = ""


@router.get("/workflows", dependencies=_READ)
def workflows(
    request: Asked,
    service: Serving,
    asker: Asking,
    q: Words = "",
    sort: Sort = "",
    after: Annotated[str | None, Query(max_length=2000, description="The page after this place")] = None,
    before: Annotated[str | None, Query(max_length=2000, description="The page before this place")] = None,
    open: Annotated[list[str], Query(description="Arrays whose elements are shown, as ID or ID:PAGE")] = [],  # noqa: B006
    pool: Older = "",
    status: Older = "",
    user: Older = "",
    priority: Older = "",
    name: Older = "",
    at: At = "",
) -> Response:
    now = datetime.fromtimestamp(service.workflow_queries.now(), UTC)
    older = {"pool": pool, "status": status, "by": user, "priority": priority}
    words = " ".join(each for each in (q, *(f"{word}:{value}" for word, value in older.items() if value), name) if each)
    problems: list[str] = []
    query: WorkflowQuery | None = None
    sort = "" if at else sort  # An earlier time has one order.
    try:
        query = _from(_ordered(read_words(words, now), sort), after, before)
    except InvalidInput as error:
        problems = [each.message for each in error.problems]
    with looking(request, service, at) as (views, bar):
        shown = _found(views, asker.visibility, query) if query else NOTHING
        kept = {"q": words, "sort": sort} | {name: it for name, it in (("after", after), ("before", before)) if it}
        address = partial(_address, kept)
        folds = folds_of(views, shown["items"], opened_of(open), asker.visibility, address)
        summed = {} if isinstance(views, Then) else _summed(service, asker, query, now)
    return html(
        request,
        "workflows.html",
        status=422 if problems else 200,
        q=words,
        sort=sort,
        problems=problems,
        acts=[("/run", "Run a command")] if asker.submits_to() and not at else [],
        chooses=bool(asker.submits_to()) and not at,
        bar=bar,
        names=columns.COLUMNS,
        columns=columns.of(request),
        extra=" extra" if columns.chosen(request) is None else "",
        said_of=said_of,
        folds=folds,
        **{"chips": [], "totals": None, "gpus": None, "total": 0, "oldest_s": None, **summed},
        **shown,
    )


def _address(kept: Mapping[str, str], opened: Opened) -> str:
    """The address of this page with *opened* arrays."""
    return f"/workflows?{urlencode([*kept.items(), *(('open', each) for each in words_of(opened))])}"


def _ordered(query: WorkflowQuery, sort: str) -> WorkflowQuery:
    if sort and sort.removeprefix("-") not in ORDERS:
        raise InvalidInput.one(
            f"cannot sort by {sort!r:.40}. Use one of {', '.join(ORDERS)}, with a minus for the largest first"
        )
    return replace(query, order=sort)


def _from(query: WorkflowQuery, after: str | None, before: str | None) -> WorkflowQuery:
    """The page after or before a place in the list, as links of its pages carry it."""
    place = place_of(before or after, *kinds_of(query.order))
    return replace(query, limit=PAGE, behind=place, back=before is not None)


def _found(views: Views, visibility: Visibility, query: WorkflowQuery) -> dict[str, Any]:
    part = _with_subpools(views, visibility, query)
    found, more, ends = views.workflow_queries.page(part, visibility)
    if part.back and not more:  # The first page is always full.
        part = replace(part, behind=None, back=False)
        found, more, ends = views.workflow_queries.page(part, visibility)
    if isinstance(views, Then):
        views.bring([each.id for each in found if not each.status.finished])
    items = views.workflow_queries.with_headlines(found, visibility)
    first, last = (None, None) if ends is None else map(cursor_of, ends)
    previous = first if part.behind is not None else None
    following = last if more or part.back else None
    shown = {"items": items, "causes": causes_of(views, items, visibility), "is_first": part.behind is None}
    return shown | {"previous": previous, "following": following}


def causes_of(views: Views, items: Iterable[WorkflowEntry], visibility: Visibility) -> dict[str, tuple[str, str]]:
    """Returns why FAILED ones failed, by id: in words, and a hint."""
    found: dict[str, tuple[str, str]] = {}
    for each in items:
        if each.status is WorkflowStatus.FAILED:
            with suppress(NotFound):  # The workflow was just deleted.
                cause, message = views.workflow_queries.failure(each.id, visibility)
                if cause is not None:
                    words, hint = (cause.ending, cause.sentence) if killed(cause) else (cause.sentence, cause.ending)
                    found[each.id] = (words, f"{cause.task}, {hint}")
                elif message:
                    found[each.id] = (message, "")
    return found


def _with_subpools(views: Views, visibility: Visibility, query: WorkflowQuery) -> WorkflowQuery:
    """A pool includes its subpools."""
    if not query.pools:
        return query
    names = [pool.name for pool in views.queries.declared(visibility)]
    below = [name for name in names for pool in query.pools if name.startswith(f"{pool}{SUBPOOL_DELIMITER}")]
    return replace(query, pools=tuple(dict.fromkeys((*query.pools, *below))))


def _summed(service: Service, asker: Asker, query: WorkflowQuery | None, now: datetime) -> dict[str, Any]:
    chips = [
        Chip("Mine", f"by:{asker.identity.user}"),
        Chip("Running", "status:RUNNING"),
        Chip("Waiting", "status:PENDING"),
        Chip("Failed today", "status:FAILED since:today"),
        Chip("Arrays", "is:array"),
        Chip("All of today", "since:today"),
    ]
    visibility = asker.visibility
    counted = [
        replace(each, count=_count(service.totals.of(read_words(each.words, now), COUNTED, visibility)))
        for each in chips
    ]
    if query is None:
        return {"chips": counted}
    whole = replace(_with_subpools(service, visibility, query), behind=None)
    totals = service.totals.of(whole, SUMMED, visibility)
    gpus = service.totals.gpus(whole, visibility)
    oldest_s = None if totals.oldest is None else now.timestamp() - totals.oldest
    total = sum(totals.statuses.values())
    return {"chips": counted, "totals": totals, "gpus": gpus, "total": total, "oldest_s": oldest_s}


def _count(totals: WorkflowTotals) -> str:
    count = sum(totals.statuses.values())
    return f"{count:,}" if totals.whole else f"{count:,}+"


# ---------------------------------------------------------------- as files


@router.get("/workflows/list.json", dependencies=_READ)
def as_json(request: Asked, service: Serving, asker: Asking, q: Words = "", sort: Sort = "") -> Response:
    """As `GET /api/v1/workflows`."""
    found = WorkflowPage(None, _saved(service, asker, q, sort))
    return _file(answer(request, to_json(found), "application/json"), "json")


@router.get("/workflows/list.csv", dependencies=_READ)
def as_csv(request: Asked, service: Serving, asker: Asking, q: Words = "", sort: Sort = "") -> Response:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(
        ("id", "status", "priority", "pool", "submitted_by", "submit_time", "gpus", "waited_s", "ran_s", "node")
    )
    for it in _saved(service, asker, q, sort):
        at = it.submit_time.astimezone(UTC).replace(tzinfo=None).isoformat()
        values = (it.id, it.status.value, it.priority, it.pool, it.submitted_by, f"{at}Z", it.gpus)
        rows.writerow([_cell(each) for each in (*values, it.times.waited_s, it.times.running_s, it.node)])
    return _file(answer(request, text.getvalue().encode(), "text/csv; charset=utf-8"), "csv")


def _saved(service: Service, asker: Asker, q: str, sort: str) -> tuple[WorkflowEntry, ...]:
    now = datetime.fromtimestamp(service.workflow_queries.now(), UTC)
    query = _with_subpools(service, asker.visibility, _ordered(read_words(q, now), sort))
    return service.workflow_queries.workflows(replace(query, limit=SAVED), asker.visibility)[0]


def _cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula stays text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value


def _file(found: Response, kind: str) -> Response:
    found.headers["Content-Disposition"] = f'attachment; filename="workflows.{kind}"'
    return found
