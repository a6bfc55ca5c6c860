"""Text that a task wrote, without the secrets that it was handed.  Pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import quote

MASK = "***"
SHORTEST = 4
"""Characters of the shortest secret, or line of one, that is masked: shorter ones are found in half of all words."""
MOST_WORK = 1 << 30
"""Characters of a text times the number of spellings to look for: more than that is not searched, but masked as a whole."""

_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
"""As JSON and many languages write a character in a string."""
_BEYOND_ASCII = re.compile(r"[^\0-\x7f]")


def masked(parts: Sequence[str], secrets: Collection[str]) -> list[str]:
    """*parts* of one text, each a line or a piece of one, with `MASK` in place of what it has of *secrets*; lines keep their ends.

    A secret is found across parts, inside or overlapping another one, and as Python, JSON or an address would quote it.  The lines of
    a secret that has several are masked by themselves too.  O(text * secrets).
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
    """*part* without the characters that *hidden* marks; its line end is no secret."""
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
