"""Health, version, and whole cluster files."""

from fastapi import APIRouter

from runrig import __version__, wire
from runrig.domain.access import Permission
from runrig.domain.errors import Unavailable
from runrig.http.error_docs import documented
from runrig.http.permissions import OPEN, needs
from runrig.http.routing import Responses, Route, Serving, answers

router = APIRouter(route_class=Route, tags=["server"])

_HEALTH: Responses = {
    200: {"description": "Done", "content": {"application/json": {"example": wire.HealthAnswer.example()}}}
}


@router.get(
    "/healthz", summary="Check that the process responds", dependencies=[OPEN], responses={**_HEALTH, **documented(403)}
)
async def health() -> wire.HealthAnswer:
    return wire.HealthAnswer(status="ok")


@router.get(
    "/readyz",
    summary="Check that the server works: its last scheduling round and commit succeeded",
    dependencies=[OPEN],
    responses={**_HEALTH, **documented(403, 503)},
)
async def ready(service: Serving) -> wire.HealthAnswer:
    if service.not_ready is not None:
        raise Unavailable(f"the server is not ready: {service.not_ready}")
    return wire.HealthAnswer(status="ready")


@router.get(
    "/api/version",
    summary="Show the server's version",
    dependencies=[needs(Permission.CONNECT)],
    responses=answers(wire.VersionAnswer),
)
async def version() -> wire.VersionAnswer:
    major, minor, revision = __version__.split(".")[:3]
    return wire.VersionAnswer(major=major, minor=minor, revision=revision, hash="", version=__version__)
