"""What the guard knows of browsers: which paths are pages, and when a cookie counts.

A browser sends its cookie wherever a page makes it send a request.  So a cookie alone only reads pages; everything else needs the
session's second secret in a header, which pages of other sites can neither read nor send.
"""

from starlette.datastructures import Headers

from runrig.domain.errors import NotLoggedIn

STATIC = "/static/"
"""Files of the page: style, script, picture.  Anybody may read them."""
ENTRANCE = ("/login", "/logout", "/login/oidc", "/login/oidc/return")
"""Open paths: there a session begins, and ends."""
PAGES = ("/waiting", "/workflows", "/map", "/me")
"""Pages, besides the overview `/`."""
BELOW = ("/workflow/", "/pool/", "/node/", "/page/")
"""Where further pages begin, and what pages load."""
CSRF_HEADER = "x-csrf-token"
_SAFE = ("GET", "HEAD")
_OWN_PAGES = ("same-origin", "none")


def is_open(path: str) -> bool:
    return path in ENTRANCE or path.startswith(STATIC)


def is_page(path: str) -> bool:
    """True for what people look at, and for what pages load."""
    return path == "/" or path in PAGES or path.startswith(BELOW) or is_open(path)


def wants_page(method: str, headers: Headers) -> bool:
    """True if somebody looks at the answer: a program asks for no HTML."""
    return method in _SAFE and "text/html" in headers.get("accept", "")


def cookie_name(headers: Headers, scheme: str) -> str:
    """The name of the cookie of this server.  Cookies know no ports, and several servers may run on one machine."""
    if scheme == "https":
        return "__Host-runrig"
    return f"runrig-{headers.get('host', '').rpartition(':')[2]}"


def cookie(headers: Headers, scheme: str) -> str | None:
    """What the browser keeps for this server; None: nothing, or two things."""
    name = cookie_name(headers, scheme)
    pairs = [part.strip().partition("=") for part in "; ".join(headers.getlist("cookie")).split(";")]
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 and found[0] else None


def counts_alone(method: str, path: str, headers: Headers) -> bool:
    """True if a cookie is enough for this request: it only reads a page, and no other page asks for it.

    A link on another page is followed all the same: what it opens, that page cannot see.
    """
    if method not in _SAFE or not is_page(path):
        return False
    return headers.get("sec-fetch-site", "none") in _OWN_PAGES or headers.get("sec-fetch-mode") == "navigate"


def check_own_page(headers: Headers) -> None:
    """Raises NotLoggedIn if a page of another site made the browser ask.  Browsers that do not say so are judged by the rest."""
    asked_from = headers.get("sec-fetch-site", "none")
    if asked_from not in _OWN_PAGES:
        raise NotLoggedIn(
            f"a page of another site sent this request (Sec-Fetch-Site: {asked_from:.20}): use a page of this server"
        )
