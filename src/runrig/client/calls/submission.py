"""The body of a submission."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runrig.client import localpath
from runrig.domain.errors import InvalidInput


def file_fields(file: str | Path, variables: Mapping[str, object] | None) -> dict[str, Any]:
    """Returns the fields of the workflow file and of its template. Raises InvalidInput if a file, or one that it names, cannot be read."""
    text = _text(file) if isinstance(file, Path) else file
    plain, strings = [], []
    for name, value in (variables or {}).items():
        if isinstance(value, str):
            strings.append(f"{name}={value}")
        else:
            plain.append(f"{name}={json.dumps(value)}")
    return {"file": text, "variables": plain, "string_variables": strings}


def _text(file: Path) -> str:
    try:
        return localpath.inlined(file.read_text(encoding="utf-8-sig"), file.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.one(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def settings(
    priority: str | None,
    environment: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    retry: str | None = None,
    after: Sequence[str] = (),
    array: str | None = None,
    sweep: Sequence[str] = (),
    most: int | None = None,
) -> dict[str, Any]:
    """Returns the other fields, without those that are not given."""
    said = {
        "priority": priority,
        "environment": dict(environment or {}),
        "labels": dict(labels or {}),
        "retry": retry,
        "after": list(after),
        "array": array,
        "sweep": list(sweep),
        "most": most,
    }
    return {name: value for name, value in said.items() if value not in (None, {}, [])}
