"""Forms: shown, previewed, confirmed, and executed once."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from anyio import from_thread
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.errors import Conflict, RunrigError
from runrig.domain.quantities import few
from runrig.domain.statuses import headers_of, status_of
from runrig.http.leaving import leaving_of
from runrig.http.routing import Found
from runrig.service.foresight.questions import Question
from runrig.service.rights import Asker
from runrig.service.runtime.writing import Command
from runrig.service.service import Service
from runrig.web.forms import Done, Fields, is_to_be_done, key_of, new_key, problems_of, secret_of, sent, tag_of
from runrig.web.planned import plan_view
from runrig.web.rendering import html

NOBODY_WAITS = 499
_MOST_NAMED = 5
"""Refusals of several acts."""

R = TypeVar("R")
Draw = Callable[..., Response]
Look = Callable[[], Mapping[str, Any] | None]
"""Computes the effect of a form as values for its page, in a thread.  None: the client has disconnected.  Raises what the act itself
raises.
"""


@dataclass(frozen=True, slots=True)
class Form:
    """A form in a request. *fields*: what was submitted; none: the form is opened."""

    request: Request
    service: Service
    asker: Asker
    fields: Fields

    @property
    def user(self) -> str:
        return self.asker.identity.user

    @property
    def key(self) -> str:
        """The same for each submission of one form. Raises InvalidInput."""
        return key_of(self.fields)

    def field(self, name: str) -> str:
        """Returns the field without spaces around it; "" if it is missing."""
        return self.fields.get(name, "").strip()

    def words(self, name: str) -> list[str]:
        """Returns the words of the field, between spaces or commas."""
        return self.fields.get(name, "").replace(",", " ").split()

    def typed(self, **usual: str) -> dict[str, str]:
        """Returns what was submitted, and what is *usual* in fields that were not."""
        return usual | dict(self.fields)

    def runs(self, command: Command[R], key: str | None = None) -> R:
        """Runs *command* about a workflow, in the thread of an act. *key*: as in `Arrivals.do`."""
        return from_thread.run(self.service.arrivals.do, command, key)

    def runs_each(self, ids: Collection[str], act: Callable[[str], Any], done: str, who: str = "") -> None:
        """Does *act* with each of *ids*, also after a refusal. Raises Conflict with all refusals. *done*: what then happened to the
        others. *who*: what precedes a refusal, with ``{}`` for the ID.
        """
        failed = []
        for id in ids:
            try:
                act(id)
            except RunrigError as error:
                failed.append(who.format(id) + error.message)
        if failed:
            named = few(failed, _MOST_NAMED, "; ")
            raise Conflict(f"{len(ids) - len(failed)} of {len(ids)} are {done}. Not {done}: {named}")

    async def answered(
        self, draw: Draw, do: Callable[[], Any], then: str | Callable[[Any], str], look: Look | None = None
    ) -> Response:
        """Returns the page with the form, or the result of submitting it.

        *look*: computes the effect, which the user must confirm before the act; None: the form describes it. *do*: the act, in a
        thread. *then*: the address that the browser then opens, or what makes it of the result. *draw*: renders the page with
        *previews*, and with the values of *look* and *shown*, or with *error*.
        """

        def act() -> str:
            found = do()
            return then if isinstance(then, str) else then(found)

        draw = partial(draw, previews=look is not None)
        try:
            if not self.fields:
                return await run_in_threadpool(draw)
            if look is None or is_to_be_done(self.fields):
                done: Done = self.request.app.state.done
                return await done.once(self.user, self.key, act)
            found = await run_in_threadpool(look)
        except RunrigError as error:
            return await run_in_threadpool(draw, error=error)
        if found is None:
            return Response(status_code=NOBODY_WAITS)
        return await run_in_threadpool(draw, shown=tag_of(self.fields), **found)

    async def sure(
        self, does: str, says: str, do: Callable[[], Any], back: str, check: Callable[[], Any] | None = None
    ) -> Response:
        """Asks whether to do what needs no input. *back*: the page that opens then. *check*: raises if there is nothing to ask."""

        def draw(**more: Any) -> Response:
            if check is not None and not self.fields:
                check()
            return self.shown("sure.html", does=does, says=says, back=back, **more)

        return await self.answered(draw, do, back)

    async def shown_once(self, draw: Draw, do: Callable[[], Response]) -> Response:
        """Like `answered`, but the answer is the page itself: it has a secret, which never is in an address."""
        try:
            return await run_in_threadpool(do if self.fields else draw)
        except RunrigError as error:
            return await run_in_threadpool(draw, error=error)

    def plan(self, question: Callable[[], Question]) -> Look:
        """Returns what computes the plan for *question*."""

        def look() -> Mapping[str, Any] | None:
            leaving = leaving_of(self.request)
            plan = self.service.plans.shown(
                question(), user=self.user, visibility=self.asker.visibility, leaving=leaving
            )
            return None if plan is None else {"plan": plan_view(plan)}

        return look

    def shown(
        self,
        template: str,
        typed: Mapping[str, str] = MappingProxyType({}),
        known: Collection[str] | None = None,
        *,
        error: RunrigError | None = None,
        shown: str = "",
        previews: bool = False,
        **values: Any,
    ) -> Response:
        """Renders the form, with the errors in its fields, if any.

        It contains a secret, and a new key, so that another submission counts as new. *typed*: what its fields hold. *known*: those
        that show their errors, by default all of *typed*. *shown*: what was previewed; "": nothing. *previews*: it has a preview.
        """
        page = html(
            self.request,
            template,
            status=200 if error is None else status_of(error),
            secret=True,
            csrf=secret_of(self.request, self.service),
            key=new_key(),
            shown=shown,
            previews=previews,
            wrong={} if error is None else problems_of(error, typed if known is None else known),
            typed=typed,
            **values,
        )
        page.headers.update({} if error is None else headers_of(error))
        return page

    def done(self, title: str, says: list[str], secret: str | None = None, back: str = "/me") -> Response:
        return self.shown("me_done.html", does=title, says=says, secret_text=secret, back=back)


async def filled(request: Request) -> Form:
    service: Service = request.app.state.service
    return Form(request, service, Asker(request.state.identity, service), await sent(request))


Filled = Annotated[Form, Found(filled)]
