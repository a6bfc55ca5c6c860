"""Tags of what was declared: two records have the same tag if nothing differs between them.

An edit carries the tag of the record that was read, and is refused if the record has changed since.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import fields

from runrig.domain.access import User
from runrig.domain.credentials import Credential
from runrig.domain.errors import Changed
from runrig.domain.pools import Cohort, Pool

Expected = frozenset[str] | None
"""The tags that an edit is made for; None: whatever there is."""


def tag_of(record: Pool | Cohort | User | Credential) -> str:
    written = [(field.name, _ordered(getattr(record, field.name))) for field in fields(record)]
    return hashlib.sha256(repr(written).encode()).hexdigest()[:16]


def check_unchanged(expected: Expected, record: Pool | Cohort | User | Credential) -> None:
    """Raises Changed."""
    if expected is not None and tag_of(record) not in expected:
        raise Changed(
            f"{type(record).__name__.lower()} {record.name} has changed since you read it: read it again, and send the ETag that "
            "comes with it"
        )


def _ordered(value: object) -> object:
    return sorted(value.items()) if isinstance(value, Mapping) else value
