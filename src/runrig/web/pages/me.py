"""The signed-in user: usage, limits, and forms for the default pool and notices. Tokens are in `tokens`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.instants import UNITS_S
from runrig.domain.notices import USUAL, When, place
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.shown.limits import LimitKind
from runrig.http import browsers
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Route, Serving
from runrig.ports.store import WorkflowQuery
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.service.usage.usage_queries import DAY_S, By, UsageQuery
from runrig.web.asking import Filled, form
from runrig.web.pages.parts import Asked
from runrig.web.rendering import html

router = APIRouter(route_class=Route, include_in_schema=False)

USED_S = 30 * DAY_S
_CHANGE = [needs(Permission.CHANGE_OWN)]
_SPAN = re.compile(f"([0-9]{{1,6}})([{''.join(UNITS_S)}])")


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the user in *pool*. *used* None: it is not a sum, so there is nothing to compare it with."""

    pool: str
    name: str
    most: int
    used: int | None = None


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


def _limits(service: Service, asker: Asker, names: list[str]) -> Iterator[Limit]:
    """Limits of top-level pools, which count with their subpools. O(the user's workflows that have not ended)."""
    for view in service.queries.pools(visibility=asker.visibility):
        pool = view.pool
        if pool.name not in names or SUBPOOL_DELIMITER in pool.name:
            continue
        mine = WorkflowQuery(pools=(pool.name, *view.now.subpools), users=(asker.identity.user,))
        if pool.user_gpus is not None:
            running = service.totals.gpus(mine, asker.visibility)
            yield Limit(pool.name, "GPUs at the same time", pool.user_gpus, None if running is None else running[0])
        if pool.user_waiting is not None:
            waiting = WorkflowQuery(pools=mine.pools, users=mine.users, statuses=("PENDING",))
            counts = service.totals.of(waiting, pool.user_waiting + 1, asker.visibility).statuses
            yield Limit(pool.name, "Waiting workflows", pool.user_waiting, sum(counts.values()))
        if pool.gpus_per_workflow is not None:
            yield Limit(pool.name, "GPUs of one workflow", pool.gpus_per_workflow)
    for each in service.limit_queries.limits(asker.visibility, users=(asker.identity.user,)):
        if each.limit is LimitKind.BUDGET and (each.user is not None or each.pool in names):
            yield Limit(each.pool or "all pools", f"GPU-hours until {each.renews:%Y-%m-%d}", each.most, each.used)


# ---------------------------------------------------------------- default pool


@form(router, "/me/pool", dependencies=_CHANGE)
async def pool(it: Filled) -> Response:
    access = it.service.access

    def draw(**more: Any) -> Response:
        pools = it.asker.submits_to()
        typed = {"pool": access.profile(it.user).default_of(pools) or ""} | dict(it.fields)
        return it.shown("me_pool.html", ("pool",), typed=typed, pools=pools, **more)

    def do() -> None:
        if chosen := it.fields.get("pool"):
            it.asker.check_submits(chosen)
        access.set_profile(it.user, {"pool": chosen or None})

    return await it.answered(draw, do, "/me")


# ---------------------------------------------------------------- notices


@form(router, "/me/notices", dependencies=_CHANGE)
async def notices(it: Filled) -> Response:
    def draw(**more: Any) -> Response:
        now = it.service.notices.shown(it.user)
        chosen = {each for each in When if each in it.fields} if it.fields else {*now.when} or {*USUAL}
        typed = {"to": now.to or "", "min_run": _typed(now.min_run_s)} | dict(it.fields)
        return it.shown("me_notices.html", ("to", "when", "min_run"), typed=typed, chosen=chosen, **more)

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
    found = _SPAN.fullmatch(text.strip() or "0s")
    if found is None:
        raise InvalidInput.one(f"{text!r:.60} is not a duration. Use 30s, 10m, 2h or 1d", "min_run")
    return int(found[1]) * UNITS_S[found[2]]


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
        return it.done("The test notice did not arrive", [f"{result[:1].upper()}{result[1:]}."])

    return await run_in_threadpool(sent)


@form(router, "/me/notices/off", dependencies=_CHANGE)
async def off(it: Filled) -> Response:
    says = "Notices that are waiting to be delivered are dropped. A new address gets a new secret."
    draw = partial(it.shown, "sure.html", does="Turn notices off", says=says, address="/me", act="notices/off")
    return await it.answered(draw, partial(it.service.notices.turn_off, it.user), "/me")
