"""The signed-in user: usage, limits, and forms for the default pool, notices and tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runrig.api import browsers
from runrig.api.permissions import Asking, needs
from runrig.api.routing import Route, Serving
from runrig.domain.access import Permission, role_named
from runrig.domain.errors import InvalidInput, RunrigError
from runrig.domain.instants import UNITS_S
from runrig.domain.keep import KEEP
from runrig.domain.notices import USUAL, When, place
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.shown.limits import LimitKind
from runrig.ports.store import WorkflowQuery
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.service.usage.usage_queries import DAY_S, By, UsageQuery
from runrig.web.asking import answered, form, form_shown, in_thread
from runrig.web.forms import Fields, key_of, sent
from runrig.web.pages.parts import Asked
from runrig.web.rendering import html

router = APIRouter(route_class=Route, include_in_schema=False)

USED_S = 30 * DAY_S
LIFETIMES = ("7d", "30d", "90d", "365d", "never")
_CHANGE = [needs(Permission.CHANGE_OWN)]
_TOKENS = [needs(Permission.OWN_TOKENS)]
_ALL = "all"
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
        mine = WorkflowQuery(pools=(pool.name, *view.subpools), users=(asker.identity.user,))
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
async def pool(request: Asked, service: Serving, asker: Asking) -> Response:
    fields = await sent(request)

    def draw(**more: Any) -> Response:
        pools = asker.submits_to()
        typed = {"pool": service.access.profile(asker.identity.user).default_of(pools) or ""} | dict(fields)
        return form_shown(request, service, "me_pool.html", ("pool",), typed=typed, pools=pools, **more)

    def do() -> None:
        if chosen := fields.get("pool"):
            asker.check_submits(chosen)
        service.access.set_profile(asker.identity.user, {"pool": chosen or None})

    return await answered(request, asker, fields, draw=draw, do=in_thread(do, "/me"))


# ---------------------------------------------------------------- notices


@form(router, "/me/notices", dependencies=_CHANGE)
async def notices(request: Asked, service: Serving, asker: Asking) -> Response:
    fields, user = await sent(request), asker.identity.user

    def draw(**more: Any) -> Response:
        now = service.notices.shown(user)
        chosen = {each for each in When if each in fields} if fields else {*now.when} or {*USUAL}
        typed = {"to": now.to or "", "min_run": _typed(now.min_run_s)} | dict(fields)
        return form_shown(
            request, service, "me_notices.html", ("to", "when", "min_run"), typed=typed, chosen=chosen, **more
        )

    def do() -> Response:
        when = tuple(each for each in When if each in fields)
        least = _seconds(fields.get("min_run", ""))
        made = service.notices.set(user, fields.get("to", "").strip(), when, least, service.stored)
        says = [f"Notices of your workflows go to {place(made.to or '')}."]
        if made.secret is not None:
            says.append("They are signed with this secret. Copy it now: it is not shown again.")
        return _done(request, service, "Notices are on", says, made.secret)

    return await _shown_once(fields, draw, do)


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
def test(request: Asked, service: Serving, asker: Asking) -> Response:
    result = service.notices.test(asker.identity.user)
    if result == "delivered":
        return _done(request, service, "The test notice arrived", [])
    return _done(request, service, "The test notice did not arrive", [f"{result[:1].upper()}{result[1:]}."])


@form(router, "/me/notices/off", dependencies=_CHANGE)
async def off(request: Asked, service: Serving, asker: Asking) -> Response:
    says = "Notices that are waiting to be delivered are dropped. A new address gets a new secret."
    draw = partial(form_shown, request, service, "sure.html", does="Turn notices off", says=says)
    do = in_thread(lambda: service.notices.turn_off(asker.identity.user), "/me")
    return await answered(
        request, asker, await sent(request), draw=partial(draw, address="/me", act="notices/off"), do=do
    )


# ---------------------------------------------------------------- tokens


@form(router, "/me/token", dependencies=_TOKENS)
async def token(request: Asked, service: Serving, asker: Asking) -> Response:
    fields, who = await sent(request), asker.identity

    def draw(**more: Any) -> Response:
        typed = {"name": "", "description": "", "expires": "90d", "roles": ""} | dict(fields)
        return form_shown(request, service, "me_token.html", tuple(typed), typed=typed, lifetimes=LIFETIMES, **more)

    def do() -> Response:
        lifetime, roles = fields.get("expires"), fields.get("roles", "").replace(",", " ").split()
        if lifetime not in LIFETIMES:
            raise InvalidInput.one("choose a lifetime from the list", "expires")
        made = service.access.tokens.create(
            who.user,
            fields.get("name", "").strip(),
            None if lifetime == "never" else float(_seconds(lifetime)),
            actor=who.user,
            text=service.access.authentication.derived(who.user, key_of(fields)),
            description=fields.get("description", "").strip(),
            roles=[role_named(each) for each in roles] if roles else None,
            by=who.token,
        )
        return _done(
            request, service, f"Created token {made.row.name}", ["Copy it now: it is not shown again."], made.text
        )

    return await _shown_once(fields, draw, do)


@form(router, "/me/change/{name}", dependencies=_TOKENS)
async def change(request: Asked, service: Serving, asker: Asking, name: str) -> Response:
    """Changes the roles and the description of a token."""
    fields, who, tokens = await sent(request), asker.identity, service.access.tokens

    def draw(**more: Any) -> Response:
        row = tokens.named(who.user, name)
        typed = {"roles": _in_words(row.roles), "description": row.description} | dict(fields)
        return form_shown(request, service, "me_change.html", tuple(typed), row=row, typed=typed, **more)

    def do() -> None:
        roles = fields.get("roles", "").replace(",", " ").split()
        same = roles == _in_words(tokens.named(who.user, name).roles).split()
        if not roles and not same:
            raise InvalidInput.one("name roles, or all", "roles")
        tokens.change(
            who.user,
            name,
            actor=who.user,
            by=who.token,
            description=fields.get("description", "").strip(),
            roles=KEEP if same else None if roles == [_ALL] else [role_named(each) for each in roles],
        )

    return await answered(request, asker, fields, draw=draw, do=in_thread(do, "/me"))


def _in_words(roles: tuple[str, ...] | None) -> str:
    return _ALL if roles is None else " ".join(roles)


@form(router, "/me/revoke/{name}", dependencies=_TOKENS)
async def revoke(request: Asked, service: Serving, asker: Asking, name: str) -> Response:
    who = asker.identity

    def draw(**more: Any) -> Response:
        row = service.access.tokens.named(who.user, name)
        says = "Programs that use it lose access, and every browser that signed in with it is signed out."
        act = f"revoke/{quote(row.name, safe='')}"
        does = f"Revoke token {row.name}"
        return form_shown(request, service, "sure.html", does=does, says=says, address="/me", act=act, **more)

    do = in_thread(lambda: service.access.tokens.revoke(who.user, name, actor=who.user, by=who.token), "/me")
    return await answered(request, asker, await sent(request), draw=draw, do=do)


# ---------------------------------------------------------------- answers that are shown once


async def _shown_once(fields: Fields, draw: Any, do: Any) -> Response:
    """Like `answered`, but the answer is the page itself: it has a secret, which never is in an address."""
    try:
        shown: Response = await run_in_threadpool(do if fields else draw)
    except RunrigError as error:
        shown = await run_in_threadpool(draw, error=error)
    return shown


def _done(request: Request, service: Service, title: str, says: list[str], secret: str | None = None) -> Response:
    return form_shown(request, service, "me_done.html", title=title, says=says, secret_text=secret)
