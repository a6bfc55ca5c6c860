"""Requests and responses of `/api/v1`: models that are imported on first use.

They need pydantic, so importing them takes three times as long as the rest of the client.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runrig.domain.shown import *  # noqa: F403
    from runrig.wire.v1 import *  # noqa: F403


def __getattr__(name: str) -> Any:
    from runrig.domain import shown
    from runrig.wire import v1

    for module in (shown, v1):
        found = getattr(module, name, None)
        if isinstance(found, type) and found.__module__.startswith("runrig."):
            return found
    raise AttributeError(f"unknown model {name!r}")
