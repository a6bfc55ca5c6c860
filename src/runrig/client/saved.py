"""Logins saved by `runrig login`: a token per server, and the last server used.

One file in the user's configuration folder, which is never readable for others.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runrig.client.folders import settings_folder
from runrig.domain.errors import ServerFault
from runrig.spec.regular_file import regular_file

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Renewal:
    """How to renew the token of a sign-in. *begun_at*, *ends_at*: its lifetime by the clock of this machine."""

    refresh_token: str = field(repr=False)
    begun_at: float
    ends_at: float


@dataclass(frozen=True, slots=True)
class Logins:
    """*current*: the default server. *tokens* and *renewals*: by `key_of` the server."""

    current: str | None = None
    tokens: dict[str, str] = field(default_factory=dict, repr=False)
    renewals: dict[str, Renewal] = field(default_factory=dict, repr=False)

    def token(self, url: str) -> str | None:
        return self.tokens.get(key_of(url))

    def renewal(self, url: str) -> Renewal | None:
        """Returns None for a token that is not renewed."""
        return self.renewals.get(key_of(url))

    def with_token(self, url: str, token: str, renewal: Renewal | None = None) -> "Logins":
        """Returns the logins with *token* for the server *url*, which becomes the default."""
        rest = self.without(url)
        renewals = {**rest.renewals, key_of(url): renewal} if renewal is not None else rest.renewals
        return Logins(url, {**rest.tokens, key_of(url): token}, renewals)

    def without(self, url: str) -> "Logins":
        tokens = {key: token for key, token in self.tokens.items() if key != key_of(url)}
        renewals = {key: renewal for key, renewal in self.renewals.items() if key != key_of(url)}
        current = None if self.current is not None and key_of(self.current) == key_of(url) else self.current
        return Logins(current, tokens, renewals)


def key_of(url: str) -> str:
    """Returns the same key for all spellings of one server's address."""
    parts = urlsplit(url)
    port = parts.port or PORTS.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}{parts.path.rstrip('/')}"


def file() -> Path:
    return settings_folder() / "logins.json"


def read() -> Logins:
    """Returns the saved logins, or none if there is no readable file."""
    try:
        plain = json.loads(regular_file(file()).read_text(encoding="utf-8"))
        current, tokens = plain["current"], plain["tokens"]
    except (OSError, ValueError, KeyError, TypeError):
        return Logins()
    if not isinstance(tokens, dict) or not (current is None or isinstance(current, str)):
        return Logins()
    return Logins(current, {str(key): str(token) for key, token in tokens.items()}, _renewals(plain.get("renewals")))


def _renewals(plain: object) -> dict[str, Renewal]:
    found = {}
    for key, each in plain.items() if isinstance(plain, dict) else ():
        try:
            found[key] = Renewal(str(each["refresh_token"]), float(each["begun_at"]), float(each["ends_at"]))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def write(logins: Logins) -> Path:
    """Writes *logins* and returns the file. Raises ServerFault if it cannot be written."""
    plain: dict[str, Any] = {"current": logins.current, "tokens": logins.tokens}
    if logins.renewals:
        plain["renewals"] = {key: asdict(each) for key, each in logins.renewals.items()}
    return write_private(file(), json.dumps(plain, indent=2) + "\n", "set RUNRIG_TOKEN")


def write_private(target: Path, text: str, otherwise: str) -> Path:
    """Writes a file that only this user can read, and returns *target*. *otherwise*: what to do if that is impossible.

    Raises ServerFault.
    """
    partial = target.with_name(f"{target.name}.{os.urandom(4).hex()}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ServerFault(
            f"{target} cannot be written ({error.strerror}): grant yourself write permission on its folder, or {otherwise}"
        ) from error
    return target
