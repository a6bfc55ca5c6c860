"""Forms: shown, previewed, confirmed, and executed once."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.errors import RunrigError
from runrig.domain.statuses import headers_of, status_of
from runrig.http.leaving import leaving_of
from runrig.service.foresight.questions import Question
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.forms import Fields, done_of, is_to_be_done, key_of, new_key, problems_of, secret_of, tag_of
from runrig.web.planned import plan_view
from runrig.web.rendering import html

NOBODY_WAITS = 499

Look = Callable[[], Awaitable[Mapping[str, Any] | None]]
"""Computes the effect of a form as values for its page.  None: the client has disconnected.  Raises what the act itself raises."""


def form(router: APIRouter, path: str, **more: Any) -> Callable[..., Any]:
    """A route that shows a form, and takes its answer."""
    return router.api_route(path, methods=["GET", "POST"], **more)


async def answered(
    request: Request,
    asker: Asker,
    fields: Fields,
    *,
    draw: Callable[..., Response],
    do: Callable[[], Awaitable[str]],
    look: Look | None = None,
) -> Response:
    """Returns the page with the form, or the result of submitting it.

    *fields*: submitted values; none: show the form. *look*: computes the effect, which the user must confirm before the
    act; None: the form describes it. *do*: the act; returns the address to open next. *draw*: renders the page with the
    values of *look* and *shown*, or with *error*.
    """
    try:
        if not fields:
            return await run_in_threadpool(draw)
        if look is None or is_to_be_done(fields):
            return await done_of(request).once(asker.identity.user, key_of(fields), do)
        found = await look()
    except RunrigError as error:
        return await run_in_threadpool(draw, error=error)
    if found is None:
        return Response(status_code=NOBODY_WAITS)
    return await run_in_threadpool(draw, shown=tag_of(fields), **found)


def plan_of(request: Request, service: Service, asker: Asker, question: Callable[[], Question]) -> Look:
    """Returns the plan for *question*, computed in another thread."""

    def look() -> Mapping[str, Any] | None:
        user, leaving = asker.identity.user, leaving_of(request)
        plan = service.plans.shown(question(), user=user, visibility=asker.visibility, leaving=leaving)
        return None if plan is None else {"plan": plan_view(plan)}

    return partial(run_in_threadpool, look)


def in_thread(do: Callable[[], object], then: str) -> Callable[[], Awaitable[str]]:
    """Returns *do*, which blocks, for a thread; the browser then opens *then*."""

    async def done() -> str:
        await run_in_threadpool(do)
        return then

    return done


def form_shown(
    request: Request,
    service: Service,
    template: str,
    known: tuple[str, ...] = (),
    *,
    error: RunrigError | None = None,
    shown: str = "",
    **values: Any,
) -> Response:
    """Renders a form, with the errors in its fields, if any.

    It contains a secret, and a new key, so that another submission counts as new. *known*: its fields.
    """
    page = html(
        request,
        template,
        status=200 if error is None else status_of(error),
        secret=True,
        csrf=secret_of(request, service),
        key=new_key(),
        shown=shown,
        wrong={} if error is None else problems_of(error, known),
        **values,
    )
    page.headers.update({} if error is None else headers_of(error))
    return page


async def shown_once(fields: Fields, draw: Callable[..., Response], do: Callable[[], Response]) -> Response:
    """Like `answered`, but the answer is the page itself: it has a secret, which never is in an address."""
    try:
        return await run_in_threadpool(do if fields else draw)
    except RunrigError as error:
        return await run_in_threadpool(draw, error=error)


def once_shown(
    request: Request, service: Service, title: str, says: list[str], secret: str | None = None, back: str = "/me"
) -> Response:
    return form_shown(request, service, "me_done.html", title=title, says=says, secret_text=secret, back=back)
