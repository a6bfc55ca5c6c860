"""Owners of workflow folders: ``DATA/tasks/WORKFLOW/.uuid`` has the uuid of its workflow.

Workflow names repeat after a database was lost or restored; uuids do not. Files of another workflow must be neither
used nor overwritten, so its whole folder is moved to ``DATA/aside``. Folders of earlier versions have no such file.
"""

import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.backends.local.attempt import NO_FILE, folder_of
from runrig.domain.workflows import TaskKey

ASIDE = "aside"
_OWNER = ".uuid"


def owner_of(tasks: Path, workflow: str) -> str | None:
    """Returns the uuid of the folder's workflow; None without a folder or a uuid."""
    try:
        return supervisor.read(str(tasks / workflow / _OWNER)).decode("ascii", "replace") or None
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        return None


def own(tasks: Path, workflow: str, uuid: str) -> None:
    (tasks / workflow).mkdir(mode=0o700, exist_ok=True)
    supervisor.write(str(tasks / workflow / _OWNER), uuid.encode(), durable=False)


def belongs_to(tasks: Path, workflow: str, uuid: str, wanted: Iterable[TaskKey], *, alive: bool) -> bool:
    """Whether the folder of *workflow* belongs to *uuid* or has no owner.

    *wanted*: its attempts to run or stop. *alive*: some were unfinished when the server started. Together they
    distinguish a folder without an owner from a leftover one: an attempt that never began has no folder.
    """
    owner = owner_of(tasks, workflow)
    if owner is not None:
        return owner == uuid
    return alive or not any(os.path.lexists(folder_of(tasks, key)) for key in wanted)


def put_others_aside(folder: Path, uuids: Mapping[str, str]) -> list[Path]:
    """Moves folders of workflows other than *uuids* out of *folder*, which no server uses, and returns their new paths.

    Folders with possibly running attempts stay: the next server ends and moves them. Folders without an owner go by
    their name.
    """
    tasks, live = folder / "tasks", folder / "live"
    boots = [boot for boot in live.iterdir() if boot.is_dir()] if live.is_dir() else []
    alive = {marker.name.partition(":")[0] for boot in boots for marker in boot.iterdir()}  # Raises, unlike a glob.
    found = sorted(each.name for each in tasks.iterdir() if each.is_dir()) if tasks.is_dir() else []
    mine = {name for name in found if (owner_of(tasks, name) or uuids.get(name, "")) == uuids.get(name)}
    return [put_aside(tasks, name) for name in found if name not in mine and name not in alive]


def own_all(folder: Path, uuids: Mapping[str, str], *, but: Container[str]) -> None:
    """Records the owners of the workflow folders in *folder*, except those in *but*."""
    for name, uuid in uuids.items():
        if name not in but and (folder / "tasks" / name).is_dir():
            own(folder / "tasks", name, uuid)


def put_aside(tasks: Path, workflow: str) -> Path:
    """Moves the folder of *workflow*, in which nothing runs, and returns its new path."""
    aside = tasks.parent / ASIDE
    aside.mkdir(mode=0o700, exist_ok=True)
    number = 1
    while os.path.lexists(place := aside / f"{workflow}.{number}"):
        number += 1
    os.rename(tasks / workflow, place)
    return place
