"""Cycles of things that each lead to at most one other, as cohorts lead to their parents."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


def cycles(leads_to: Mapping[T, T | None]) -> Iterator[list[T]]:
    """Yields each cycle once, from the first of its members that a way leads to. O(things)."""
    seen: set[T] = set()
    for start in leads_to:
        path: list[T] = []
        at: T | None = start
        while at is not None and at in leads_to and at not in seen:
            seen.add(at)
            path.append(at)
            at = leads_to[at]
        if at in path:
            yield path[path.index(at) :]
