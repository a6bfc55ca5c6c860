"""Values of the file of `runrig serve` that can contain a password: as text, or in a file or a variable of the environment."""

import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runrig.spec.fields import Field

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Secrets:
    """*mode*: the permissions of the file that is read. *file*: returns a readable file that a field names; None without one."""

    environment: Mapping[str, str]
    mode: int
    file: Callable[[Field], Path | None]

    def url(self, field: Field, name: str, what: str) -> tuple[Field, str] | None:
        """Returns the URL of *field*, with the field that has its errors; None without one. *name*: of the field; *what*: it is of."""
        if isinstance(field.node.value, Mapping):
            return self._elsewhere(field, name, what)
        text = field.text()
        if text is None:
            return None
        if self.mode & (stat.S_IRWXG | stat.S_IRWXO) and has_password(text):
            field.wrong(
                f"it contains a password, and other users can read this file. Run `chmod 600` on it, or use {name}: {{file: FILE}}."
            )
        return field, text

    def _elsewhere(self, found: Field, name: str, what: str) -> tuple[Field, str] | None:
        inner = found.fields(name, ("file", "env"))
        file, variable = inner["file"], inner["env"]
        if bool(file) == bool(variable):
            found.wrong("use a URL, {file: FILE} or {env: NAME}")
            return None
        if file:
            path = self.file(file)
            if path is None:
                return None
            if path.stat().st_mode & stat.S_IRWXO:
                file.wrong(f"{path} is readable by all users of this machine. Run `chmod 600 {path}`")
            try:
                return file, path.read_text(encoding="utf-8-sig").strip()
            except (OSError, UnicodeDecodeError):
                file.wrong(f"{path} is not a text file. Write only the URL of the {what} into it.")
                return None
        called = variable.text()
        if called is None:
            return None
        if not _VARIABLE.fullmatch(called) or not self.environment.get(called):
            variable.wrong(f"environment variable {called!r} is not set. Set it to the URL of the {what}")
            return None
        return variable, self.environment[called]


def has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None or "password=" in url
    except ValueError:
        return True
