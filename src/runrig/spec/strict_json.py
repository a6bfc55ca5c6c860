"""JSON in which no object has a field twice. Python takes the last of them silently, other readers the first."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from runrig.domain.errors import Problem

LONGEST_SHOWN = 120
"""Characters of a path in a message."""


class FieldTwice(ValueError):
    """*problem*: names the field by its path, such as ``tasks[0].name``."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Fields:
    """The hook of a decoder: makes dicts of objects, and remembers those that have a field twice."""

    def __init__(self) -> None:
        self._twice: list[tuple[dict[str, Any], str]] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            self._twice.append((found, _second(pairs)))
        return found

    def check(self, value: Any, what: str) -> None:
        """Raises FieldTwice for the first repeated field in *value*. *what*: names it in the message."""
        if not self._twice:
            return
        names = {id(each): name for each, name in self._twice}
        paths = (f"{at}.{names[id(each)]}".lstrip(".") for at, each in _objects(value) if id(each) in names)
        if (path := next(paths, None)) is None:  # In what the caller left out.
            return
        shown = path if len(path) <= LONGEST_SHOWN else f"{path[: LONGEST_SHOWN - 3]}..."
        raise FieldTwice(Problem(f"the {what} has the field {shown!r} twice. Keep one of them", path[:LONGEST_SHOWN]))


def read(text: str | bytes, what: str = "body") -> Any:
    """Raises ValueError, which is FieldTwice if an object repeats a field, or RecursionError. *what*: names it in the message."""
    fields = Fields()
    value = json.loads(text, object_pairs_hook=fields)
    fields.check(value, what)
    return value


def _second(pairs: list[tuple[str, Any]]) -> str:
    counts = Counter(name for name, _ in pairs)
    return next(name for name, count in counts.items() if count > 1)


def _objects(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (path, object) for each object in *value*, in no particular order.

    An object with a field twice is always among them, or inside the value that the second of two fields replaced: then
    the object around it is among them.
    """
    left = [("", value)]
    while left:
        at, each = left.pop()
        if isinstance(each, dict):
            yield at, each
            left += [(f"{at}.{name}", item) for name, item in each.items()]
        elif isinstance(each, list):
            left += [(f"{at}[{number}]", item) for number, item in enumerate(each)]
