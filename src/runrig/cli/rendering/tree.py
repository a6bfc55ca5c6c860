"""Nodes as a tree: parents before children, with lines between them."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def tree(
    nodes: Sequence[T], key: Callable[[T], Hashable], parent: Callable[[T], Hashable], *, below_a_root: bool = False
) -> Iterator[tuple[str, T]]:
    """Yields each of *nodes* with the lines before its name. Cycles of parents have no top, so they come last, undrawn.

    *below_a_root*: draw lines before the tops too.
    """
    known = {key(node) for node in nodes}
    children: dict[Hashable, list[T]] = {}
    for node in nodes:
        children.setdefault(parent(node) if parent(node) in known else None, []).append(node)
    drawn = set()
    stack = (
        _below("", children.get(None, [])) if below_a_root else [("", "", top) for top in children.get(None, [])[::-1]]
    )
    while stack:
        lines, indent, node = stack.pop()
        drawn.add(key(node))
        yield lines, node
        stack += _below(indent, children.get(key(node), []))
    yield from (("", node) for node in nodes if key(node) not in drawn)


def _below(indent: str, siblings: list[T]) -> list[tuple[str, str, T]]:
    """The stack of *siblings*, the last one at the bottom: the lines before each, and those before its children."""
    others = [(f"{indent}├─ ", f"{indent}│  ", node) for node in siblings[:-1]]
    return [(f"{indent}└─ ", f"{indent}   ", node) for node in siblings[-1:]] + others[::-1]
