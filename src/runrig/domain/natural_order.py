"""The order in which people expect names with numbers in them."""

import re

_PARTS = re.compile(r"([^0-9]*)([0-9]{0,18})")

Key = tuple[tuple[tuple[str, int], ...], str]


def natural(name: str) -> Key:
    """A sort key by which r9 comes before r10.  Different names have different keys."""
    return tuple((text, int(number or 0)) for text, number in _PARTS.findall(name)), name
