"""Masks secrets in the output of tasks."""

import re
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import quote

MASK = "***"
SHORTEST = 4
"""Characters of the shortest secret, or line of a secret, that is masked. Shorter ones occur in ordinary words."""
MOST_WORK = 1 << 30
"""Characters of a text times spellings to search for. Above this limit the whole text is masked instead."""

_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
"""How JSON and many languages escape characters in strings."""
_BEYOND_ASCII = re.compile(r"[^\0-\x7f]")


def masked(parts: Sequence[str], secrets: Collection[str]) -> list[str]:
    """*parts* of one text, each a line or a piece of one, with `MASK` in place of *secrets*. Line ends are kept.

    A secret is also found across parts, overlapping another one, or quoted as in Python, JSON or a URL. Each line of a
    multi-line secret is masked too. O(text × secrets).
    """
    text = "".join(parts)
    sought = {each for secret in secrets for each in _spellings(secret)}
    if not sought:
        return list(parts)
    hidden = bytearray(len(text))
    if len(text) * len(sought) > MOST_WORK:
        hidden = bytearray(b"\1" * len(text))
    else:
        for each in sought:
            at = text.find(each)
            while at >= 0:
                hidden[at : at + len(each)] = b"\1" * len(each)
                at = text.find(each, at + len(each))
    found, end = [], 0
    for part in parts:
        begin, end = end, end + len(part)
        found.append(_without(part, hidden[begin:end]))
    return found


def _without(part: str, hidden: bytearray) -> str:
    """*part* without the characters that *hidden* marks. Its line end is kept."""
    line = part.removesuffix("\n")
    kept, at = [], 0
    for run in re.finditer(b"\1+", hidden[: len(line)]):
        kept += [line[at : run.start()], MASK]
        at = run.end()
    return "".join((*kept, line[at:], part[len(line) :]))


def _spellings(secret: str) -> Iterator[str]:
    lines = re.split(r"\r\n|\r|\n", secret)
    for piece in {"\n".join(lines), *lines}:
        bare = piece.strip()
        if len(bare) >= SHORTEST:
            yield bare
            yield repr(bare)[1:-1]
            quoted = bare.translate(_QUOTED)
            yield quoted
            yield _BEYOND_ASCII.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
            yield quote(bare, safe="", errors="replace")
