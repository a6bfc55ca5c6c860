"""Pages of an earlier time: the parameter `at`, and navigation in time.

Without script there are a time field and links to the previous and next decision; with script a slider (`time.js`).
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.statuses import UnknownParameter
from runrig.http.permissions import needs
from runrig.http.routing import Asked, Serving
from runrig.ports.past import Moment
from runrig.service.past.past import Span, Then
from runrig.service.service import Service
from runrig.web.board import as_json
from runrig.web.refreshing import is_refresh
from runrig.web.rendering import answer
from runrig.web.routes import router

Views = Service | Then
"""Answers the queries: the service for now, or the state at an earlier time."""

At = Annotated[str, Query(max_length=64, description="Time (RFC 3339) or revision. Default: now")]
MOST_POINTS = 500
_DIGITS = re.compile(r"[0-9]{1,18}")
_BEHIND_A_TIME = re.compile(r"(T[0-9:.]+) (?=[0-9])")


@dataclass(frozen=True, slots=True)
class Bar:
    """The time navigation of a page. *moment* None: now. *back*, *forward*, *now*: addresses of the same page; None:
    not available.

    *kept*: other parameters of its address, which a form has to send.
    """

    span: Span
    moment: Moment | None
    back: str | None
    forward: str | None
    now: str
    kept: tuple[tuple[str, str], ...]


class NoTime(UnknownParameter):
    """*at* is invalid, or has no history."""


def moment_of(service: Service, at: str) -> Moment:
    """Returns the moment of *at*: a revision or an ISO 8601 time. Raises NoTime, with the way out."""
    try:
        return service.past.moment(_read(at))
    except InvalidInput as error:
        raise NoTime(error.problems) from error


def _read(at: str) -> int | float:
    if _DIGITS.fullmatch(at):
        return int(at)
    try:
        found = datetime.fromisoformat(_BEHIND_A_TIME.sub(r"\1+", at))  # A form sends a + as a space.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        raise InvalidInput.one(
            f"invalid time {at!r:.80}. Use a time such as 2026-11-23T19:00:00Z or a revision number", "at"
        ) from None


@contextmanager
def looking(request: Request, service: Service, at: str) -> Iterator[tuple[Views, Bar | None]]:
    """Yields what answers the queries of a page, and its time bar; None if there is no history, or a script refreshes the page."""
    if not at:
        request.state.revision, request.state.began = service.stored, time.thread_time()
        yield service, None if is_refresh(request) else _bar(request, service, None)
        return
    moment = moment_of(service, at)
    bar = _bar(request, service, moment)
    with service.past.at(moment) as then:
        yield then, bar


def _bar(request: Request, service: Service, moment: Moment | None) -> Bar | None:
    span = service.past.span()
    if span is None:
        return None
    kept = tuple((name, value) for name, value in request.query_params.multi_items() if name != "at")
    path = request.url.path

    def address(*at: tuple[str, str]) -> str:
        query = urlencode([*kept, *at])
        return f"{path}?{query}" if query else path

    back, forward = service.past.steps(moment or span.last, span)
    steps = [None if each is None else address(("at", str(each))) for each in (back, forward)]
    return Bar(span, moment, steps[0], steps[1], address(), kept)


@router.get("/page/series", dependencies=[needs(Permission.READ_CLUSTER)])
def get_series(
    request: Asked,
    service: Serving,
    begin: Annotated[float, Query(alias="from")] = 0.0,
    end: Annotated[float, Query(alias="to")] = float("inf"),
    points: Annotated[int, Query(ge=2, le=MOST_POINTS)] = 100,
) -> Response:
    """*points*: [time, GPUs of HIGH and NORMAL, of LOW, requested by pending gangs]. *preempted*: [time, gangs]."""
    series = service.past.series(begin, end, points)
    found = {"points": series.points, "preempted": series.preempted}
    return answer(request, as_json(found).encode(), "application/json")
