"""Credentials of a task: files that exist while it runs, and variables that are on disk until it starts."""

import os
from collections.abc import Mapping
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.domain.errors import RunrigError
from runrig.ports.backend import Launch, Opens


def hand_over(folder: Path, launch: Launch, opens: Opens) -> tuple[dict[str, str], dict[str, str]]:
    """Writes the files into *folder*, that of the attempt. Returns (path as the task names it → real path, variables).

    Raises ValueError with a message, OSError.
    """
    paths: dict[str, str] = {}
    variables: dict[str, str] = {}
    for use in launch.credentials:
        try:
            values = opens(launch.user, use.name)
            variables |= {name: values[key] for name, key in use.variables.items()}
        except RunrigError as error:
            raise ValueError(error.message) from None
        except KeyError as error:
            raise ValueError(f"credential {use.name!r} of {launch.user} no longer has the key {error}") from None
        if use.path:
            paths |= _files(folder / supervisor.CREDENTIALS / use.name, use.path, values)
    return paths, variables


def _files(folder: Path, path: str, values: Mapping[str, str]) -> dict[str, str]:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700)
    for key, value in values.items():
        made = os.open(folder / key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(made, "w", encoding="utf-8", newline="") as file:
            file.write(value)
    return {path: str(folder)} | {f"{path}/{key}": str(folder / key) for key in values}
