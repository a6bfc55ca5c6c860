"""The route that Prometheus scrapes."""

from fastapi import APIRouter, Response

from runrig.domain.access import Permission
from runrig.http.permissions import needs
from runrig.http.routing import Route, Serving, text_answers

router = APIRouter(route_class=Route, tags=["server"])

_EXAMPLE = """# HELP runrig_queue_gangs Gangs that are waiting, including nominated ones.
# TYPE runrig_queue_gangs gauge
runrig_queue_gangs{pool="vision",priority="NORMAL"} 3.0
"""
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    summary="Metrics in Prometheus text format",
    dependencies=[needs(Permission.READ_EVERYTHING)],
    response_class=Response,
    responses=text_answers(_EXAMPLE),
)
def metrics(service: Serving) -> Response:
    return Response(service.metrics.text(), media_type=TEXT_FORMAT)
