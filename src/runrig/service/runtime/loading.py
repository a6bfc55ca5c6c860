"""What surrounds the loading of a state: a check of its rows, and no collector of garbage meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import ServerFault
from runrig.domain.records import Loaded
from runrig.engine.lifecycle.contradictions import contradiction


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside ``with`` no garbage is collected: a state is made of what stays, and looking for garbage takes as long as making it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def check_rows(loaded: Loaded) -> None:
    """Raises ServerFault if rows contradict each other: what is decided on them would make it worse."""
    if (found := contradiction(loaded)) is not None:
        raise ServerFault(
            f"the stored state is inconsistent ({found}). Restore a backup with `runrig restore` into an empty folder or "
            "database, or start with a new one"
        )
