"""Names that a user probably meant when they typed one that does not exist."""

from collections.abc import Iterable

from runrig.domain.natural_order import natural
from runrig.domain.quantities import listed

MOST = 3
FARTHEST = 2
"""Edits between a typed name and a suggestion. Short names allow fewer, or they would all be alike."""
_LETTERS_PER_EDIT = 3
_LONGEST = 200
"""Letters of a typed name that are compared."""


def meant(typed: str, known: Iterable[str]) -> tuple[str, ...]:
    """Returns up to `MOST` of *known* that begin with *typed* or differ from it by at most `FARTHEST` letters, in natural order.

    If some begin with *typed*, only these. *known*: only names that the user may see. O(letters of *known*).
    """
    typed, names = typed[:_LONGEST], sorted(set(known), key=natural)
    begin = [name for name in names if typed and name.startswith(typed)]
    if begin:
        return tuple(begin[:MOST])
    most = min(FARTHEST, len(typed) // _LETTERS_PER_EDIT)
    far = {name: distance(typed, name, most) for name in names}
    near = sorted((name for name in names if far[name] <= most), key=far.__getitem__)
    return tuple(sorted(near[:MOST], key=natural))


def suggested(typed: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a message: ``. Did you mean 'a', 'b' or 'c'?``, or *otherwise* if no name is similar."""
    found = meant(typed, known)
    return f". Did you mean {listed([*map(repr, found)], 'or')}?" if found else otherwise


def distance(one: str, other: str, most: int) -> int:
    """Returns how many letters have to be inserted, deleted or replaced; *most* + 1 if there are more than *most*."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for to, wanted in enumerate(other, 1):
            before, row[to] = row[to], min(before + (letter != wanted), row[to] + 1, row[to - 1] + 1)
        if min(row) > most:
            return most + 1
    return row[-1]
