"""JSON text → the same tree as for YAML text, without positions and evaluated lazily.

An object of `kubectl get -o json` has hundreds of values, most of them unused: a node is created when its parent is read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runrig.domain.errors import InvalidInput, Problem
from runrig.spec import strict_json
from runrig.spec.yamltree import DEEPEST, Document, Entry, Node

_NOT_READ = "managedFields"
"""Bookkeeping of the API server, up to a third of an object."""
_SPACE = re.compile(r"[ \t\r\n]*")
_ODD = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
"""Escapes that may not be text: NUL, or half of a surrogate pair."""


def read_json(text: str, what: str) -> tuple[Document, ...]:
    """Returns all documents of *text*, a sequence of JSON values.

    Raises InvalidInput for invalid JSON, duplicate keys, too deep nesting, NUL characters and unpaired surrogates.
    """
    fields = strict_json.Fields()
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _without_unread(fields(pairs)))
    values: list[Any] = []
    at = _after_space(text, 0)
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            fields.check(value, what)
            values.append(value)
            at = _after_space(text, at)
    except json.JSONDecodeError as error:
        message = f"the {what} is not valid JSON: {error.msg}"
        raise InvalidInput((Problem(message, "", error.lineno, error.colno),)) from None
    except RecursionError:
        raise _too_deep(what) from None
    except strict_json.FieldTwice as error:
        raise InvalidInput((error.problem,)) from None
    except ValueError as error:
        raise InvalidInput.one(f"the {what} is not valid JSON: {error}") from None
    if _is_too_deep(values):
        raise _too_deep(what)
    documents = tuple(Document(_node(value)) for value in values)
    if _ODD.search(text):
        _check_text(documents, what)
    return documents


def _is_too_deep(values: list[Any]) -> bool:
    """Whether one of *values* has more than DEEPEST containers within each other: each Python can read a different number."""
    level = values
    for _ in range(DEEPEST + 1):
        containers = [value for value in level if isinstance(value, dict | list)]
        if not containers:
            return False
        level = [child for each in containers for child in (each.values() if isinstance(each, dict) else each)]
    return True


def _too_deep(what: str) -> InvalidInput:
    return InvalidInput.one(f"the {what} is nested more than {DEEPEST} levels deep")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _without_unread(found: dict[str, Any]) -> dict[str, Any]:
    found.pop(_NOT_READ, None)
    return found


class _Fields(Mapping[str, Entry]):
    """A JSON object whose values become nodes when they are read."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Entry:
        return Entry(None, _node(self._values[key]))

    def get(self, key: str, default: Any = None) -> Any:  # Read for every field: twice as fast as the inherited one.
        return Entry(None, _node(self._values[key])) if key in self._values else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _node(value: Any) -> Node:
    if isinstance(value, dict):
        return Node(_Fields(value))
    if isinstance(value, list):
        return Node(tuple([_node(item) for item in value]))
    if isinstance(value, str):
        return Node(value, value)
    return Node(value, "" if value is None else str(value).lower())


def _check_text(documents: tuple[Document, ...], what: str) -> None:
    """Raises InvalidInput if a key or text of *documents* cannot be encoded."""
    nodes = [document.node for document in documents]
    while nodes:
        value = nodes.pop().value
        texts = [value] if isinstance(value, str) else []
        if isinstance(value, Mapping):
            texts = list(value)
            nodes += [entry.node for entry in value.values()]
        elif isinstance(value, tuple):
            nodes += value
        for text in texts:
            if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
                raise InvalidInput.one(
                    f"the {what} contains text that is not valid Unicode, or has a NUL character: {text!a}"
                )
