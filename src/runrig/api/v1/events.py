"""The log of the whole cluster, in pages or as a stream.

The stream consists of server-sent events. A reader holds no thread, and shares its messages with other readers
(`following.py`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from runrig.api.routes import Router
from runrig.api.times import At
from runrig.api.v1.following import PAUSE_S, Followers, message
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cursor_of, place_of
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.shown.events import ClusterEventPage
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Found, Serving, header
from runrig.http.staying import UNBUFFERED, Staying
from runrig.service.queries.event_filter import EVERYTHING, EventFilter
from runrig.service.queries.event_kinds import Kind
from runrig.service.queries.visibility import Visibility
from runrig.service.rights import seeing_as_much
from runrig.service.service import Service
from runrig.service.waiting import HEARTBEAT_S

router = Router("events")

LONGEST_GAP = 20_000
"""Maximum missed revisions that are sent; a reader that missed more has to reload everything."""
LARGEST = 2**62

After = Annotated[int | None, Query(ge=0, le=LARGEST, description="Only events after this revision")]
Pool = Annotated[str | None, Query(description="Only events of this pool, its subpools and their workflows")]
Kinds = Annotated[list[Kind] | None, Query(description="Only events of this kind (repeatable)")]
User = Annotated[
    str | None, Query(description="Only what this user did, and what happened to workflows that they submitted")
]
Node = Annotated[str | None, Query(description="Only events of this node, and of workflows that run or last ran on it")]
Workflow = Annotated[str | None, Query(description="Only events of the workflow with this id or uuid")]


@router("GET /api/v1/events", needs(Permission.LIST_POOLS), errors=(404,))
def list_events(
    service: Serving,
    visibility: Seeing,
    after: After = None,
    since: Annotated[At | None, Query(description="From this time, inclusive")] = None,
    until: Annotated[At | None, Query(description="Until this time, inclusive")] = None,
    pool: Pool = None,
    kind: Kinds = None,
    user: User = None,
    node: Node = None,
    workflow: Workflow = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> ClusterEventPage:
    """List past events of the cluster that you can see, in order."""
    place = place_of(cursor, int)
    query = EventFilter(since, until, pool, frozenset(kind or ()), user, node, workflow)
    known = _known(service, visibility, query)
    page = service.feed.page(place[0] if place else after or 0, visibility, most=limit, query=known)
    following = cursor_of((page.revision,)) if page.revision < page.newest else None
    return ClusterEventPage(following, page.events, page.newest, service.feed.head())


def _known(service: Service, visibility: Visibility, query: EventFilter) -> EventFilter:
    """Returns *query* with the ID of its workflow. Raises NotFound for an unknown or hidden pool or workflow."""
    if query.pool is not None:
        service.queries.check_pool(query.pool, visibility)
    if query.workflow is None:
        return query
    return replace(query, workflow=service.workflow_queries.head(query.workflow, visibility).id)


# ---------------------------------------------------------------- the stream


def _resumed(request: Request) -> int | None:
    """Returns the revision in Last-Event-ID, with which browsers resume a broken stream."""
    sent = request.headers.get("last-event-id")
    if sent is None:
        return None
    if not (sent.isascii() and sent.isdecimal() and len(sent) < 19):
        raise InvalidInput.one(
            f"invalid Last-Event-ID {sent!r:.80}. Send the last id that you received", "Last-Event-ID"
        )
    return int(sent)


_LAST_HEADER = header("Last-Event-ID", "Id of the last event received. Overrides `after`")
Following = Annotated[Followers, Found(lambda request: request.app.state.followers)]
LastEvent = Annotated[int | None, Found(_resumed, _LAST_HEADER)]


@router(
    "GET /api/v1/events/stream",
    needs(Permission.LIST_POOLS),
    text='id: 7\nevent: commit\ndata: [{"revision":7,"seq":0,"time":"2026-01-31T12:00:00Z","actor":"alice","kind":"Submit","law":"",'
    '"text":"train-1 submitted to pool vision by alice (priority NORMAL)","workflow":"train-1","pool":"vision"}]\n\n',
    media_type="text/event-stream",
)
def stream_events(
    service: Serving,
    followers: Following,
    stays: Staying,
    visibility: Seeing,
    last: LastEvent,
    after: After = None,
    pool: Pool = None,
    kind: Kinds = None,
    user: User = None,
    node: Node = None,
    workflow: Workflow = None,
) -> StreamingResponse:
    """Stream cluster events.

    Server-sent events. `commit` has the events (`ClusterEvent`) of one or more revisions; its id is the last
    revision. `reset` means that too many were missed, or that the log is a different one: reload everything, then
    continue. The stream begins after `after`, by default now. It ends with the token, and when your visible pools
    change: reconnect with the last id. An id without data: nothing matched up to this revision.
    """
    query = EventFilter(None, None, pool, frozenset(kind or ()), user, node, workflow)
    known = _known(service, visibility, query)
    newest = service.feed.newest()
    asked = after if last is None else last
    begins_anew = asked is not None and not newest - LONGEST_GAP <= asked <= newest
    begun = newest if asked is None or begins_anew else asked
    stream = _stream(followers, seeing_as_much(stays, visibility), begun, reset=begins_anew, query=known)
    return StreamingResponse(stream, media_type="text/event-stream", headers=UNBUFFERED)


async def _stream(
    followers: Followers,
    sees: Callable[[], Visibility | None],
    revision: int,
    *,
    reset: bool,
    query: EventFilter = EVERYTHING,
) -> AsyncIterator[bytes]:
    yield message("reset", revision, f'{{"revision":{revision}}}') if reset else b": welcome\n\n"
    spoken = time.monotonic()
    with followers.joined() as changed:
        changed.set()
        while True:
            await changed.wait()  # One timer for all streams.
            changed.clear()
            visibility = sees()
            if visibility is None:
                return
            if revision < followers.newest:
                told = await followers.after(revision, visibility, query)
                revision = told.revision
                if told.message:
                    yield told.message
                    spoken = time.monotonic()
                if revision < followers.newest:
                    changed.set()
                    await asyncio.sleep(PAUSE_S)
            if time.monotonic() - spoken > HEARTBEAT_S:
                yield f": still here\nid: {revision}\n\n".encode()
                spoken = time.monotonic()
