"""YAML text → a tree of values with positions, or what is wrong with the text and where.

Built from parser events with an explicit stack, so that input cannot exhaust Python's. Text that is too large, too deep
or expands too much is refused while it is read. Scalars follow YAML 1.2: `on`, `1:30` and dates are text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import yaml

from runrig.domain.errors import InvalidInput, Problem

LARGEST_TEXT = 512 * 1024
"""Maximum bytes of a file."""
MOST_NODES = 100_000
"""Maximum number of values in a file; an alias counts as its whole expansion."""
DEEPEST = 100
MERGE_KEY = "<<"

Scalar = str | int | float | bool | None


class Place(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class Entry(NamedTuple):
    """A key of a mapping: its position and its value."""

    place: Place | None
    node: "Node"


@dataclass(frozen=True, slots=True)
class Node:
    """*text*: a scalar as written, without quotes. *place* None: not from a file."""

    value: Scalar | tuple["Node", ...] | Mapping[str, Entry]
    text: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """*problems*: errors that leave the rest readable, such as duplicate keys."""

    node: Node
    problems: tuple[Problem, ...] = ()


def read_yaml(text: str, what: str = "file") -> Document:
    """Returns the only document of *text*. Raises InvalidInput for unreadable text; *what* names it in the message."""
    checked = checked_text(text, what)
    reader = _Reader(what)
    for event in _events(checked):
        reader.take(event)
    if reader.document is None:
        raise InvalidInput.one(f"the {what} is empty")
    return Document(reader.document, tuple(reader.problems))


def read_documents(text: str, what: str, largest: int) -> tuple[Document, ...]:
    """Returns all documents of *text*; an empty one contains None. Raises InvalidInput with the number of the document,
    from 1.

    *largest*: maximum bytes. Aliases can expand to about as many values as the text has characters.
    """
    checked = checked_text(text, what, largest)
    left = MOST_NODES + len(checked)
    documents: list[Document] = []
    reader = _Reader(what, left)
    try:
        for event in _events(checked):
            if not isinstance(event, yaml.DocumentEndEvent):
                reader.take(event)
                continue
            assert reader.document is not None, "an empty document has an empty scalar"
            documents.append(Document(reader.document, tuple(reader.problems)))
            left -= reader.nodes
            reader = _Reader(what, left)
    except InvalidInput as error:
        number = len(documents) + 1
        raise InvalidInput(
            tuple(replace(problem, message=f"document {number}: {problem.message}") for problem in error.problems)
        ) from None
    return tuple(documents)


def _events(text: str) -> Iterator[yaml.Event]:
    """Yields the events of the parser. Raises InvalidInput where it fails."""
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, text) from None
    except yaml.YAMLError as error:
        raise InvalidInput.one(f"not valid YAML: {error}") from None


def node_of(value: object) -> Node:
    """Returns a JSON value as a tree without positions. Types that JSON lacks become text."""
    if isinstance(value, Mapping):
        return Node({str(key): Entry(None, node_of(item)) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return Node(tuple(node_of(item) for item in value))
    if value is None or isinstance(value, bool):
        return Node(value, "" if value is None else str(value).lower())
    if isinstance(value, str | int | float):
        return Node(value, str(value))
    return Node(str(value), str(value))


def plain(node: Node) -> Any:
    """Returns the tree as dicts, lists and scalars."""
    if isinstance(node.value, Mapping):
        return {key: plain(entry.node) for key, entry in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.value


def decoded(data: bytes, what: str = "file") -> str:
    """Returns the text of *data*. Raises InvalidInput unless it is UTF-8 (a picture, an archive)."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the {what} is not text: byte 0x{data[error.start]:02x} is not UTF-8"
        raise InvalidInput((Problem(message, line=line),)) from None


_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def checked_text(text: str, what: str, largest: int = LARGEST_TEXT) -> str:
    """Returns *text* without a byte order mark. Raises InvalidInput if it is too long or has characters that YAML forbids."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > largest:
        raise InvalidInput.one(f"the {what} is too large ({size:,} bytes, maximum {largest:,})")
    text = text.removeprefix("\ufeff")
    if found := _FORBIDDEN.search(text):
        start = found.start()
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        message = f"the {what} has the character U+{ord(found[0]):04X}, which is not allowed in YAML. Check that it is a text file."
        raise InvalidInput((Problem(message, line=line, column=column),))
    return text


# ---------------------------------------------------------------- from events to nodes


@dataclass(slots=True)
class _Open:
    """A list or mapping that is not complete yet. *size*: nodes so far, including itself."""

    place: Place
    anchor: str | None
    mapping: bool
    size: int = 1
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    merged: list[Node] = field(default_factory=list)
    key: Node | None = None


class _Reader:
    def __init__(self, what: str, most: int = MOST_NODES) -> None:
        self.document: Node | None = None
        self.problems: list[Problem] = []
        self.nodes = 0
        self._what = what
        self._most = most
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event), 1, event.anchor)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent) and self.document is not None:
            raise _fatal(
                f"a second document starts here, but the {self._what} is a single document without '---'", event
            )

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if len(self._open) >= DEEPEST:
            raise _fatal(f"nested more than {DEEPEST} levels deep", event)
        if event.tag not in (None, "!", f"tag:yaml.org,2002:{'map' if mapping else 'seq'}"):
            self._tag_problem(event)
        self._open.append(_Open(_place(event), event.anchor, mapping))

    def _end(self) -> None:
        done = self._open.pop()
        if not done.mapping:
            node = Node(tuple(done.items), place=done.place)
        else:
            for source in done.merged:
                self._merge(done, source)
            node = Node(done.entries, place=done.place)
        self._add(node, done.size, done.anchor, counted=True)

    def _alias(self, event: yaml.AliasEvent) -> None:
        known = self._anchors.get(event.anchor or "")
        if known is None:
            inside = any(item.anchor == event.anchor for item in self._open)
            why = "is inside its own anchor" if inside else "has no anchor before it"
            raise _fatal(f"the alias *{event.anchor} {why}", event)
        node, size = known
        self._add(Node(node.value, node.text, _place(event)), size, None)

    def _add(self, node: Node, size: int, anchor: str | None, counted: bool = False) -> None:
        """Adds *node* at the current position. *counted*: its parts were counted when they were added."""
        self.nodes += 1 if counted else size
        if self.nodes > self._most:
            message = (
                f"the {self._what} has more than {self._most:,} values once aliases are expanded. Use fewer aliases."
            )
            raise InvalidInput((Problem(message, "", *(node.place or (None, None))),))
        if anchor is not None:
            self._anchors[anchor] = (node, size)
        if not self._open:
            self.document = node
            return
        parent = self._open[-1]
        parent.size += size
        if not parent.mapping:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            self._put(parent, parent.key, node)
            parent.key = None

    def _put(self, parent: _Open, key: Node, node: Node) -> None:
        if key.value == MERGE_KEY:
            parent.merged.append(node)
        elif not isinstance(key.value, str):
            simple = not isinstance(key.value, tuple | Mapping)
            self._problem(
                f"the key {key.text!r} is not text. Put it in quotes." if simple else "only text can be a key",
                key.place,
            )
        elif key.value in parent.entries:
            first = parent.entries[key.value].place
            self._problem(
                f"the key {key.value!r} is defined twice; first on line {first[0] if first else '?'}", key.place
            )
        else:
            parent.entries[key.value] = Entry(key.place, node)

    def _merge(self, target: _Open, source: Node) -> None:
        parts: Sequence[Node] = source.value if isinstance(source.value, tuple) else (source,)
        for part in parts:
            if not isinstance(part.value, Mapping):
                self._problem("'<<' takes a mapping, or a list of mappings", source.place)
                continue
            for key, entry in part.value.items():
                target.entries.setdefault(key, entry)

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        if "\0" in event.value:
            self._problem("the text contains a NUL character, which programs cannot accept", _place(event))
        if event.tag not in (None, "!") and event.tag not in _TAGS:
            self._tag_problem(event)
        if not event.implicit[0] and event.tag not in _TAGS[1:]:
            return Node(event.value, event.value, _place(event))
        return Node(_resolved(event.value), event.value, _place(event))

    def _tag_problem(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        self._problem(f"the tag {event.tag!r} is not supported. Omit it.", _place(event))

    def _problem(self, message: str, place: Place | None) -> None:
        self.problems.append(Problem(message, "", *(place or (None, None))))


_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null"))
_WORDS: Mapping[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]{1,100}|0x[0-9a-fA-F]{1,80}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _resolved(text: str) -> Scalar:
    """Returns the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 16 if text.startswith("0x") else 10)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _place(event: yaml.Event) -> Place:
    assert event.start_mark is not None, "the parser marks every event"
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _fatal(message: str, event: yaml.Event) -> InvalidInput:
    return InvalidInput((Problem(message, "", *_place(event)),))


def _unreadable(error: yaml.MarkedYAMLError, text: str) -> InvalidInput:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return InvalidInput.one(f"not valid YAML: {error.problem}")
    return InvalidInput((Problem(_explained(error, text, mark), "", mark.line + 1, mark.column + 1),))


def _explained(error: yaml.MarkedYAMLError, text: str, mark: yaml.Mark) -> str:
    """Returns the parser's message, or a clearer one for a common mistake."""
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[mark.column : mark.column + 1] == "\t":
        return "a tab: YAML is indented with spaces"
    if "mapping values are not allowed" in (error.problem or ""):
        return "not valid YAML: a second ': ' in one line. Put the text in quotes."
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML: {error.problem}{context}"
