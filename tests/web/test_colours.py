"""The colours of the page, as its style sheet has them."""

import re
from pathlib import Path

import pytest

from runrig import web

STATIC = Path(web.__file__).parent / "static"
SHEET, MAP = ((STATIC / name).read_text() for name in ("page.css", "map.js"))
LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\n *\}", SHEET, re.DOTALL)
)
MIXED = re.findall(r"52%, var\(--(\w+)\)|mixed\(own, colours\.(\w+), 0\.52\)", SHEET + MAP)
"""With what the colour of LOW work is mixed, in the bars and on the map."""


def luminance(colour: str, other: str = "#fff", part: float = 1.0) -> float:
    """Luminance of a mixture: *part* of *colour*, the rest *other*."""
    red, green, blue = (
        part * one + (1 - part) * two for one, two in zip(_channels(colour), _channels(other), strict=True)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> list[int]:
    digits = colour.removeprefix("#")
    digits = digits if len(digits) == 6 else "".join(digit * 2 for digit in digits)
    return [int(digits[at : at + 2], 16) for at in (0, 2, 4)]


@pytest.mark.parametrize("theme", [LIGHT, LIGHT | DARK], ids=["light", "dark"])
def test_low_work_is_paler_than_guaranteed_work_in_either_theme(theme: dict[str, str]) -> None:
    assert luminance(theme["low"]) > luminance(theme["firm"])
    assert len(MIXED) == 2
    for parts in MIXED:
        for hue in ("firm", "grey", *(f"c{number}" for number in range(9))):
            assert luminance(theme[hue], theme["".join(parts)], 0.52) > luminance(theme[hue])
