"""Reads a tree field by field: every wrong value becomes a problem with its place, and reading goes on.

A method that returns None or an empty tuple for a value that was written has reported why.
"""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from runrig.domain.errors import InvalidInput, Problem
from runrig.spec.yamltree import Document, Entry, Node, Place

T = TypeVar("T")
MOST_SHOWN = 100


class Problems:
    """The problems of one input so far."""

    def __init__(self, found: Collection[Problem] = ()) -> None:
        self._found = dict.fromkeys(found)

    def add(self, message: str, path: str, place: Place | None) -> None:
        self._found[Problem(message, path, *(place or (None, None)))] = None

    def raise_if_any(self) -> None:
        """Raises InvalidInput with all problems by line and column; if there are very many, the first ones and the number."""
        found = sorted(self._found, key=lambda problem: (problem.line or 0, problem.column or 0))
        if len(found) > MOST_SHOWN:
            rest = len(found) - MOST_SHOWN
            found = [*found[:MOST_SHOWN], Problem(f"and {rest} more problems")]
        if found:
            raise InvalidInput(tuple(found))


@dataclass(frozen=True, slots=True)
class Field:
    """A value of the file, the path that leads to it, and where its problems go."""

    node: Node
    path: str
    problems: Problems

    @property
    def name(self) -> str:
        """The last part of the path, for messages that come with a line number."""
        name = self.path.rpartition(".")[2] or "the file"
        return name if name.isprintable() else repr(name)

    def wrong(self, message: str) -> None:
        """Reports *message*, preceded by the name of the field."""
        self.problems.add(f"{self.name}: {message}", self.path, self.node.place)

    def expected(self, what: str) -> None:
        self.wrong(f"expected {what}, got {self.shown()}")

    def shown(self) -> str:
        """The value, shortened for a message."""
        value = self.node.value
        if isinstance(value, Mapping):
            return "a mapping"
        if isinstance(value, tuple):
            return "a list"
        if value is None:
            return "nothing"
        text = self.node.text if len(self.node.text) <= 60 else self.node.text[:57] + "..."
        return f"text {text!r}" if isinstance(value, str) else text

    def text(self) -> str | None:
        if isinstance(self.node.value, str):
            return self.node.value
        hint = ". Put it in quotes." if isinstance(self.node.value, int | float) else ""
        self.wrong(f"expected text, got {self.shown()}{hint}")
        return None

    def parsed(self, parse: Callable[[str], T]) -> T | None:
        """The result of *parse* on a text or number as written; its ValueError becomes a problem."""
        value = self.node.value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.expected("text or a number")
            return None
        try:
            return parse(self.node.text.strip())
        except ValueError as error:
            self.wrong(str(error))
            return None

    def whole(self, least: int = 0, most: int = 2**63 - 1) -> int | None:
        """A whole number between *least* and *most*; digits in quotes count as one."""
        value: object = self.node.value
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 100:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.expected("a whole number")
            return None
        if value < least:
            self.wrong(f"{value} is {'negative' if value < 0 else 'too small'}: at least {least}")
            return None
        if value > most:
            self.wrong(f"{value} is too large: at most {most}")
            return None
        return value

    def number(self, least: float, most: float) -> float | None:
        """A number between *least* and *most*."""
        value = self.node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.expected("a number")
            return None
        if not least <= value <= most:
            self.wrong(f"{self.node.text} is out of range: at least {least:,.10g}, at most {most:,.10g}")
            return None
        return float(value)

    def flag(self) -> bool | None:
        value = self.node.value
        if isinstance(value, str):
            value = _FLAGS.get(value.lower(), value)
        if not isinstance(value, bool):
            self.expected("true or false")
            return None
        return value

    def choice(self, options: Mapping[str, T]) -> T | None:
        """One of *options*; the case of the letters does not matter."""
        value = self.node.value
        if isinstance(value, str):
            for name, option in options.items():
                if name.upper() == value.upper():
                    return option
        self.expected("one of " + ", ".join(options))
        return None

    def items(self) -> tuple["Field", ...]:
        if not isinstance(self.node.value, tuple):
            self.expected("a list, each item behind '- '")
            return ()
        return tuple(Field(item, f"{self.path}[{i}]", self.problems) for i, item in enumerate(self.node.value))

    def entries(self) -> tuple[tuple[str, "Field"], ...]:
        """The keys and values of a mapping whose keys are free."""
        if not isinstance(self.node.value, Mapping):
            self.expected("a mapping")
            return ()
        return tuple((key, self._child(key, entry)) for key, entry in self.node.value.items())

    def fields(self, what: str, known: Collection[str], hints: Mapping[str, str] | None = None) -> "Fields | None":
        """The fields of *what* ("a task").  Fields not in *known* are reported, with their hint if there is one."""
        if not isinstance(self.node.value, Mapping):
            self.expected(f"a mapping with the fields of {what}")
            return None
        for key, entry in self.node.value.items():
            if key not in known:
                advice = (hints or {}).get(key) or closest(key, known)
                path = self._child(key, entry).path
                self.problems.add(f"{what} has no field {key!r}: {advice}", path, entry.place)
        return Fields(self, what, self.node.value)

    def _child(self, key: str, entry: Entry) -> "Field":
        return Field(entry.node, f"{self.path}.{key}" if self.path else key, self.problems)


_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Fields:
    """The known fields of one mapping.  A field without a value (`image:`) counts as missing."""

    field: Field
    what: str
    entries: Mapping[str, Entry]

    def get(self, name: str) -> Field | None:
        entry = self.entries.get(name)
        if entry is None or entry.node.value is None:
            return None
        path = f"{self.field.path}.{name}" if self.field.path else name
        return Field(entry.node, path, self.field.problems)

    def need(self, name: str, example: str) -> Field | None:
        """The field, which must be there; *example* shows how to write it."""
        field = self.get(name)
        if field is None:
            entry = self.entries.get(name)
            place = entry.place if entry else self.field.node.place
            self.field.problems.add(f"{self.what} needs {name}: write {example}", self.field.path, place)
        return field

    def text(self, name: str) -> str | None:
        field = self.get(name)
        return field.text() if field else None

    def whole(self, name: str, least: int = 0, most: int = 2**63 - 1) -> int | None:
        field = self.get(name)
        return field.whole(least, most) if field else None

    def flag(self, name: str, default: bool) -> bool:
        field = self.get(name)
        value = field.flag() if field else None
        return default if value is None else value

    def items(self, name: str) -> tuple[Field, ...]:
        field = self.get(name)
        return field.items() if field else ()

    def map(self, name: str) -> tuple[tuple[str, Field], ...]:
        field = self.get(name)
        return field.entries() if field else ()

    def refuse(self, names: Mapping[str, str]) -> None:
        """Reports each field of *names* that has a value, with its sentence in *names*."""
        for name, sentence in names.items():
            field = self.get(name)
            if field is not None and field.node.value not in ((), {}, False):
                entry = self.entries[name]
                self.field.problems.add(f"{name}: {sentence}", field.path, entry.place)


def root(document: Document) -> Field:
    return Field(document.node, "", Problems(document.problems))


def likely(word: str, known: Collection[str]) -> str | None:
    """The name among *known* that was probably meant; None if none is like *word*."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def closest(word: str, known: Collection[str]) -> str:
    """The end of a message: the name that was probably meant, else all names."""
    meant = likely(word, known)
    if meant is not None:
        return f"did you mean {meant!r}?"
    return "there is " + listed(known) if known else "there is none"


def listed(names: Collection[str], most: int = 20) -> str:
    """*names* with commas; only the first ones if there are very many."""
    shown = list(names)[:most]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def repeated(fields: Iterator[tuple[str, Field]] | Collection[tuple[str, Field]], what: str) -> None:
    """Reports every (name, field) whose name came before."""
    seen: dict[str, Place | None] = {}
    for name, found in fields:
        if name in seen:
            place = seen[name]
            first = f"first on line {place.line}" if place else "the first one is above"
            found.wrong(f"{what} {name!r} is defined twice; {first}")
        else:
            seen[name] = found.node.place
