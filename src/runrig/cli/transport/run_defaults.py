"""Defaults for `runrig run`: ./runrig.toml, which a team commits, and run.yaml in the user's configuration folder.

runrig.toml comes with a clone, so it cannot name secrets, a server, or files outside its folder.
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runrig.cli.transport.failure import located
from runrig.client.folders import settings_folder
from runrig.domain.errors import InvalidInput
from runrig.spec.regular_file import regular_file

TOML = "runrig.toml"
OPTIONS = (
    *("gpus", "nodes", "min-nodes", "cpus", "memory", "in", "near", "image", "pool", "priority", "name", "time"),
    *("retry", "env", "code"),
)
"""Options of `runrig run` that can be in runrig.toml."""
_NOT_HERE = {
    "secret": "Use --secret on the command line",
    "server": "Use --server, RUNRIG_SERVER or `runrig login`",
    "data": "Use --data or RUNRIG_DATA",
    "detach": "Use -d on the command line",
    "attached": "Use --attached on the command line",
}


def of_folder(folder: Path) -> dict[str, Any]:
    """Returns the options in [run] of *folder*/runrig.toml; none without the file. Raises InvalidInput."""
    try:
        text = regular_file(folder / TOML).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.one(f"{TOML} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput.one(f"{TOML} is not valid TOML: {error}") from None
    found = whole.pop("run", {})
    if whole or not isinstance(found, dict):
        raise InvalidInput.one(f"{TOML} can have only a table [run] with options of `runrig run`")
    for name, value in found.items():
        _check(name, value)
    if not (folder / found.get("code", ".")).resolve().is_relative_to(folder.resolve()):
        raise InvalidInput.one(f"{TOML}: code {found['code']} leads out of this folder. Use --code on the command line")
    return found


def _check(name: str, value: object) -> None:
    if name in _NOT_HERE:
        raise InvalidInput.one(
            f"{TOML}: {name} cannot be set here, because the file comes with a clone. {_NOT_HERE[name]}"
        )
    if name not in OPTIONS:
        raise InvalidInput.one(f"{TOML}: unknown option {name!r} in [run] (options: {', '.join(OPTIONS)})")
    fits, expected = _KINDS.get(name, (_is_word, "text or a number"))
    if not fits(value):
        raise InvalidInput.one(f"{TOML}: {name} must be {expected}, not {value!r:.60}")


def _is_word(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_environment(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "env": (_is_environment, 'a table of text, such as {SEED = "1"}'),
    "code": (lambda value: isinstance(value, str), 'a folder inside this one, or "none"'),
}


def image_of_user() -> str | None:
    """Returns ``run: {image: IMAGE}`` of run.yaml; None if it is not set. Raises InvalidInput for an invalid file."""
    file = settings_folder() / "run.yaml"
    try:
        text = regular_file(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    from runrig.spec.fields import Fields, read_file

    def image_in(fields: Fields) -> str | None:
        return fields["run"].fields("run", ("image",))["image"].text()

    with located(str(file)):
        return read_file(text, str(file), ("run",), image_in, what="a settings file")
