"""Browsers: a user logged in on the command line signs one in."""

from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.shown.server import BrowserCode
from runrig.http.permissions import needs
from runrig.http.routing import Serving, Who
from runrig.service.access.browser_sessions import CODE_S

router = Router("access")


@router("POST /api/v1/browser-codes", needs(Permission.OWN_TOKENS))
def make_browser_code(service: Serving, who: Who) -> BrowserCode:
    """Create a one-time code that signs a browser in as you. It expires after one minute."""
    return BrowserCode(service.access.browsers.make_code(who), int(CODE_S))
