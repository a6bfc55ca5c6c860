"""Routes of pools."""

from typing import Annotated

from fastapi import Query

from runrig.api.osmo import models, shaped
from runrig.api.osmo.patches import patched, put, said_with
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.http.permissions import Asking, Seeing, named, needs
from runrig.http.routing import NamedUser, Serving
from runrig.osmo.shape import Shape
from runrig.service.queries.visibility import Visibility

router = Router("pools")

_LIST = needs(Permission.LIST_POOLS)
_CHANGE = needs(Permission.CHANGE_POOL, named("name"))

Pools = Annotated[list[str], Query(description="Only these pools. Default: all")]


@router("GET /api/pool", _LIST, shows=models.PoolsAnswer, errors=(404,))
def list_pools(service: Serving, visibility: Seeing, pools: Pools = [], all_pools: bool = True) -> Shape:  # noqa: B006, ARG001 - a list is how the framework takes repeated keys
    """Settings of all pools."""
    return _settings(service, pools, visibility)


@router("GET /api/configs/pool", _LIST, shows=models.PoolsAnswer)
def list_settings(service: Serving, visibility: Seeing, verbose: bool = False) -> Shape:  # noqa: ARG001 - of the reference client
    """Show the settings of all pools, as their administrators see them."""
    return _settings(service, [], visibility)


def _settings(service: Serving, names: list[str], visibility: Visibility) -> Shape:
    views = service.queries.pools(names=names, visibility=visibility)
    return {"pools": {view.pool.name: shaped.settings(view, service.backend_name) for view in views}}


@router("GET /api/pool_quota", _LIST, shows=models.PoolQuotaAnswer, errors=(404,))
def pool_quota(
    service: Serving,
    visibility: Seeing,
    pools: Pools = [],  # noqa: B006
    all_pools: bool = True,  # noqa: ARG001 - the osmo client sends it in addition to `pools`
    archived: Annotated[bool, Query(description="Include ARCHIVED pools")] = False,
    subpools: Annotated[bool, Query(description="More pools, like `pools`")] = False,
) -> Shape:
    """Show quota and usage of pools, by sets that share nodes."""
    views = service.queries.pools(names=pools, archived=archived, below=subpools, visibility=visibility)
    return shaped.pool_quota(views, service.backend_name)


@router("PATCH /api/configs/pool/{name}", _CHANGE, shows=models.PoolAnswer, errors=(409,))
def update_pool(service: Serving, user: NamedUser, asker: Asking, name: str, body: models.PoolPatchRequest) -> Shape:
    """Update a pool."""
    return shaped.pool(patched(service, user, asker, name, body), service.backend_name)


@router("PUT /api/configs/pool", needs(Permission.CHANGE_CLUSTER), shows=models.PoolsAnswer, errors=(404, 409))
def update_pools(
    service: Serving, user: NamedUser, asker: Asking, visibility: Seeing, body: models.PoolsPutRequest
) -> Shape:
    """Update several pools, all-or-nothing. Pools that are not listed stay unchanged."""
    put(service, user, asker, body)
    return _settings(service, sorted(body.configs), visibility)


@router(
    "DELETE /api/configs/pool/{name}",
    needs(Permission.CHANGE_CLUSTER, named("name"), of_subpool=Permission.CHANGE_SUBPOOLS),
    shows=models.PoolAnswer,
    errors=(409,),
)
def delete_pool(service: Serving, user: NamedUser, name: str, body: models.SaidRequest | None = None) -> Shape:
    """Delete a pool. It is ARCHIVED immediately, or DELETING until its running workflows finish."""
    done = service.declarations.delete_pool(name, user=user, said=said_with(body))
    return shaped.pool(done.view, service.backend_name)
