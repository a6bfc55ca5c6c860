"""Reads a tree field by field. An invalid value becomes an error with its position, and reading continues.

A method that returns None or an empty tuple for a given value has reported why. A field that is missing is a `Field` too: it is
false, it reads as None or empty, and nothing is wrong with it.
"""

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.quantities import counted, few
from runrig.spec.yamltree import Entry, Node, Place, read_yaml

T = TypeVar("T")
MOST_SHOWN = 100


class Problems:
    """The errors of one input so far."""

    def __init__(self, found: Collection[Problem] = ()) -> None:
        self._found = dict.fromkeys(found)

    def add(self, message: str, path: str, place: Place | None) -> None:
        self._found[Problem(message, path, *(place or (None, None)))] = None

    def raise_if_any(self) -> None:
        """Raises InvalidInput with all errors by line and column; if there are very many, with the first ones and the total."""
        raise_if_any(self._found, MOST_SHOWN)


def raise_if_any(problems: Collection[Problem], most: int) -> None:
    """Raises InvalidInput with *problems* by line and column, up to *most* and the number of the rest."""
    found = sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))
    if len(found) > most:
        found = [*found[:most], Problem(f"and {counted(len(found) - most, 'more problem')}")]
    if found:
        raise InvalidInput(tuple(found))


@dataclass(frozen=True, slots=True)
class TreeValue(ABC):
    """A value of a file or manifest, and its path. A method that returns None has reported why."""

    node: Node
    path: str
    A_LIST: ClassVar[str] = "a list"

    @abstractmethod
    def wrong(self, message: str) -> None:
        """Reports *message* as an error of this value."""

    @abstractmethod
    def at(self, node: Node, path: str) -> Self:
        """Returns *node*, which is inside this value, with *path*."""

    def child(self, name: str, node: Node) -> Self:
        """Returns *node*, the field *name* of this mapping."""
        return self.at(node, f"{self.path}.{name}" if self.path else name)

    def expected(self, what: str, hint: str = "") -> None:
        if self:
            self.wrong(f"expected {what}, got {self.shown()}{hint}")

    def shown(self) -> str:
        """Returns the value, shortened for a message."""
        value = self.node.value
        if isinstance(value, Mapping):
            return "a mapping"
        if isinstance(value, tuple):
            return "a list"
        if value is None:
            return "nothing"
        text = shortened(self.node.text)
        return f"text {text!r}" if isinstance(value, str) else text

    def text(self) -> str | None:
        if isinstance(self.node.value, str):
            return self.node.value
        self.expected("text", ". Put it in quotes." if isinstance(self.node.value, int | float) else "")
        return None

    def between(self, value: object, least: int, most: int) -> int | None:
        """Returns *value* if it is a whole number from *least* to *most*."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.expected("a whole number")
        elif value < least:
            self.wrong(
                f"{shortened(str(value))} is {'negative' if value < 0 <= least else 'too small'}. Use at least {least}"
            )
        elif value > most:
            self.wrong(f"{shortened(str(value))} is too large (maximum {most})")
        else:
            return value
        return None

    def items(self) -> tuple[Self, ...]:
        if not isinstance(self.node.value, tuple):
            self.expected(self.A_LIST)
            return ()
        return tuple(self.at(item, f"{self.path}[{i}]") for i, item in enumerate(self.node.value))


@dataclass(frozen=True, slots=True)
class Field(TreeValue):
    """A value in the file, and where its errors go."""

    problems: Problems
    A_LIST = "a list with '- ' before each item"

    def __bool__(self) -> bool:
        """Whether it is not missing."""
        return self is not _MISSING

    @property
    def name(self) -> str:
        """Returns the last part of the path, for messages with a line number."""
        name = self.path.rpartition(".")[2] or ("''" if self.path else "the file")
        return name if name.isprintable() else repr(name)

    def wrong(self, message: str) -> None:
        """Reports *message*, prefixed with the name of the field."""
        if self:
            self.problems.add(f"{self.name}: {message}", self.path, self.node.place)

    def at(self, node: Node, path: str) -> "Field":
        return Field(node, path, self.problems)

    def checked(self, problem: Callable[[str], str | None]) -> str | None:
        """Returns a text. Reports its *problem*, if it has one."""
        text = self.text()
        if text is not None and (said := problem(text)):
            self.wrong(said)
        return text

    def matching(self, pattern: re.Pattern[str], rule: str, longest: int | None = None) -> str | None:
        """Returns a text. Reports one that does not match *pattern*, with the *rule*, or has more than *longest* characters."""
        number = isinstance(self.node.value, int | float)  # Quotes do not help if it is against the rule.
        text = self.node.text if number and not pattern.fullmatch(self.node.text) else self.text()
        if text is not None and longest is not None and len(text) > longest:
            self.wrong(f"{text[:20]!r}... is too long ({len(text)} characters, maximum {longest})")
        elif text is not None and not pattern.fullmatch(text):
            self.wrong(f"{text!r} {rule}")
        return text

    def parsed(self, parse: Callable[[str], T]) -> T | None:
        """Returns the result of *parse* for a text or number as written. Its ValueError becomes an error of the file."""
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
        """Returns a whole number from *least* to *most*, which may be quoted."""
        value: object = self.node.value
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 100:
            value = int(value)
        return self.between(value, least, most)

    def number(self, least: float, most: float) -> float | None:
        value = self.node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.expected("a number")
            return None
        if not least <= value <= most:
            self.wrong(f"{self.node.text} is out of range. Use {least:,.10g} to {most:,.10g}")
            return None
        return float(value)

    def flag(self, default: bool) -> bool:
        value = self.node.value
        if isinstance(value, str):
            value = _FLAGS.get(value.lower(), value)
        if not isinstance(value, bool):
            self.expected("true or false")
            return default
        return value

    def choice(self, options: Mapping[str, T]) -> T | None:
        """Returns one of *options*; case does not matter."""
        value = self.node.value
        if isinstance(value, str):
            for name, option in options.items():
                if name.upper() == value.upper():
                    return option
        self.expected("one of " + ", ".join(options))
        return None

    def entries(self) -> tuple[tuple[str, "Field"], ...]:
        """Returns the entries of a mapping with arbitrary keys."""
        if not isinstance(self.node.value, Mapping):
            self.expected("a mapping")
            return ()
        return tuple((key, self.child(key, entry.node)) for key, entry in self.node.value.items())

    def fields(self, what: str, known: Collection[str], hints: Mapping[str, str] = {}) -> "Fields":
        """Returns the fields of *what* ("a task"). Reports fields not in *known*, with their hint if there is one."""
        if not isinstance(self.node.value, Mapping):
            self.expected(f"a mapping with the fields of {what}")
            return Fields(self, what, {})
        for key, entry in self.node.value.items():
            if key not in known:
                advice = f": {hints[key]}" if key in hints else f". {closest(key, known)}"
                path = self.child(key, entry.node).path
                self.problems.add(f"{what} has no field {key!r}{advice}", path, entry.place)
        return Fields(self, what, self.node.value)


_MISSING = Field(Node(None), "", Problems())
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Fields:
    """The known fields of a mapping; none, and false, if it is not one. A field without a value (`image:`) counts as missing."""

    field: Field
    what: str
    entries: Mapping[str, Entry]

    def __bool__(self) -> bool:
        return isinstance(self.field.node.value, Mapping)

    def __getitem__(self, name: str) -> Field:
        entry = self.entries.get(name)
        return _MISSING if entry is None or entry.node.value is None else self.field.child(name, entry.node)

    def need(self, name: str, example: str) -> Field:
        """Returns a required field. *example*: shown if it is missing."""
        field = self[name]
        if self and not field:
            entry = self.entries.get(name)
            place = entry.place if entry else self.field.node.place
            self.field.problems.add(f"{self.what} needs {name}. Add {example}", self.field.path, place)
        return field

    def refuse(self, names: Mapping[str, str]) -> None:
        """Reports each field of *names* that has a value, with the sentence in *names*."""
        for name, sentence in names.items():
            if self[name].node.value not in (None, (), {}, False):
                self.field.problems.add(f"{name}: {sentence}", self[name].path, self.entries[name].place)


def each(
    items: Iterable[Field], what: str, known: Collection[str], needs: Mapping[str, str], hints: Mapping[str, str] = {}
) -> Iterator[tuple[Fields, Sequence[Field]]]:
    """Yields the fields of each of *items* that has all fields in *needs* (name → example), and these fields. Reports the others."""
    for item in items:
        inner = item.fields(what, known, hints)
        needed = [inner.need(name, example) for name, example in needs.items()]
        if all(needed):
            yield inner, needed


def shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def read_file(
    text: str,
    name: str,
    known: Collection[str],
    read: Callable[[Fields], T],
    hints: Mapping[str, str] = {},
    what: str = "",
) -> T:
    """Returns what *read* makes of the fields of *text*, a *name*, or *what* if *name* is a path. Raises InvalidInput with all errors."""
    document = read_yaml(text, name)
    top = Field(document.node, "", Problems(document.problems))
    found = read(top.fields(what or f"a {name}", known, hints))
    top.problems.raise_if_any()
    return found


def likely(word: str, known: Collection[str]) -> str | None:
    """Returns the name in *known* closest to *word*; None if none is similar."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def closest(word: str, known: Collection[str]) -> str:
    """Returns the last sentence of a message: a suggestion if a name is similar to *word*, else all names."""
    meant = likely(word, known)
    if meant is not None:
        return f"Did you mean {meant!r}?"
    if not known:
        return "None is defined"
    return f"Use {few(known)}" if len(known) == 1 else f"Use one of {few(known)}"


def repeated(fields: Iterator[tuple[str, Field]] | Collection[tuple[str, Field]], what: str) -> None:
    """Reports each (name, field) with a duplicate name."""
    seen: dict[str, Place | None] = {}
    for name, found in fields:
        if name in seen:
            place = seen[name]
            first = f"first on line {place.line}" if place else "the first one is above"
            found.wrong(f"{what} {name!r} is defined twice; {first}")
        else:
            seen[name] = found.node.place
