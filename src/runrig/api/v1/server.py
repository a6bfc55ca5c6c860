"""The server itself, and whole cluster files."""

from fastapi import APIRouter

from runrig import __version__
from runrig.api.v1.frame import User, shows
from runrig.domain.access import Permission
from runrig.domain.shown.server import ClockAccepted, ClusterFile, Version
from runrig.http.permissions import needs
from runrig.http.routing import Route, Serving
from runrig.service.commands.declared import declared_change
from runrig.wire import ApplyAnswer, ApplyRequest

router = APIRouter(route_class=Route, tags=["server"])


@router.get(
    "/api/v1/version",
    summary="Show the server's version",
    dependencies=[needs(Permission.CONNECT)],
    responses=shows(Version),
)
async def get_version() -> Version:
    return Version(__version__)


@router.post(
    "/api/v1/apply",
    summary="Apply a cluster file, or preview its changes",
    dependencies=[needs(Permission.CHANGE_CLUSTER)],
    responses=shows(ApplyAnswer, 404, 409, 412, 413),
)
def apply_cluster_file(service: Serving, user: User, body: ApplyRequest) -> ApplyAnswer:
    differences = service.declarations.apply(
        body.file,
        user=user,
        prune=body.prune,
        dry_run=body.dry_run,
        if_revision=body.if_revision,
        force=body.force,
    )
    return ApplyAnswer(changes=tuple(map(declared_change, differences)), applied=not body.dry_run)


@router.get(
    "/api/v1/cluster-file",
    summary="Export cohorts, pools and roles as a cluster file",
    dependencies=[needs(Permission.CHANGE_CLUSTER)],
    responses=shows(ClusterFile),
)
def export_cluster_file(service: Serving) -> ClusterFile:
    return ClusterFile(service.declarations.export())


@router.post(
    "/api/v1/clock/accept",
    summary="Accept the system clock again",
    dependencies=[needs(Permission.CHANGE_CLUSTER)],
    responses=shows(ClockAccepted),
)
def accept_clock(service: Serving, user: User) -> ClockAccepted:
    return service.accept_clock(user=user)
