"""Credentials: secret values that tasks of their owner can use. They are stored encrypted.

Names and fields follow the rules of the osmo client. No message of this module contains a value.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.value import Word

LONGEST_NAME = 64
LONGEST_KEY = 128
MOST_KEYS = 64
LARGEST = 64 * 1024
"""The maximum size of all values of a credential together, in bytes."""
KEY_BYTES = 32


class CredentialKind(Word):
    """GENERIC has arbitrary keys, REGISTRY is for pulling images, and DATA is for object stores."""

    GENERIC = "GENERIC"
    REGISTRY = "REGISTRY"
    DATA = "DATA"


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential. *keys*: the names of its values. *profile*: the registry or the address of the data; "" if it has neither.

    *sealed*: the encrypted values; "" if they are missing, as after `restore`.
    """

    user: str
    name: str
    kind: CredentialKind
    keys: tuple[str, ...]
    profile: str
    changed_at: float
    sealed: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CredentialUse:
    """How a task uses the credential *name*: as files in the folder *path*, or as environment variables.

    *variables*: name of the variable → key. Either *path* or *variables* is empty.
    """

    name: str
    path: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_FIELDS: Mapping[CredentialKind, tuple[frozenset[str], frozenset[str]]] = {
    CredentialKind.REGISTRY: (frozenset({"auth"}), frozenset({"registry", "username"})),
    CredentialKind.DATA: (
        frozenset({"access_key_id", "access_key", "endpoint"}),
        frozenset({"region", "override_url", "addressing_style"}),
    ),
}
"""The required fields of a credential, and the optional ones."""
_PROFILES = {CredentialKind.REGISTRY: "registry", CredentialKind.DATA: "endpoint"}
"""The field that identifies what the credential is for. It is not secret."""
_PLAIN: Mapping[CredentialKind, frozenset[str]] = {
    CredentialKind.REGISTRY: frozenset({"registry", "username"}),
    CredentialKind.DATA: frozenset({"endpoint", "region", "addressing_style"}),
}
"""The fields that are not secret."""


def name_problem(name: str) -> str | None:
    """Why *name* is not a valid name of a credential; None if it is."""
    if len(name) > LONGEST_NAME:
        return f"credential name is too long ({len(name)} characters, maximum {LONGEST_NAME})"
    if not _NAME.fullmatch(name):
        return f"credential {name!r} must be letters, digits, '-' and '_', start with a letter, and end with a letter or digit"
    return None


def check_values(kind: CredentialKind, values: Mapping[str, str]) -> None:
    """Raises InvalidInput with everything that is wrong with *values*."""
    problems = [*_key_problems(kind, values)]
    for key, value in values.items():
        if not value or "\0" in value:
            problems.append(Problem(f"value of {key!r:.80} is empty or has a NUL character", f"values.{key:.80}"))
    size = sum(len(value.encode("utf-8", "surrogatepass")) for value in values.values())
    if size > LARGEST:
        problems.append(Problem(f"the values are too large ({size} bytes, maximum {LARGEST})", "values"))
    profile = values.get(_PROFILES.get(kind, ""), "")
    if "@" in profile or not profile.isprintable() or len(profile) > 1000:
        problems.append(
            Problem(f"{_PROFILES[kind]} is shown in lists, so it must not contain a user or password", "values")
        )
    if problems:
        raise InvalidInput(tuple(problems))


def _key_problems(kind: CredentialKind, values: Mapping[str, str]) -> list[Problem]:
    if not values or len(values) > MOST_KEYS:
        return [Problem(f"a credential must have 1 to {MOST_KEYS} values, but this one has {len(values)}", "values")]
    problems = [
        Problem(f"key {key!r:.80} must be letters, digits, '-', '_' and '.', at most {LONGEST_KEY}", "values")
        for key in values
        if len(key) > LONGEST_KEY or not _KEY.fullmatch(key)
    ]
    needed, allowed = _FIELDS.get(kind, (frozenset(), frozenset(values)))
    if missing := sorted(needed - set(values)):
        problems.append(Problem(f"a credential of type {kind.value} needs {', '.join(missing)}", "values"))
    if unknown := sorted(set(values) - needed - allowed):
        known = ", ".join(sorted(needed | allowed))
        problems.append(
            Problem(f"a credential of type {kind.value} has no {unknown[0]!r:.80}: it has {known}", "values")
        )
    return problems


def profile_of(kind: CredentialKind, values: Mapping[str, str]) -> str:
    return values.get(_PROFILES.get(kind, ""), "").rstrip("/")


def secrets_of(kind: CredentialKind, values: Mapping[str, str], use: CredentialUse) -> set[str]:
    """The secret values that *use* passes to a task."""
    keys = set(values) if use.path else set(use.variables.values())
    return {values[key] for key in keys.intersection(values) - _PLAIN.get(kind, frozenset())}


# ---------------------------------------------------------------- the file with the keys


def read_keys(text: str) -> tuple[bytes, ...]:
    """Reads a key file: one key per line in base64, newest first. Raises ValueError; its message does not contain a key."""
    keys = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            key = base64.b64decode(line.strip(), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError(f"line {number} is not a key ({KEY_BYTES} bytes in base64)")
        keys.append(key)
    if not keys:
        raise ValueError("it is empty")
    return tuple(keys)


def written_keys(keys: tuple[bytes, ...]) -> str:
    """The text of a key file."""
    return "".join(f"{base64.b64encode(key).decode()}\n" for key in keys)
