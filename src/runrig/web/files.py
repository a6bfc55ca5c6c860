"""Style and script files for browser caches, under names that change with their content."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

from fastapi import Response

from runrig.domain.errors import NotFound
from runrig.http.browsers import STATIC
from runrig.http.permissions import OPEN
from runrig.http.routing import Found
from runrig.web.routes import router

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_COMMENT = re.compile(rb"^ *(//|/\*).*$", re.MULTILINE)
"""A line that is a comment. Browsers get an empty one, so that line numbers in their messages are right."""
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class File:
    plain: bytes
    zipped: bytes
    media_type: str


def zipped(text: bytes) -> bytes:
    return gzip.compress(text, 6, mtime=0)


def _read() -> dict[str, File]:
    """A script `name.part.js` is sent as part of `name.js`, so that a page does not need another request for it."""
    found: dict[str, bytes] = {}
    for each in sorted(files(__package__).joinpath("static").iterdir(), key=lambda each: each.name):
        if each.is_file():
            name, ending = each.name.partition(".")[0], each.name[each.name.rindex(".") :]
            found[name + ending] = found.get(name + ending, b"") + _COMMENT.sub(b"", each.read_bytes())
    return {name: File(text, zipped(text), _TYPES[name[name.rindex(".") :]]) for name, text in found.items()}


_FILES = _read()
TAG = hashlib.sha256(b"\0".join(name.encode() + b"\0" + each.plain for name, each in _FILES.items())).hexdigest()[:12]
"""Changes with each release that changes any of the files."""


def address(name: str) -> str:
    assert name in _FILES, name
    return f"{STATIC}{TAG}/{name}"


Zips = Annotated[bool, Found(lambda request: "gzip" in request.headers.get("accept-encoding", ""))]
"""Whether the browser accepts gzip."""


@router.get("/static/{tag}/{name}", dependencies=[OPEN])
def static_file(zips: Zips, tag: str, name: str) -> Response:
    file = _FILES.get(name)
    if file is None or tag != TAG:
        raise NotFound(f"file {name!r:.80} does not belong to this version. Reload the page")
    headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if zips else {})
    return Response(file.zipped if zips else file.plain, headers=headers, media_type=file.media_type)
