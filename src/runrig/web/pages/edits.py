"""Edits of pools, each previewed by a plan, and what-if questions about quota."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.access import Permission
from runrig.domain.amounts import Amount, Share
from runrig.domain.errors import Changed, InvalidInput, RunrigError
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState, gpus_of
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.statuses import status_of
from runrig.domain.tags import check_unchanged, tag_of
from runrig.http.permissions import named, needs
from runrig.osmo.shape import page
from runrig.service.commands.edits import PoolEdit
from runrig.service.foresight.questions import OfDeletion, OfEdit, OfPause, OfResume, OfSubpool, Question
from runrig.service.queries.resource_queries import PoolView
from runrig.service.rights import About, Asker
from runrig.service.service import Service
from runrig.web.asking import NOBODY_WAITS, Filled, Form
from runrig.web.forms import Fields, sentence
from runrig.web.pool_form import boxes, edit_of, lines, share, share_now
from runrig.web.rendering import html, moment
from runrig.web.routes import form, router

_EDIT = [needs(Permission.CHANGE_POOL, named("name"))]
_SUBPOOLS = [needs(Permission.CHANGE_SUBPOOLS, named("name"))]
_DELETE = [needs(Permission.CHANGE_CLUSTER, named("name"), of_subpool=Permission.CHANGE_SUBPOOLS)]


def acts_on(view: PoolView, asker: Asker) -> list[tuple[str, str]]:
    """Returns the allowed actions on a pool as (address, label)."""
    pool, about = view.pool, About(view.pool.name)
    if pool.state is not PoolState.ACTIVE:
        return []
    found = [("edit", "Resize" if about.subpool else "Edit")] if asker.may(Permission.CHANGE_POOL, about) else []
    if not about.subpool and asker.may(Permission.CHANGE_SUBPOOLS, about):
        found.append(("subpool", "New subpool"))
    if asker.may(Permission.CHANGE_POOL, about):
        found.append(("pause", "Pause") if pool.paused_by is None else ("resume", "Resume"))
        found.append(("close", "Close") if pool.closed_by is None else ("open", "Open"))
    ends = Permission.CHANGE_SUBPOOLS if about.subpool else Permission.CHANGE_CLUSTER
    if not view.now.subpools and asker.may(ends, about):
        found.append(("delete", "Delete"))
    return [(page("pool", pool.name) + f"/{name}", words) for name, words in found]


def may_promise(asker: Asker, name: str) -> bool:
    """Whether the user can change, and so preview, the pool's quota."""
    about = About(name)
    if not asker.may(Permission.CHANGE_POOL, about):
        return False
    return about.subpool or asker.may(Permission.CHANGE_CLUSTER, about)


def _shown(
    it: Form, template: str, typed: Mapping[str, str], pool: Pool, *, error: RunrigError | None = None, **values: Any
) -> Response:
    """*error* Changed: the form names who changed the pool and shows the current values."""
    if isinstance(error, Changed):
        error = Changed(_changed(it.service, pool.name))
    back = page("pool", pool.name)
    return it.shown(template, typed, error=error, it=pool, tag=tag_of(pool), back=back, **values)


def _changed(service: Service, name: str) -> str:
    own = None if SUBPOOL_DELIMITER in name else name  # Changes of its subpools are left out.
    newest, _ = service.history.changes(name, subpool=own, limit=1)
    by = "".join(f" by {each.by} at {moment(each.time)} UTC" for each in newest)
    return f"pool {name} was changed{by}, after you opened it. Check the current values and preview again"


def _expected(fields: Fields) -> frozenset[str]:
    return frozenset({fields.get("tag", "")})


# ---------------------------------------------------------------- settings


@form("/pool/{name}/edit", dependencies=_EDIT)
async def edit(it: Filled, name: str) -> Response:
    expected = _expected(it.fields)

    def wanted() -> PoolEdit:
        pool = _pool(it, name)
        check_unchanged(expected, pool, f"pool {name}")
        found = edit_of(pool, it.service.declarations.kinds(pool), it.fields)
        if not found.mentioned:
            raise InvalidInput.one("no changes. Change at least one value")
        it.asker.check_promise(name, found.mentioned)
        return found

    def do() -> None:
        it.service.declarations.update_pool(name, wanted(), user=it.user, expected=expected)

    plan = it.plan(lambda: OfEdit(name, wanted()))
    return await it.answered(partial(_edit, it, name), do, page("pool", name), plan)


def _pool(it: Form, name: str) -> Pool:
    return it.service.queries.check_pool(name, it.asker.visibility)


def _view(it: Form, name: str) -> PoolView:
    return it.service.queries.pool(name, it.asker.visibility)


def _edit(it: Form, name: str, **more: Any) -> Response:
    pool, promise = _pool(it, name), may_promise(it.asker, name)
    found = lines(pool, it.service.declarations.kinds(pool).flavors) if pool.parent is None and promise else {}
    settings = boxes(pool, _cohorts(it, pool), promise=promise)
    now = {"quota": share_now(pool)} | {each.name: each.now for each in settings}
    now |= {cell.name: cell.now for cells in found.values() for cell in cells}
    about: dict[str, Any] = {"lines": found, "promise": promise, "boxes": settings, "now": now}
    return _shown(it, "edit.html", it.typed(**now), pool, **about, **more)


def _cohorts(it: Form, pool: Pool) -> list[str]:
    """Returns the cohorts that the pool can join: those that the user sees, and its own."""
    seen = {each.name for each in it.service.queries.cohorts(it.asker.visibility)}
    return sorted(seen | ({pool.cohort} if pool.cohort else set()))


# ---------------------------------------------------------------- a new subpool


@form("/pool/{name}/subpool", dependencies=_SUBPOOLS)
async def create_subpool(it: Filled, name: str) -> Response:
    short = it.field("name")

    def amount() -> Share:
        if not short:
            raise InvalidInput.one(f"enter the part of the name after {name}{SUBPOOL_DELIMITER}", "name")
        return share(it.field("quota"), it.service.declarations.kinds())

    def do() -> None:
        it.service.subpools.create(name, short, amount(), user=it.user)

    plan = it.plan(lambda: OfSubpool(name, short, amount()))
    return await it.answered(partial(_subpool, it, name), do, page("pool", f"{name}{SUBPOOL_DELIMITER}{short}"), plan)


def _subpool(it: Form, name: str, **more: Any) -> Response:
    view = _view(it, name)
    left, typed = view.now.gpus.unallocated, it.typed(name="", quota="")
    return it.shown("subpool.html", typed, it=view.pool, left=left, back=page("pool", name), **more)


# ---------------------------------------------------------------- paused and closed for a while, and deleted


@form("/pool/{name}/pause", dependencies=_EDIT)
async def pause(it: Filled, name: str) -> Response:
    says = "Nothing new starts in it and its subpools. Running workflows continue, and other pools can borrow its idle quota."
    question = partial(OfPause, name, it.user, it.field("until") or None)
    return await _marked(it, name, "pause", says, question, asks=("reason", "until"))


@form("/pool/{name}/resume", dependencies=_EDIT)
async def resume(it: Filled, name: str) -> Response:
    says = "Its workflows keep their queue positions."
    return await _marked(it, name, "resume", says, partial(OfResume, name))


@form("/pool/{name}/close", dependencies=_EDIT)
async def close(it: Filled, name: str) -> Response:
    says = "It and its subpools accept no submissions until you open it. Queued workflows still start."
    return await _marked(it, name, "close", says, asks=("reason",))


@form("/pool/{name}/open", dependencies=_EDIT)
async def reopen(it: Filled, name: str) -> Response:
    return await _marked(it, name, "open", "It accepts submissions again.")


@form("/pool/{name}/delete", dependencies=_DELETE)
async def delete(it: Filled, name: str) -> Response:
    says = "Pending workflows are cancelled. Running workflows finish, and the pool keeps its quota until they do."
    parent = name.partition(SUBPOOL_DELIMITER)[0]
    then = "/" if parent == name else page("pool", parent)
    return await _marked(it, name, "delete", says, partial(OfDeletion, name, it.user), then=then)


async def _marked(
    it: Form,
    name: str,
    act: str,
    says: str,
    question: Callable[[], Question] | None = None,
    *,
    asks: tuple[str, ...] = (),
    then: str = "",
) -> Response:
    """*question*: the subject of its plan, with which it opens if there is nothing to fill in; None: it changes nothing that runs or
    waits. *asks*: the fields of its form. *then*: the page that opens; "": that of the pool.
    """
    pool = await run_in_threadpool(_pool, it, name)
    typed = {each: it.field(each) for each in asks}
    said = {each: value or (None if each == "until" else "") for each, value in typed.items()}
    command = getattr(it.service.declarations, f"{act}_pool")
    do = partial(command, name, user=it.user, expected=_expected(it.fields), **said)
    if question and not asks:
        it = replace(it, fields=it.fields or {"tag": tag_of(pool)})
    draw = partial(_shown, it, "sure.html", typed, pool, does=f"{act.capitalize()} {name}", says=says)
    return await it.answered(draw, do, then or page("pool", name), it.plan(question) if question else None)


# ---------------------------------------------------------------- what if


@router.get("/pool/{name}/what-if", dependencies=_EDIT)
async def what_if(
    it: Filled,
    name: str,
    quota: Annotated[str, Query(max_length=20)] = "",
    flavor: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Requires the same permission as the edit. Stops working when the client disconnects."""
    await run_in_threadpool(it.asker.check_promise, name, {"quota"})
    view = await run_in_threadpool(_view, it, name)
    slider = slider_of(view, flavor, quota)
    draw = partial(html, it.request, "what_if.html", it=view.pool, slider=slider)
    if not slider["asked"]:
        return await run_in_threadpool(draw, plan=None, problem="")
    wanted = OfEdit(name, _guarantee(view.pool, slider["flavor"], slider["value"]))
    try:
        found = await run_in_threadpool(it.plan(lambda: wanted))
    except RunrigError as error:
        answer = await run_in_threadpool(draw, plan=None, problem=sentence(error.message))
        answer.status_code = status_of(error)
        return answer
    if found is None:
        return Response(status_code=NOBODY_WAITS)
    return await run_in_threadpool(draw, problem="", **found)


def _guarantee(pool: Pool, flavor: str, gpus: int) -> PoolEdit:
    if pool.parent is not None:
        return PoolEdit(share={flavor: gpus})
    return PoolEdit((Amount(FlavorResource(flavor, GPU), "nominal", gpus),))


def slider_of(view: PoolView, flavor: str = "", quota: str = "") -> dict[str, Any]:
    """Returns the slider of a GPU guarantee. *asked*: whether *quota* is a valid number for it."""
    there = gpus_of(view.pool.quotas)
    flavors = (
        [each.name for each in view.flavors if each.name in there]
        or list(there)
        or [each.name for each in view.flavors]
    )
    chosen = flavor if flavor in flavors else (flavors or [""])[0]
    now = there.get(chosen, 0)
    good = quota.isascii() and quota.isdecimal() and len(quota) < 10
    value = int(quota) if good else now
    most = max(view.now.nodes.gpus, now, value, 1)
    return {"flavors": flavors, "flavor": chosen, "now": now, "value": value, "most": most, "asked": good}
