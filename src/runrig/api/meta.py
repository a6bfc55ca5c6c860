"""Health, version, and metrics."""

from fastapi import Response

from runrig import __version__, wire
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.errors import Unavailable
from runrig.http.permissions import OPEN, needs
from runrig.http.routing import Serving

router = Router("server")

_METRICS = """# HELP runrig_queue_gangs Gangs that are waiting, including nominated ones.
# TYPE runrig_queue_gangs gauge
runrig_queue_gangs{pool="vision",priority="NORMAL"} 3.0
"""
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


@router("GET /healthz", OPEN, only=(403,))
async def health() -> wire.HealthAnswer:
    """Check that the process responds."""
    return wire.HealthAnswer(status="ok")


@router("GET /readyz", OPEN, only=(403, 503))
async def ready(service: Serving) -> wire.HealthAnswer:
    """Check that the server works: its last scheduling round and commit succeeded."""
    if service.not_ready is not None:
        raise Unavailable(f"the server is not ready: {service.not_ready}")
    return wire.HealthAnswer(status="ready")


@router("GET /api/version", needs(Permission.CONNECT))
async def version() -> wire.VersionAnswer:
    """Show the server's version."""
    major, minor, revision = __version__.split(".")[:3]
    return wire.VersionAnswer(major=major, minor=minor, revision=revision, hash="", version=__version__)


@router("GET /metrics", needs(Permission.READ_EVERYTHING), text=_METRICS)
def metrics(service: Serving) -> Response:
    """Metrics in Prometheus text format."""
    return Response(service.metrics.text(), media_type=TEXT_FORMAT)
