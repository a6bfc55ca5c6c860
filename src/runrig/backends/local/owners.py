"""Whose the folder of a workflow is: ``DATA/tasks/WORKFLOW/.uuid`` holds the uuid of the workflow that it was made for.

Names of workflows come again when a database was lost, or an earlier one was restored; uuids do not.  What an attempt of another
workflow left behind must not be taken for the attempt that is wanted, and is not overwritten: its whole folder is moved to
``DATA/aside``.  Folders made by earlier versions have no such file.
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
    """The uuid of the workflow that its folder was made for; None if there is no folder, or it does not say."""
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
    """True if the folder of *workflow* is that of *uuid*, or nobody's yet.

    *wanted*: attempts of it that are to run or to stop.  *alive*: some were not done with when the server started.  By these two a
    folder without an owner is told from one that is left over: nothing is in the place of an attempt that never began.
    """
    owner = owner_of(tasks, workflow)
    if owner is not None:
        return owner == uuid
    return alive or not any(os.path.lexists(folder_of(tasks, key)) for key in wanted)


def put_others_aside(folder: Path, uuids: Mapping[str, str]) -> list[Path]:
    """Moves what other workflows than those of *uuids* left in data folder *folder*, where no server runs; returns where it is now.

    What may still run stays: the next server ends it, and moves it then.  Folders that do not say whose they are go by the name.
    """
    tasks = folder / "tasks"
    alive = {marker.name.partition(":")[0] for marker in (folder / "live").glob("*/*")}
    found = sorted(each.name for each in tasks.iterdir() if each.is_dir()) if tasks.is_dir() else []
    mine = {name for name in found if (owner_of(tasks, name) or uuids.get(name, "")) == uuids.get(name)}
    return [put_aside(tasks, name) for name in found if name not in mine and name not in alive]


def own_all(folder: Path, uuids: Mapping[str, str], *, but: Container[str]) -> None:
    """Notes whose the folders of workflows are that there are in data folder *folder*, but those of *but*."""
    for name, uuid in uuids.items():
        if name not in but and (folder / "tasks" / name).is_dir():
            own(folder / "tasks", name, uuid)


def put_aside(tasks: Path, workflow: str) -> Path:
    """Moves the folder of *workflow*, in which nothing runs any more, and returns where it is now."""
    aside = tasks.parent / ASIDE
    aside.mkdir(mode=0o700, exist_ok=True)
    number = 1
    while os.path.lexists(place := aside / f"{workflow}.{number}"):
        number += 1
    os.rename(tasks / workflow, place)
    return place
