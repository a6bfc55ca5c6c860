"""Loads a state: checks its rows, reads the latest events, and pauses garbage collection."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from runrig.domain.errors import ServerFault
from runrig.domain.records import Event, Loaded
from runrig.engine.lifecycle.contradictions import contradiction
from runrig.ports.store import Store

BACK, ENOUGH = (25, 100, 400), 1_000
"""How many revisions to read back, until there are so many events. A revision can have thousands."""


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


def latest_events(store: Store, revision: int) -> Sequence[Event]:
    """Returns all events of the last revisions up to *revision*. An unreadable one ends them: decisions do not need it, and who asks
    for it gets the error.
    """
    found: Sequence[Event] = ()
    with suppress(ServerFault):
        for back in BACK:
            if len(found) < ENOUGH:
                found = store.log.events(after=revision - back)
    return found
