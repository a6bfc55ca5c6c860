"""The signed-in user: usage, limits, and forms for the default pool and notices. Tokens are in `tokens`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.instants import UNITS_S, seconds_of
from runrig.domain.notices import USUAL, When, place
from runrig.domain.shown.limits import Limit
from runrig.domain.usage import DAY_S
from runrig.http import browsers
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Asked, Serving
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.service.usage.usage_queries import By, UsageQuery
from runrig.web.asking import Filled
from runrig.web.pages.limits import WORDS
from runrig.web.rendering import capital, html
from runrig.web.routes import form, router

USED_S = 30 * DAY_S
_CHANGE = [needs(Permission.CHANGE_OWN)]


@router.get("/me", dependencies=[needs(Permission.CONNECT)])
def me(request: Asked, service: Serving, asker: Asking) -> Response:
    who = asker.identity
    cookie = browsers.cookie(request.headers, request.app.state.scheme)
    pools = asker.submits_to()
    since = service.workflow_queries.now() - USED_S
    used = service.usage_queries.usage(UsageQuery((By.POOL,), since, users=(who.user,)), asker.visibility)
    return html(
        request,
        "me.html",
        secret=True,
        who=who,
        roles=[str(grant) for grant in who.grants],
        pool=service.access.profile(who.user).default_of(pools),
        limits=list(_limits(service, asker, pools)),
        used=[row for row in used.rows if row.held or row.waited],
        notices=(notices := service.notices.shown(who.user)),
        notices_to=place(notices.to or ""),
        tokens=service.access.tokens.of(who.user),
        credentials=service.access.credentials.of(who.user) if asker.may(Permission.OWN_CREDENTIALS) else (),
        administers=asker.may(Permission.ACCESS),
        changes=asker.may(Permission.CHANGE_OWN),
        makes=asker.may(Permission.OWN_TOKENS),
        csrf=None if cookie is None else service.access.browsers.csrf(cookie),
    )


def _limits(service: Service, asker: Asker, pools: list[str]) -> Iterator[tuple[str, Limit]]:
    """Yields limits of the user, in *pools* and over all pools, with their names."""
    for each in service.limit_queries.limits(asker.visibility, users=(asker.identity.user,)):
        if each.pool is None or each.pool in pools:
            yield WORDS[each.limit] if each.renews is None else f"GPU-hours until {each.renews:%Y-%m-%d}", each


# ---------------------------------------------------------------- default pool


@form("/me/pool", dependencies=_CHANGE)
async def pool(it: Filled) -> Response:
    access = it.service.access

    def draw(**more: Any) -> Response:
        pools = it.asker.submits_to()
        typed = it.typed(pool=access.profile(it.user).default_of(pools) or "")
        return it.shown("me_pool.html", typed, pools=pools, **more)

    def do() -> None:
        if chosen := it.fields.get("pool"):
            it.asker.check_submits(chosen)
        access.set_profile(it.user, {"pool": chosen or None})

    return await it.answered(draw, do, "/me")


# ---------------------------------------------------------------- notices


@form("/me/notices", dependencies=_CHANGE)
async def notices(it: Filled) -> Response:
    def draw(**more: Any) -> Response:
        now = it.service.notices.shown(it.user)
        chosen = {each for each in When if each in it.fields} if it.fields else {*now.when} or {*USUAL}
        typed = it.typed(to=now.to or "", min_run=_typed(now.min_run_s))
        return it.shown("me_notices.html", typed, (*typed, "when"), chosen=chosen, **more)

    def do() -> Response:
        when = tuple(each for each in When if each in it.fields)
        least = _seconds(it.fields.get("min_run", ""))
        made = it.service.notices.set(it.user, it.field("to"), when, least, it.service.stored)
        says = [f"Notices of your workflows go to {place(made.to or '')}."]
        if made.secret is not None:
            says.append("They are signed with this secret. Copy it now: it is not shown again.")
        return it.done("Notices are on", says, made.secret)

    return await it.shown_once(draw, do)


def _seconds(text: str) -> int:
    if (found := seconds_of(text.strip() or "0s")) is None:
        raise InvalidInput.one(f"{text!r:.60} is not a duration. Use 30s, 10m, 2h or 1d", "min_run")
    return found


def _typed(seconds: int) -> str:
    """As `_seconds` reads it."""
    unit = next(unit for unit in reversed(UNITS_S) if seconds % UNITS_S[unit] == 0)
    return f"{seconds // UNITS_S[unit]}{unit}" if seconds else ""


@router.post("/me/notices/test", dependencies=_CHANGE)
async def test(it: Filled) -> Response:
    def sent() -> Response:
        result = it.service.notices.test(it.user)
        if result == "delivered":
            return it.done("The test notice arrived", [])
        return it.done("The test notice did not arrive", [f"{capital(result)}."])

    return await run_in_threadpool(sent)


@form("/me/notices/off", dependencies=_CHANGE)
async def off(it: Filled) -> Response:
    says = "Notices that are waiting to be delivered are dropped. A new address gets a new secret."
    return await it.sure("Turn notices off", says, partial(it.service.notices.turn_off, it.user), "/me")
