"""Routes of pools."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.answers import pools as as_answers
from runrig.api.history import pool_at
from runrig.api.shape import Serving, User, answers
from runrig.domain.errors import InvalidInput
from runrig.domain.pools import Queueing, TopologyKey
from runrig.service.declarations import KEEP, Keep, PoolEdit

router = APIRouter(tags=["pools"])

Pools = Annotated[list[str], Query(description="Only these; none: all")]


@router.get("/api/pool", summary="Settings of all pools", responses=answers(wire.PoolsAnswer, 404))
def list_pools(service: Serving, pools: Pools = [], all_pools: bool = True) -> wire.PoolsAnswer:  # noqa: B006, ARG001 - a list is how the framework takes repeated keys
    return _settings(service, pools)


@router.get(
    "/api/configs/pool", summary="Settings of all pools, as their admins see them", responses=answers(wire.PoolsAnswer)
)
def list_settings(service: Serving, verbose: bool = False) -> wire.PoolsAnswer:  # noqa: ARG001 - of the reference client
    return _settings(service, [])


def _settings(service: Serving, names: list[str]) -> wire.PoolsAnswer:
    views = service.queries.pools(names=names)
    return wire.PoolsAnswer(pools={view.pool.name: as_answers.settings(view, service.backend_name) for view in views})


@router.get(
    "/api/pool_quota",
    summary="Quota and use of pools, by sets that share nodes",
    responses=answers(wire.PoolQuotaAnswer, 404),
)
def pool_quota(
    service: Serving,
    pools: Pools = [],  # noqa: B006
    all_pools: bool = True,  # noqa: ARG001 - of the reference client, which sends it beside `pools`
    archived: Annotated[bool, Query(description="ARCHIVED pools too")] = False,
) -> wire.PoolQuotaAnswer:
    return as_answers.pool_quota(service.queries.node_sets(names=pools, archived=archived), service.backend_name)


@router.get("/api/configs/pool/{name}", summary="One pool with its balances", responses=answers(wire.PoolAnswer, 404))
def show_pool_now_or_then(
    service: Serving,
    name: str,
    at: Annotated[
        datetime | None, Query(description="As it stood at that time: PoolAtAnswer, without balances")
    ] = None,
) -> wire.PoolAnswer | wire.PoolAtAnswer:
    return show_pool(service, name) if at is None else pool_at(service, name, at)


def show_pool(service: Serving, name: str) -> wire.PoolAnswer:
    return as_answers.pool(service.queries.pool(name), service.backend_name)


@router.post("/api/configs/pool", summary="Create a pool", responses=answers(wire.PoolAnswer, 400, 404, 409))
def create_pool(service: Serving, user: User, body: wire.PoolCreateRequest) -> wire.PoolAnswer:
    return as_answers.pool(service.declarations.create_pool(body.name, _edit(body), user=user), service.backend_name)


@router.patch("/api/configs/pool/{name}", summary="Change a pool", responses=answers(wire.PoolAnswer, 400, 404, 409))
def update_pool(service: Serving, user: User, name: str, body: wire.PoolEditRequest) -> wire.PoolAnswer:
    return as_answers.pool(service.declarations.update_pool(name, _edit(body), user=user), service.backend_name)


@router.put(
    "/api/configs/pool/{name}", summary="Change a pool, like PATCH", responses=answers(wire.PoolAnswer, 400, 404, 409)
)
def put_pool(service: Serving, user: User, name: str, body: wire.PoolEditRequest) -> wire.PoolAnswer:
    return update_pool(service, user, name, body)


@router.delete(
    "/api/configs/pool/{name}",
    summary="Delete a pool: ARCHIVED at once, or DELETING until what runs there has ended",
    responses=answers(wire.PoolAnswer, 404, 409),
)
def delete_pool(service: Serving, user: User, name: str) -> wire.PoolAnswer:
    return as_answers.pool(service.declarations.delete_pool(name, user=user), service.backend_name)


def _edit(body: wire.PoolEditRequest) -> PoolEdit:
    """What the body mentions; null takes away a cohort or a limit, and means nothing elsewhere."""
    sent = body.model_fields_set
    keys, flavors = body.topology_keys, body.flavors
    return PoolEdit(
        quota=_or_keep(body.quota),
        cohort=body.cohort if "cohort" in sent else KEEP,
        borrowing_limit=body.borrowing_limit if "borrowing_limit" in sent else KEEP,
        lending_limit=body.lending_limit if "lending_limit" in sent else KEEP,
        topology_keys=KEEP if keys is None else tuple(TopologyKey(each.key, each.label) for each in keys),
        flavors=KEEP if flavors is None else tuple(flavors),
        queueing=KEEP if body.queueing is None else _queueing(body.queueing),
        weight=_or_keep(body.weight),
        description=_or_keep(body.description),
    )


def _or_keep(value: Any) -> Any:
    return KEEP if value is None else value


def _queueing(text: str) -> Queueing | Keep:
    try:
        return Queueing(text)
    except ValueError:
        known = " or ".join(each.value for each in Queueing)
        raise InvalidInput.one(f"queueing {text!r} is not known: write {known}", "queueing") from None
