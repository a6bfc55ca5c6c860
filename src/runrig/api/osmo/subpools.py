"""Routes of subpools."""

from typing import Annotated

from fastapi import Query

from runrig.api.error_docs import DRAINING, Said
from runrig.api.osmo import models, shaped
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.http.permissions import Seeing, named, needs
from runrig.http.routing import NamedUser, Serving
from runrig.osmo.shape import Shape
from runrig.service.queries.resource_queries import PoolView
from runrig.service.service import Service
from runrig.spec.quota import share_from_json

_ONE = "/api/configs/pool/{parent}/subpool/{subpool}"

router = Router("subpools")

_READ = needs(Permission.READ_POOL, named("parent"))
_CHANGE = needs(Permission.CHANGE_SUBPOOLS, named("parent"))

DryRun = Annotated[bool, Query(description="Validate and preview only")]

_OVER: Said = (
    "the subpools of team would have 101 GPUs (b 40, a 31, d 30), but team has only 100. Give d at most 29, reduce other "
    "subpools, or raise the quota of team",
    {
        "law": "S1",
        "pool": "team",
        "resource": "default/gpu",
        "asked": 101,
        "limit": 100,
        "subpools": {"team--b": 40, "team--a": 31, "team--d": 30},
        "unallocated": 29,
    },
)
_TAKEN: Said = (
    "subpool team--a already exists. To change it, use `runrig pool subpool update team a`",
    {"pool": "team--a", "state": "ACTIVE"},
)
_UNKNOWN: Said = ("pool team has no subpool 'x' (subpools: a, b, c)", {})
_NO_PARENT: Said = ("unknown pool 'teem' (pools: sim, team)", {})
_NO_SHARE: Said = (
    "quota: 101% is more than the parent's quota. Use at most 100%",
    {"problems": [{"message": "quota: 101% is more than the parent's quota. Use at most 100%", "path": "quota"}]},
)


_CREATED = {400: _OVER, 404: _NO_PARENT, 409: _TAKEN, 422: _NO_SHARE}
_CHANGED = {400: _OVER, 404: _UNKNOWN, 409: DRAINING, 422: _NO_SHARE}
_SUBPOOL = {"example": models.SubpoolAnswer.example()}


@router("GET /api/configs/pool/{parent}/subpool", _READ, shows=models.SubpoolsAnswer, said={404: _NO_PARENT})
def list_subpools(
    service: Serving,
    visibility: Seeing,
    parent: str,
    archived: Annotated[bool, Query(description="ARCHIVED ones too")] = False,
) -> Shape:
    """List the subpools of a pool by name."""
    views = service.queries.pools(names=(parent,), below=True, archived=archived, visibility=visibility)
    return {"subpools": [_answer(service, view) for view in views if view.pool.parent == parent]}


@router(f"GET {_ONE}", _READ, said={404: _UNKNOWN}, shows=models.PoolAnswer, content=_SUBPOOL)
def show_subpool(service: Serving, visibility: Seeing, parent: str, subpool: str) -> Shape:
    """Show a subpool with its balances, in any state."""
    return _answer(service, service.queries.subpool(parent, subpool, visibility))


@router("POST /api/configs/pool/{parent}/subpool", _CHANGE, said=_CREATED, shows=models.PoolAnswer, content=_SUBPOOL)
def create_subpool(
    service: Serving, user: NamedUser, parent: str, body: models.SubpoolCreateRequest, dry_run: DryRun = False
) -> Shape:
    """Create a subpool, or restore an ARCHIVED one."""
    share = share_from_json(body.quota, service.declarations.kinds())
    return _answer(service, service.subpools.create(parent, body.name, share, user=user, dry_run=dry_run))


@router(f"PATCH {_ONE}", _CHANGE, said=_CHANGED, shows=models.PoolAnswer, content=_SUBPOOL)
def update_subpool(
    service: Serving,
    user: NamedUser,
    parent: str,
    subpool: str,
    body: models.SubpoolEditRequest,
    dry_run: DryRun = False,
) -> Shape:
    """Change a subpool's quota. Running workflows are not affected."""
    share = share_from_json(body.quota, service.declarations.kinds())
    return _answer(service, service.subpools.resize(parent, subpool, share, user=user, dry_run=dry_run))


@router(f"PUT {_ONE}", _CHANGE, said=_CHANGED, shows=models.PoolAnswer, content=_SUBPOOL)
def put_subpool(
    service: Serving,
    user: NamedUser,
    parent: str,
    subpool: str,
    body: models.SubpoolEditRequest,
    dry_run: DryRun = False,
) -> Shape:
    """Change a subpool's quota, like PATCH."""
    return update_subpool(service, user, parent, subpool, body, dry_run)


@router(
    f"DELETE {_ONE}",
    _CHANGE,
    shows=models.SubpoolDeletedAnswer,
    said={404: _UNKNOWN, 409: DRAINING},
)
def delete_subpool(service: Serving, user: NamedUser, parent: str, subpool: str, dry_run: DryRun = False) -> Shape:
    """Delete a subpool. It is ARCHIVED immediately, or DELETING until its running workflows finish."""
    done = service.subpools.delete(parent, subpool, user=user, dry_run=dry_run)
    return _answer(service, done.view) | {"cancelled": done.cancelled}


def _answer(service: Service, view: PoolView) -> Shape:
    return shaped.pool(view, service.backend_name)
