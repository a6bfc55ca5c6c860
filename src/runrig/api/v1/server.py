"""The server itself, and whole cluster files."""

from runrig import __version__
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.shown.server import ClockAccepted, ClusterFile, Version
from runrig.http.permissions import needs
from runrig.http.routing import Serving, User
from runrig.service.commands.declared import declared_change
from runrig.wire import v1

router = Router("server")


@router("GET /api/v1/version", needs(Permission.CONNECT))
async def get_version() -> Version:
    """Show the server's version."""
    return Version(__version__)


@router("POST /api/v1/apply", needs(Permission.CHANGE_CLUSTER), errors=(404, 409, 412))
def apply_cluster_file(service: Serving, user: User, body: v1.ApplyRequest) -> v1.ApplyAnswer:
    """Apply a cluster file, or preview its changes."""
    differences = service.declarations.apply(
        body.file,
        user=user,
        prune=body.prune,
        dry_run=body.dry_run,
        if_revision=body.if_revision,
        force=body.force,
    )
    return v1.ApplyAnswer(changes=tuple(map(declared_change, differences)), applied=not body.dry_run)


@router("GET /api/v1/cluster-file", needs(Permission.CHANGE_CLUSTER))
def export_cluster_file(service: Serving) -> ClusterFile:
    """Export cohorts, pools and roles as a cluster file."""
    return ClusterFile(service.declarations.export())


@router("POST /api/v1/clock/accept", needs(Permission.CHANGE_CLUSTER))
def accept_clock(service: Serving, user: User) -> ClockAccepted:
    """Accept the system clock again."""
    return service.accept_clock(user=user)
