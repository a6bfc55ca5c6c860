"""Limits of users, in a pool and over all pools, and budgets (rules W6, W7): the list, and forms that change them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response

from runrig.domain.access import LONGEST_USER_NAME, Permission
from runrig.domain.errors import Changed, InvalidInput, Problem
from runrig.domain.limits import MOST, SETTING
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import whole_number
from runrig.domain.shown.limits import Limit, LimitsChange
from runrig.http.permissions import Asking, named, needs
from runrig.http.routing import Asked, Serving
from runrig.service.commands.edits import PoolEdit
from runrig.service.rights import About
from runrig.spec.settings import settings_from_json
from runrig.web.asking import Filled, Form
from runrig.web.forms import tag_of
from runrig.web.rendering import html
from runrig.web.routes import form, router

WORDS = {
    "gpus": "GPUs at the same time",
    "waiting": "Waiting workflows",
    "gpus_per_workflow": "GPUs of one workflow",
    "budget": "GPU-hours in a month",
}
MOST_SHOWN = 500

Change = Callable[[Mapping[str, int | None], bool], LimitsChange]
"""Changes limits, or only tries it."""


@router.get("/limits", dependencies=[needs(Permission.LIST_POOLS)])
def limits(request: Asked, service: Serving, asker: Asking) -> Response:
    """What is nearest to its limit comes first."""
    found = sorted(service.limit_queries.limits(asker.visibility), key=_nearest)
    pools = {each.pool for each in found if each.pool} | {*asker.submits_to()}
    tops = {pool for pool in pools if SUBPOOL_DELIMITER not in pool}
    changes = {pool for pool in tops if asker.may(Permission.CHANGE_POOL, About(pool))}
    return html(
        request,
        "limits.html",
        limits=found[:MOST_SHOWN],
        more=max(0, len(found) - MOST_SHOWN),
        words=WORDS,
        changes=changes,
        everywhere=asker.may(Permission.CHANGE_CLUSTER),
    )


def _nearest(limit: Limit) -> tuple[float, str, str, str]:
    used = -1.0 if limit.used is None else limit.used / limit.most
    return -used, limit.user or "", limit.pool or "", str(limit.limit)


@form("/limits/user", dependencies=[needs(Permission.CHANGE_CLUSTER)])
async def of_user(it: Filled, name: Annotated[str, Query(max_length=LONGEST_USER_NAME)]) -> Response:
    def change(edit: Mapping[str, int | None], dry_run: bool) -> LimitsChange:
        if name not in {*it.asker.known_users(it.user), *it.service.limit_queries.users()}:
            it.service.access.users.get(name)
        return it.service.declarations.update_user_limits(name, edit, by=it.user, dry_run=dry_run)

    address = f"/limits/user?name={quote(name, safe='')}"
    return await _form(it, change, f"Limits of {name} over all pools", address)


@form("/limits/pool/{name}", dependencies=[needs(Permission.CHANGE_POOL, named("name"))])
async def of_pool(it: Filled, name: str) -> Response:
    declarations = it.service.declarations

    def change(edit: Mapping[str, int | None], dry_run: bool) -> LimitsChange:
        asked = {SETTING[limit]: most for limit, most in edit.items()}
        found = PoolEdit(settings=settings_from_json(asked, declarations.kinds()))
        return declarations.update_pool_limits(name, found, user=it.user, dry_run=dry_run)

    address = f"/limits/pool/{quote(name, safe='')}"
    return await _form(it, change, f"Limits of each user of {name}, and its budget", address)


async def _form(it: Form, change: Change, title: str, address: str) -> Response:
    def now() -> dict[str, str]:
        found = change({}, True).before
        return {name: "" if (most := getattr(found, name)) is None else str(most) for name in WORDS}

    def draw(**more: Any) -> Response:
        at = now()
        about: dict[str, Any] = {"words": WORDS, "does": title, "action": address, "now": at, "tag": tag_of(at)}
        return it.shown("limits_set.html", it.typed(**at), **about, **more)

    def made(dry_run: bool) -> LimitsChange:
        edit = _typed(it)
        if it.fields.get("tag") != tag_of(now()):
            raise Changed("these limits were changed after you opened them. Check the current values and preview again")
        return change(edit, dry_run)

    return await it.answered(draw, partial(made, False), "/limits", lambda: {"change": made(True)})


def _typed(it: Form) -> dict[str, int | None]:
    """Returns each limit by name; None: no limit. Raises InvalidInput with all problems."""
    found: dict[str, int | None] = {}
    problems = []
    for name in WORDS:
        said, most = it.field(name), MOST[name]
        number = whole_number(said)
        if said and (number is None or not 1 <= number <= most):
            message = f"{said!r:.40} is not a limit. Use a whole number from 1 to {most}, or nothing for no limit"
            problems.append(Problem(message, name))
        else:
            found[name] = number
    if problems:
        raise InvalidInput(tuple(problems))
    return found
