"""A client of a runrig server.

    from runrig.client import Client

    with Client() as client:
        workflow = client.workflows.submit(Path("train.yaml"), pool="vision")
        print(client.workflows.why(workflow.id).sentence)

`Client` blocks, `AsyncClient` is awaited. `models` has the requests and responses. All errors are RunrigErrors; their
classes are in `runrig.domain.errors`.
"""

from typing import TYPE_CHECKING, Any

from runrig.domain.errors import (
    Changed,
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Problem,
    Refused,
    RunrigError,
    ServerFault,
    TooMany,
    Unavailable,
)

if TYPE_CHECKING:
    from runrig.client import models as models
    from runrig.client.calls.cluster import Commit as Commit
    from runrig.client.clients import AsyncClient as AsyncClient
    from runrig.client.clients import Client as Client
    from runrig.client.failure import NoAnswer as NoAnswer

__all__ = [
    "AsyncClient",
    "Changed",
    "Client",
    "Commit",
    "Conflict",
    "InvalidInput",
    "NoAnswer",
    "NotAllowed",
    "NotFound",
    "NotLoggedIn",
    "Problem",
    "Refused",
    "RunrigError",
    "ServerFault",
    "TooMany",
    "Unavailable",
    "models",
]

_HOMES = {
    "AsyncClient": "runrig.client.clients",
    "Client": "runrig.client.clients",
    "Commit": "runrig.client.calls.cluster",
    "NoAnswer": "runrig.client.failure",
}


def __getattr__(name: str) -> Any:
    """Lazy, because the command line imports only parts of this package."""
    from importlib import import_module

    if name == "models":
        return import_module("runrig.client.models")
    if name not in _HOMES:
        raise AttributeError(f"runrig.client has no {name!r}")
    return getattr(import_module(_HOMES[name]), name)
