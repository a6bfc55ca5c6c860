"""What the guard knows of browsers: which paths are pages, and when a cookie counts.

A browser sends its cookie wherever a page makes it send a request.  So a cookie alone only reads pages; everything else needs the
session's second secret, which pages of other sites cannot read: in a header, or as the first field of a form of a page.
"""

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from runrig.domain.errors import NotLoggedIn

STATIC = "/static/"
"""Files of the page: style, script, picture.  Anybody may read them."""
ENTRANCE = ("/login", "/logout", "/login/oidc", "/login/oidc/return")
"""Open paths: there a session begins, and ends."""
PAGES = ("/waiting", "/workflows", "/map", "/me", "/submit")
"""Pages, besides the overview `/`."""
BELOW = ("/workflow/", "/pool/", "/node/", "/page/")
"""Where further pages begin, and what pages load."""
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
"""The first field of a form."""
FORM = "application/x-www-form-urlencoded"
LONGEST_FIRST_FIELD = 200
"""Bytes."""
_SAFE = ("GET", "HEAD")
_OWN_PAGES = ("same-origin", "none")


def is_open(path: str) -> bool:
    return path in ENTRANCE or path.startswith(STATIC)


def is_page(path: str) -> bool:
    """True for what people look at, and for what pages load."""
    return path == "/" or path in PAGES or path.startswith(BELOW) or is_open(path)


def wants_page(headers: Headers) -> bool:
    """True if somebody looks at the answer: a program asks for no HTML."""
    return "text/html" in headers.get("accept", "")


def cookie_name(headers: Headers, scheme: str) -> str:
    """The name of the cookie of this server.  Cookies know no ports, and several servers may run on one machine."""
    if scheme == "https":
        return "__Host-runrig"
    return f"runrig-{headers.get('host', '').rpartition(':')[2]}"


def cookie(headers: Headers, scheme: str) -> str | None:
    """Returns what the browser keeps for this server; None: nothing, or two things."""
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
            f"this request came from a page of another site (Sec-Fetch-Site: {asked_from:.20}). Use a page of this server"
        )


async def second_secret(method: str, path: str, headers: Headers, receive: Receive) -> tuple[str, Receive]:
    """The session's second secret as the request has it, "" if it has none; and what is received, from its beginning again.

    Of the body of a form only as much is read as that takes.
    """
    is_form = method == "POST" and is_page(path) and headers.get("content-type", "").partition(";")[0].strip() == FORM
    if CSRF_HEADER in headers or not is_form:
        return headers.get(CSRF_HEADER, ""), receive
    read: list[Message] = []
    begun = b""
    while b"&" not in begun and len(begun) < LONGEST_FIRST_FIELD:
        read.append(message := await receive())
        begun += message.get("body", b"")
        if not message.get("more_body", False):
            break

    async def again() -> Message:
        return read.pop(0) if read else await receive()

    name, _, value = begun[:LONGEST_FIRST_FIELD].partition(b"&")[0].decode("latin-1").partition("=")
    return value if name == CSRF_FIELD else "", again
