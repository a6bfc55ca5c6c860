"""Code that is sent along with workflows: what the server lacks of it, its contents, and the code of a workflow."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Any

from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.code import POD_CODE
from runrig.domain.code_archive import archive
from runrig.domain.errors import NotFound, ServerFault
from runrig.domain.shown.code import CodeReceived
from runrig.http.body_limits import LARGEST_CODE
from runrig.http.crowd import Guest
from runrig.http.permissions import OPEN, Asking, needs, workflow
from runrig.http.routing import Asked, Serving, User
from runrig.ports.disk import is_full

router = Router("workflows")

GZIP = "application/gzip"
IN_MEMORY = 1024 * 1024
"""Bytes of a request that are kept in memory; the rest is in a temporary file."""
_SEND = needs(Permission.SEND_CODE)
_HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_MANIFEST = {"files": [["train.py", False, _HASH, 4]], "links": []}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": _MANIFEST},
            GZIP: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router("HEAD /api/v1/code/{id}", _SEND)
def check_code(service: Serving, user: User, id: str) -> None:
    """Check whether you have sent this code.

    204 if you have: a workflow can use it during the next day. 404 if you have not, even if others have.
    """
    service.codes.renew(user, id)


@router("POST /api/v1/code", _SEND, errors=(409, 413), openapi_extra=_BODY)
async def send_code(service: Serving, user: User, request: Asked) -> CodeReceived:
    """Send code.

    The body is a manifest: files as path, executable, SHA-256 and size, and links as path and target, both sorted
    by path. The answer lists the contents that you have not sent yet. To send them, append to the manifest a
    newline, a JSON list of their SHA-256 and a newline, then the contents in that order. The body may be compressed
    with gzip. Nothing is stored until nothing is missing. Code that no workflow uses is deleted after a day.
    """
    with _temporary_files(), SpooledTemporaryFile(IN_MEMORY) as body:
        await _receive(request, body)
        return CodeReceived(*await run_in_threadpool(service.codes.receive, user, body))


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Says so if there is no room for them."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise ServerFault(
                "the disk for temporary files of the server is full, so nothing was stored. Free some space and try again"
            ) from error
        raise


@router(f"GET {POD_CODE}", OPEN, text="(a tar file)", media_type=GZIP, errors=(401, 404))
async def fetch_pod_code(service: Serving, request: Asked) -> Response:
    """Download the code of a pod.

    For init containers on Kubernetes. The token is the one that the API server of the cluster issued for the pod.
    Returns a tar file, compressed with gzip.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    with _temporary_files():
        given = token.strip() if scheme.lower() == "bearer" else ""
        user, pieces = await run_in_threadpool(service.codes.fetched, given)
    guest: Guest | None = getattr(request.state, "guest", None)
    if guest is not None:
        guest.shows(user)  # Otherwise the connection is closed after some seconds, whatever it sends.
    return StreamingResponse(pieces, media_type=GZIP)


async def _receive(request: Request, body: SpooledTemporaryFile[bytes]) -> None:
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > LARGEST_CODE:
                raise HTTPException(413, f"the code is larger than {LARGEST_CODE // 1024 // 1024} MiB. Send less")
            body.write(piece)
    except ClientDisconnect:
        raise HTTPException(400) from None
    body.seek(0)


@router(
    "GET /api/v1/workflows/{id}/code",
    needs(Permission.CHANGE_WORKFLOW, workflow("id")),
    text="(a tar file)",
    media_type=GZIP,
)
def get_workflow_code(service: Serving, asker: Asking, id: str) -> Response:
    """Download the code that was sent with a workflow.

    A tar file, compressed with gzip. Like the values and files in `spec`, only the owner and the pool's admins can
    read it.
    """
    head = asker.head(id)
    code = service.workflow_queries.spec(head.id).spec.code
    if code is None:
        raise NotFound(f"{head.id} has no code: none was sent with it")
    found = service.codes.code(head.submitted_by, code)
    for hash in found.manifest.contents:
        found.read(hash)  # Damage is reported before the response begins.
    headers = {"content-disposition": f'attachment; filename="{head.id}.tar.gz"'}
    return StreamingResponse(archive(found.manifest, found.read), media_type=GZIP, headers=headers)
