"""The route that Prometheus scrapes."""

from fastapi import Response

from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.http.permissions import needs
from runrig.http.routing import Serving

router = Router("server")

_EXAMPLE = """# HELP runrig_queue_gangs Gangs that are waiting, including nominated ones.
# TYPE runrig_queue_gangs gauge
runrig_queue_gangs{pool="vision",priority="NORMAL"} 3.0
"""
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


@router("GET /metrics", needs(Permission.READ_EVERYTHING), text=_EXAMPLE)
def metrics(service: Serving) -> Response:
    """Metrics in Prometheus text format."""
    return Response(service.metrics.text(), media_type=TEXT_FORMAT)
