"""Browser requests: which paths are pages, and when a cookie is sufficient.

A browser sends its cookie with every request, including requests caused by other sites. So a cookie alone only allows
reading pages. Everything else requires the session's second secret, which other sites cannot read, in a header or as
the first field of a form.
"""

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from runrig.domain.errors import NotLoggedIn
from runrig.http.body_limits import again

STATIC = "/static/"
"""Files of the page: style, script, picture. They are public."""
ENTRANCE = ("/login", "/logout", "/login/oidc", "/login/oidc/return")
"""Open paths, where sessions begin and end."""
PAGES = ("/find", "/usage", "/waiting", "/workflows", "/map", "/me", "/run", "/submit", "/apply", "/limits", "/access")
"""Pages other than the overview `/`."""
BELOW = ("/me/", "/access/", "/limits/", "/workflow/", "/workflows/", "/pool/", "/node/", "/page/")
"""Prefixes of further pages, and of the data that pages load."""
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
    """Returns True for pages and for what they load."""
    return path == "/" or path in PAGES or path.startswith(BELOW) or is_open(path)


def wants_page(headers: Headers) -> bool:
    """Whether the client is a browser that shows the response; programs do not request HTML."""
    return "text/html" in headers.get("accept", "")


def cookie_name(headers: Headers, scheme: str) -> str:
    """Returns the name of this server's cookie. Cookies ignore ports, and several servers may run on one machine."""
    if scheme == "https":
        return "__Host-runrig"
    return f"runrig-{headers.get('host', '').rpartition(':')[2]}"


def cookie(headers: Headers, scheme: str) -> str | None:
    """Returns the cookie for this server; None if there is none or more than one."""
    name = cookie_name(headers, scheme)
    pairs = [part.strip().partition("=") for part in "; ".join(headers.getlist("cookie")).split(";")]
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 and found[0] else None


def counts_alone(method: str, path: str, headers: Headers) -> bool:
    """Whether a cookie is sufficient: the request only reads a page and does not come from another site's page.

    Links from other sites work, because those sites cannot read the page that opens.
    """
    if method not in _SAFE or not is_page(path):
        return False
    return headers.get("sec-fetch-site", "none") in _OWN_PAGES or headers.get("sec-fetch-mode") == "navigate"


def check_own_page(headers: Headers) -> None:
    """Raises NotLoggedIn if a page of another site caused the request. Requests from browsers that do not send this
    information are judged by other headers.
    """
    asked_from = headers.get("sec-fetch-site", "none")
    if asked_from not in _OWN_PAGES:
        raise NotLoggedIn(
            f"this request came from a page of another site (Sec-Fetch-Site: {asked_from:.20}). Use a page of this server"
        )


async def second_secret(method: str, path: str, headers: Headers, receive: Receive) -> tuple[str, Receive]:
    """Returns (the session's second secret, "" if there is none; a function that receives the body from its beginning).

    Reads no more of a form than necessary.
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
    name, _, value = begun[:LONGEST_FIRST_FIELD].partition(b"&")[0].decode("latin-1").partition("=")
    return value if name == CSRF_FIELD else "", again(read, receive)
