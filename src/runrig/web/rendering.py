"""Renders templates to responses with the headers of a page."""

import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from runrig.domain.access import Identity, Permission, allows
from runrig.domain.laws import titled
from runrig.domain.printable import printable
from runrig.domain.quantities import counted, format_quantity, listed
from runrig.domain.reasons import CLOSEST
from runrig.domain.settings import called, in_words
from runrig.domain.shown.history import PoolFieldEdit
from runrig.domain.shown.workflows import Workflow
from runrig.domain.spans import span, times_in_words
from runrig.domain.workflow_status import without_number
from runrig.web import drawings
from runrig.web.charts import gpus
from runrig.web.files import address, zipped
from runrig.web.refreshing import PAUSE, is_refresh, own_pause_s

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Nothing from other sites, nothing inline, no script that writes HTML."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # With no-referrer, browsers would send forms with the Origin null, which the guard refuses.
    "Vary": "Accept-Encoding, Cookie",
}
_SMALL = 1_000
"""Bytes below which compression is not worthwhile."""


def html(request: Request, template: str, *, status: int = 200, secret: bool = False, **values: Any) -> Response:
    """*template* with *values*.  *secret*: it contains a secret and is not compressed, because its length would reveal it."""
    identity: Identity | None = getattr(request.state, "identity", None)
    bar = values.setdefault("bar", None)
    refreshes = is_refresh(request)
    text = _environment.get_template(template).render(
        user=None if identity is None or refreshes else identity.user,
        submits=identity is not None and allows(identity, Permission.SEND_CODE),
        here=request.url.path,
        revision=getattr(request.state, "revision", None),
        **values,
    )
    if bar is not None and bar.moment is not None:
        text = _at_that_time(text, bar.moment.revision)
    found = answer(request, text.encode(), "text/html; charset=utf-8", status=status, zips=not secret)
    if refreshes:
        found.headers[PAUSE] = f"{own_pause_s(request):.2f}"
    return found


_LINK = re.compile(
    r'(<a (?![^>]*\bdata-here\b)[^>]*?href="/(?:map|waiting|workflows|(?:pool|node|workflow)/[^"?#]*)?)(\?[^"#]*)?(#[^"]*)?"'
)
_FILTERS = re.compile(r'<form class="filters"[^>]*>')


def _at_that_time(text: str, revision: int) -> str:
    """Makes the links of a page about the past lead to pages of the same time."""
    text = _LINK.sub(
        lambda link: f'{link[1]}{f"{link[2]}&amp;" if link[2] else "?"}at={revision}{link[3] or ""}"', text
    )
    return _FILTERS.sub(rf'\g<0><input type="hidden" name="at" value="{revision}">', text)


def answer(request: Request, body: bytes, media_type: str, *, status: int = 200, zips: bool = True) -> Response:
    headers = dict(_HEADERS)
    if zips and len(body) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"], body = "gzip", zipped(body)
    return Response(body, status, headers, media_type=media_type)


def keep_cookie(
    request: Request, answer: Response, name: str, value: str, seconds: int, path: str = "/", strict: bool = False
) -> None:
    """Keeps *value* from scripts. *strict*: browsers do not send it if a page of another site caused the request."""
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        secure=request.app.state.scheme == "https",
        httponly=True,
        samesite="strict" if strict else "lax",
    )


# ---------------------------------------------------------------- in templates


def moment(at: float | datetime | None) -> str:
    """Date and time in UTC; "–" for None."""
    if at is None:
        return "–"
    found = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return f"{found.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def stamp(at: float) -> str:
    """As in an address."""
    return f"{datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat()}Z"


def duration(seconds: float | None) -> str:
    """``3m05s``, ``0s``; "–" for None."""
    return "–" if seconds is None else span(seconds) if seconds >= 0.05 else "0s"


def number(value: int) -> str:
    """With commas."""
    return f"{value:,}"


def capital(text: str) -> str:
    """Returns *text* with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def setting(value: Any, edit: PoolFieldEdit) -> str:
    """A side of *edit*: ``16``, ``64Gi``, ``zone=zone, rack=rack``; "none" for nothing."""
    if edit.resource is not None and isinstance(value, int):
        return format_quantity(edit.resource.rpartition("/")[2], value)
    return in_words(edit.field, value)


def time_spent(it: Workflow) -> str:
    """Describes how it spent its time."""
    times = it.times
    passed = times.total_s - (times.since - it.submit_time).total_seconds()
    return times_in_words(asdict(times), passed if times.now == "waited" else None)


def commands(text: str) -> Markup:
    """Returns *text* with the parts in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(each) if at % 2 else each for at, each in enumerate(parts))


def kind_of(status: str) -> str:
    """Returns a class for a status. Taken: the cluster or a drain ended it, through no fault of its own."""
    if status in ("PENDING", "WAITING", "SCHEDULING"):
        return "waits"
    if status in ("RUNNING", "INITIALIZING"):
        return "runs"
    if status == "COMPLETED":
        return "done"
    return "taken" if status in ("FAILED_PREEMPTED", "FAILED_EVICTED") else "failed"


_environment = Environment(
    loader=PackageLoader("runrig.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=["jinja2.ext.loopcontrols"],
)
_environment.filters |= {
    "time_spent": time_spent,
    "printable": printable,
    "moment": moment,
    "stamp": stamp,
    "duration": duration,
    "number": number,
    "setting": setting,
    "called": called,
    "without_number": without_number,
    "gpus": gpus,
    "combined": lambda one, other: {**one, **other},
    "pair": lambda value, name: (name, value),
}
_environment.filters |= {"kind": kind_of, "rule": titled, "commands": commands, "listed": listed}
_environment.globals |= {
    "static": address,
    "many": counted,
    "drawings": drawings,
    "slice": slice,
}
_environment.globals |= {"CLOSEST": CLOSEST}
