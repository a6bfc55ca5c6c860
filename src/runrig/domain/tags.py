"""Tags of declared objects: two records have the same tag if and only if they are equal.

An edit sends the tag of the record that it is based on, and is rejected if the record has changed since.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import fields

from runrig.domain.access import GrantRow, TokenRow, User
from runrig.domain.credentials import Credential
from runrig.domain.errors import Changed
from runrig.domain.nodes import Node
from runrig.domain.pools import Cohort, Pool

Expected = frozenset[str] | None
"""The tags that an edit accepts; None: any."""

Declared = Pool | Cohort | Node | User | GrantRow | TokenRow | Credential | tuple[str, ...]
"""An object with a tag. A tuple: the tags that users put on a workflow."""

_NOT_DECLARED = {"last_used_at"}


def tag_of(record: Declared) -> str:
    written: object = record
    if not isinstance(record, tuple):
        names = [field.name for field in fields(record) if field.name not in _NOT_DECLARED]
        written = [(name, _ordered(getattr(record, name))) for name in names]
    return hashlib.sha256(repr(written).encode()).hexdigest()[:16]


def etag_of(record: Declared) -> str:
    """The tag in the form of an ETag header."""
    return f'"{tag_of(record)}"'


def check_unchanged(expected: Expected, record: Declared, what: str) -> None:
    """Raises Changed if the tag of *record* is not in *expected*. *what*: the record in words, such as `pool vision`."""
    if expected is not None and tag_of(record) not in expected:
        raise Changed(f"{what} has changed since you read it. Read it again and send its new ETag")


def _ordered(value: object) -> object:
    return sorted(value.items()) if isinstance(value, Mapping) else value
