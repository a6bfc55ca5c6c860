"""Routes of pools."""

from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.osmo import shaped
from runrig.api.osmo.patches import patched, put, said_with
from runrig.domain.access import Permission
from runrig.http.permissions import Asking, Seeing, named, needs
from runrig.http.routing import Route, Serving, User, answers
from runrig.osmo.shape import Shape
from runrig.service.queries.visibility import Visibility

router = APIRouter(route_class=Route, tags=["pools"])

_LIST = [needs(Permission.LIST_POOLS)]
_CHANGE = [needs(Permission.CHANGE_POOL, named("name"))]

Pools = Annotated[list[str], Query(description="Only these pools. Default: all")]


@router.get(
    "/api/pool",
    summary="Settings of all pools",
    dependencies=_LIST,
    responses=answers(wire.PoolsAnswer, 404),
)
def list_pools(service: Serving, visibility: Seeing, pools: Pools = [], all_pools: bool = True) -> Shape:  # noqa: B006, ARG001 - a list is how the framework takes repeated keys
    return _settings(service, pools, visibility)


@router.get(
    "/api/configs/pool",
    summary="Show the settings of all pools, as their administrators see them",
    dependencies=_LIST,
    responses=answers(wire.PoolsAnswer),
)
def list_settings(service: Serving, visibility: Seeing, verbose: bool = False) -> Shape:  # noqa: ARG001 - of the reference client
    return _settings(service, [], visibility)


def _settings(service: Serving, names: list[str], visibility: Visibility) -> Shape:
    views = service.queries.pools(names=names, visibility=visibility)
    return {"pools": {view.pool.name: shaped.settings(view, service.backend_name) for view in views}}


@router.get(
    "/api/pool_quota",
    summary="Show quota and usage of pools, by sets that share nodes",
    dependencies=_LIST,
    responses=answers(wire.PoolQuotaAnswer, 404),
)
def pool_quota(
    service: Serving,
    visibility: Seeing,
    pools: Pools = [],  # noqa: B006
    all_pools: bool = True,  # noqa: ARG001 - the osmo client sends it in addition to `pools`
    archived: Annotated[bool, Query(description="Include ARCHIVED pools")] = False,
    subpools: Annotated[bool, Query(description="More pools, like `pools`")] = False,
) -> Shape:
    views = service.queries.pools(names=pools, archived=archived, below=subpools, visibility=visibility)
    return shaped.pool_quota(views, service.backend_name)


@router.patch(
    "/api/configs/pool/{name}",
    summary="Update a pool",
    dependencies=_CHANGE,
    responses=answers(wire.PoolAnswer, 404, 409),
)
def update_pool(service: Serving, user: User, asker: Asking, name: str, body: wire.PoolPatchRequest) -> Shape:
    return shaped.pool(patched(service, user, asker, name, body), service.backend_name)


@router.put(
    "/api/configs/pool",
    summary="Update several pools, all-or-nothing. Pools that are not listed stay unchanged",
    dependencies=[needs(Permission.CHANGE_CLUSTER)],
    responses=answers(wire.PoolsAnswer, 404, 409),
)
def update_pools(service: Serving, user: User, asker: Asking, visibility: Seeing, body: wire.PoolsPutRequest) -> Shape:
    put(service, user, asker, body)
    return _settings(service, sorted(body.configs), visibility)


@router.delete(
    "/api/configs/pool/{name}",
    summary="Delete a pool. It is ARCHIVED immediately, or DELETING until its running workflows finish",
    dependencies=[needs(Permission.CHANGE_CLUSTER, named("name"), of_subpool=Permission.CHANGE_SUBPOOLS)],
    responses=answers(wire.PoolAnswer, 404, 409),
)
def delete_pool(service: Serving, user: User, name: str, body: wire.SaidRequest | None = None) -> Shape:
    done = service.declarations.delete_pool(name, user=user, said=said_with(body))
    return shaped.pool(done.view, service.backend_name)
