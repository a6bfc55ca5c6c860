"""The natural sort order of names that contain numbers, and numbers as ranges."""

import re
from collections.abc import Iterable

_PARTS = re.compile(r"([^0-9]*)([0-9]{0,18})")

Key = tuple[tuple[tuple[str, int], ...], str]


def natural(name: str) -> Key:
    """A sort key that puts r9 before r10. Different names have different keys."""
    return tuple((text, int(number or 0)) for text, number in _PARTS.findall(name)), name


def ranged(numbers: Iterable[int]) -> list[str]:
    """*numbers*, which increase, with ranges for neighbours: ``3``, ``7-9``."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]
