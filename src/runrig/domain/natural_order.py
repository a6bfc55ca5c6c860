"""The natural sort order of names that contain numbers."""

import re

_PARTS = re.compile(r"([^0-9]*)([0-9]{0,18})")

Key = tuple[tuple[tuple[str, int], ...], str]


def natural(name: str) -> Key:
    """A sort key that puts r9 before r10. Different names have different keys."""
    return tuple((text, int(number or 0)) for text, number in _PARTS.findall(name)), name
