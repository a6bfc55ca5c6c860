"""Browsers: a user logged in on the command line signs one in."""

from fastapi import APIRouter

from runrig.api.v1.frame import shows
from runrig.domain.access import Permission
from runrig.domain.shown.server import BrowserCode
from runrig.http.permissions import needs
from runrig.http.routing import Route, Serving, Who
from runrig.service.access.browser_sessions import CODE_S

router = APIRouter(route_class=Route, tags=["access"])


@router.post(
    "/api/v1/browser-codes",
    summary="Create a one-time code that signs a browser in as you. It expires after one minute",
    dependencies=[needs(Permission.OWN_TOKENS)],
    responses=shows(BrowserCode),
)
def make_browser_code(service: Serving, who: Who) -> BrowserCode:
    return BrowserCode(service.access.browsers.make_code(who), int(CODE_S))
