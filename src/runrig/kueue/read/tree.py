"""Reads fields of a manifest. Invalid values are errors of the file; unknown ones cause warnings.

Both name the document and the path. After reporting an error, a reader returns a harmless value and continues, so that
all errors of a file are reported together.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from runrig.domain.errors import Problem
from runrig.domain.kueue import Warned
from runrig.kueue.read.amounts import parse_amount, parse_factor, parse_time, parse_weight
from runrig.spec.fields import TreeValue, closest, raise_if_any, shortened
from runrig.spec.yamltree import Document, Entry, Node

T = TypeVar("T")
MOST_SHOWN = 20
INT32 = 2**31 - 1


_INDEX = re.compile(r"\[\d+\]")
_IN_LIST = re.compile(r"(items\[\d+\]\.?)+")


@dataclass(frozen=True, slots=True)
class Origin:
    """The location of an object. *document*: its number in the file, from 1. *file*: empty if there is only one.
    *kind*: once known.
    """

    document: int
    file: str = ""
    kind: str = ""


_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class Report:
    """The findings in the files so far. *latest*: the latest time in them, or None.

    *first*, *times*: where each warning was found first, and how often. The same message at the same field counts once
    per kind.
    """

    errors: dict[Problem, None] = field(default_factory=dict)
    first: dict[_Key, Warned] = field(default_factory=dict)
    times: Counter[_Key] = field(default_factory=Counter)
    latest: float | None = None

    def warn(self, origin: Origin, path: str, message: str) -> None:
        key = (
            origin.file,
            origin.kind or str(origin.document),
            _INDEX.sub("", _IN_LIST.sub("", path, count=1)),
            message,
        )
        if key not in self.first:
            self.first[key] = Warned(origin.document, _one_line(path), _one_line(message), origin.file)
        self.times[key] += 1

    def warnings(self) -> tuple[Warned, ...]:
        """All warnings in the order of the files. Repeated ones are merged into the first, with a count."""
        found = [_counted(warned, self.times[key] - 1) for key, warned in self.first.items()]
        return tuple(sorted(found, key=lambda warned: (warned.file, warned.document)))

    def note(self, time: float) -> None:
        self.latest = time if self.latest is None else max(time, self.latest)

    def raise_if_any(self) -> None:
        """Raises InvalidInput with all errors in the order of the file, at most MOST_SHOWN and the number of the rest."""
        raise_if_any(self.errors, MOST_SHOWN)


@dataclass(frozen=True, slots=True)
class Value(TreeValue):
    """A value of a document, and the report for its problems."""

    origin: Origin
    report: Report

    def of_kind(self, kind: str) -> "Value":
        """The same value with *kind* as its object's kind."""
        return replace(self, origin=replace(self.origin, kind=kind))

    def wrong(self, message: str) -> None:
        path = _one_line(self.path)
        where = f"{self.origin.file}, " if self.origin.file else ""
        where += f"document {self.origin.document}" + (f", {path}" if path else "")
        problem = Problem(f"{where}: {_one_line(message)}", path, *(self.node.place or (None, None)))
        self.report.errors[problem] = None

    def warn(self, message: str) -> None:
        self.report.warn(self.origin, self.path, message)

    def at(self, node: Node, path: str) -> "Value":
        return Value(node, path, self.origin, self.report)

    def text(self) -> str:
        return TreeValue.text(self) or ""

    def whole(self, least: int = 0, most: int = INT32) -> int:
        found = self.between(self.node.value, least, most)
        return max(least, 0) if found is None else found

    def flag(self) -> bool:
        if isinstance(self.node.value, bool):
            return self.node.value
        self.expected("true or false")
        return False

    def amount(self, resource: str) -> int:
        """A quantity in the unit of *resource*."""
        return self._number(lambda text: parse_amount(resource, text), 0)

    def weight(self) -> Fraction:
        return self._number(parse_weight, Fraction(1))

    def factor(self) -> Fraction:
        """A quantity that may be negative."""
        return self._number(parse_factor, Fraction(0))

    def time(self, *, note: bool = True) -> float:
        """Seconds since the epoch. *note* False: the time may be in the future, so it does not advance the time of the
        files.
        """
        text = self.text()
        if not isinstance(self.node.value, str):
            return 0.0
        try:
            found = parse_time(text)
        except ValueError as problem:
            self.wrong(str(problem))
            return 0.0
        if note:
            self.report.note(found)
        return found

    def note_time(self) -> None:
        """Records the time in this value, if it is one."""
        if isinstance(self.node.value, str):
            with contextlib.suppress(ValueError):
                self.report.note(parse_time(self.node.value))

    def choice(self, options: Mapping[str, T], default: T, *, otherwise: str) -> T:
        """One of *options*; anything else causes a warning that ends in *otherwise*, and *default* is returned."""
        text = self.text()
        if text in options or not isinstance(self.node.value, str):
            return options.get(text, default)
        self.warn(f"{shortened(text)!r} is not one of {', '.join(options)}: {otherwise}")
        return default

    def texts(self) -> tuple[str, ...]:
        return tuple(item.text() for item in self.items())

    def object(self) -> "Object":
        if isinstance(self.node.value, Mapping):
            return Object(self, self.node.value)
        self.expected("a mapping")
        return Object(self, {})

    def _number(self, parse: Callable[[str], T], default: T) -> T:
        value = self.node.value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.expected("a quantity")
            return default
        text = str(value) if isinstance(value, int) and len(self.node.text) <= 100 else self.node.text
        try:
            return parse(text)
        except ValueError as problem:
            self.wrong(str(problem))
            return default


@dataclass(frozen=True, slots=True)
class Object:
    """A mapping. A field that is null counts as absent, as in Kubernetes."""

    at: Value
    entries: Mapping[str, Entry]

    def get(self, name: str) -> Value | None:
        entry = self.entries.get(name)
        return None if entry is None or entry.node.value is None else self.at.child(name, entry.node)

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def pairs(self) -> Iterator[tuple[str, Value]]:
        for name in self.entries:
            found = self.get(name)
            if found is not None:
                yield name, found

    def choice(self, name: str, options: Mapping[str, T], default: T, *, otherwise: str) -> T:
        found = self.get(name)
        return found.choice(options, default, otherwise=otherwise) if found else default

    def text(self, name: str, default: str = "") -> str:
        found = self.get(name)
        return found.text() if found else default

    def whole(self, name: str, default: T, least: int = 0, most: int = INT32) -> int | T:
        found = self.get(name)
        return found.whole(least, most) if found else default

    def flag(self, name: str, default: bool) -> bool:
        found = self.get(name)
        return found.flag() if found else default

    def items(self, name: str) -> tuple[Value, ...]:
        found = self.get(name)
        return found.items() if found else ()

    def objects(self, name: str, known: Collection[str] | None = None) -> Iterator["Object"]:
        """Yields the mappings in the list *name*. Warns of fields that are not *known*; None: does not check them."""
        for item in self.items(name):
            yield item.object() if known is None else item.object().only(known)

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.get(name)
        return found.texts() if found else ()

    def object(self, name: str) -> "Object":
        """The mapping *name*; an empty one if it is absent."""
        return (self.get(name) or self.at.child(name, _NOTHING)).object()

    def amounts(self) -> dict[str, int]:
        """A mapping of resources to quantities."""
        return {resource: at.amount(resource) for resource, at in self.pairs()}

    def strings(self, name: str) -> dict[str, str]:
        """A mapping of text values, such as labels."""
        return {key: value.text() for key, value in self.object(name).pairs()}

    def need(self, name: str) -> str:
        """A required text; if it is missing, an error is reported and "" returned."""
        found = self.get(name)
        if found is None:
            if isinstance(self.at.node.value, Mapping):
                self.at.wrong(f"{name} is missing")
            return ""
        return found.text()

    def either(self, name: str, other: str) -> Value | None:
        """The field *name* of this version, or *other*, its name in another version."""
        found = self.get(other)
        if found is None:
            return self.get(name)
        if self.has(name):
            found.warn(f"ignored: {name} is also set")
            return self.get(name)
        found.warn(f"renamed to {name} in this version: treated as such")
        return found

    def only(self, known: Collection[str], unsupported: Mapping[str, str] = {}) -> "Object":
        """Warns of every field that is set but not *known*, and of *unsupported* ones with their messages."""
        for name in self.entries:
            if name not in known and name not in unsupported and (value := self.get(name)):
                value.warn(f"unknown field, ignored. {closest(name, (*known, *unsupported))}")
        self.unsupported(unsupported)
        return self

    def having(self, name: str, node: Node) -> "Object":
        """The same mapping with *node* as its field *name*."""
        entries = {**self.entries, name: Entry(None, node)}
        return Object(replace(self.at, node=replace(self.at.node, value=entries)), entries)

    def unsupported(self, fields: Mapping[str, str]) -> None:
        """Warns of each of *fields* that is set, with its message."""
        for name, sentence in fields.items():
            found = self.get(name)
            if found is not None and found.node.value not in ((), {}, False, ""):
                found.warn(sentence)


_NOTHING = Node({})


def _one_line(text: str) -> str:
    """*text* with non-printable characters escaped, because a terminal might interpret them."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _counted(warned: Warned, more: int) -> Warned:
    if not more:
        return warned
    return replace(warned, message=f"{warned.message} (and in {more:,} more place{'s' if more > 1 else ''})")


def values(documents: Iterable[Document], report: Report, file: str = "") -> Iterator[Value]:
    """Yields the non-empty documents. Syntax errors are added to *report*. *file*: its name, if there are several."""
    where = f"{file}, " if file else ""
    for number, document in enumerate(documents, start=1):
        for problem in document.problems:
            message = f"{where}document {number}: {problem.message}"
            report.errors[Problem(message, problem.path, problem.line, problem.column)] = None
        if document.node.value is not None:
            yield Value(document.node, "", Origin(number, file), report)
