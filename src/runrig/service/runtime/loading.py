"""Loads a state: checks its rows, and pauses garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from runrig.domain.errors import ServerFault
from runrig.domain.records import Loaded
from runrig.engine.lifecycle.contradictions import contradiction


@contextmanager
def uncollected() -> Iterator[None]:
    """Pauses garbage collection: all objects of a state stay, and collecting would take as long as loading."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def check_rows(loaded: Loaded) -> None:
    """Raises ServerFault for contradictory rows, because decisions based on them would make it worse."""
    if (found := contradiction(loaded)) is not None:
        raise ServerFault(
            f"the stored state is inconsistent ({found}). Restore a backup with `runrig restore` into an empty folder or "
            "database, or start with a new one"
        )
