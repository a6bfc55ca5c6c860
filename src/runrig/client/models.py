"""What goes to a server and comes back: the models of `/api/v1`, imported when the first of them is used.

They take three times as long to import as all the rest of the client, because they need pydantic; the shown values among them need it
when they are read.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runrig.domain.shown import *  # noqa: F403
    from runrig.wire import ApplyAnswer as ApplyAnswer
    from runrig.wire import RenderAnswer as RenderAnswer
    from runrig.wire.v1 import *  # noqa: F403


def __getattr__(name: str) -> Any:
    from runrig import wire
    from runrig.domain import shown
    from runrig.wire import v1

    for module in (shown, v1, wire):
        found = getattr(module, name, None)
        if isinstance(found, type):
            return found
    raise AttributeError(f"unknown model {name!r}")
