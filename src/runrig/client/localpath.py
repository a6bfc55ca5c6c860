"""`localpath` of a task's files: copies a local file into the workflow file as `contents`.

Replaces the value within its line, so that line numbers in the server's errors still match the user's file.
"""

from collections.abc import Iterator
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from runrig.domain.errors import InvalidInput, Problem
from runrig.spec.one_task import quoted
from runrig.spec.regular_file import regular_file

LARGEST_BYTES = 1024 * 1024
KEY = "localpath"


def inlined(text: str, folder: Path) -> str:
    """Returns *text* with every ``localpath: FILE`` replaced by ``contents: "…"``. FILE is relative to *folder*.

    Raises InvalidInput for all files that are missing, too large or not text. Returns invalid YAML unchanged: the
    workflow parser has better errors for it.
    """
    if KEY not in text:
        return text
    problems: list[Problem] = []
    # From the end, so that replacements do not move the remaining places.
    for key, value in sorted(_places(text), key=lambda pair: -pair[0].start_mark.index):
        try:
            contents = quoted(_contents(folder / value.value.strip()))
        except ValueError as error:
            mark = value.start_mark
            problems.append(Problem(f"localpath {value.value!r} {error}", KEY, mark.line + 1, mark.column + 1))
            continue
        begin, end = value.start_mark.index, value.end_mark.index
        end = begin + len(text[begin:end].rstrip())  # A folded value ends after its newline.
        text = f"{text[: key.start_mark.index]}contents: {contents}{text[end:]}"
    if problems:
        raise InvalidInput(tuple(reversed(problems)))
    return text


def _places(text: str) -> list[tuple[ScalarNode, ScalarNode]]:
    """Returns the ``localpath`` keys and their values."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return []
    return [] if root is None else list(_files(root))


def _files(root: Node) -> Iterator[tuple[ScalarNode, ScalarNode]]:
    pending, seen = [root], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in seen:  # An alias: its text occurs only once.
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            pending += node.value
        elif isinstance(node, MappingNode):
            pending += [value for _, value in node.value]
            for key, value in _entries(node):
                if key.value == "files" and isinstance(value, SequenceNode):
                    for file in value.value:
                        if isinstance(file, MappingNode):
                            yield from (
                                (k, v) for k, v in _entries(file) if k.value == KEY and isinstance(v, ScalarNode)
                            )


def _entries(mapping: MappingNode) -> Iterator[tuple[ScalarNode, Node]]:
    yield from ((key, value) for key, value in mapping.value if isinstance(key, ScalarNode))


def _contents(file: Path) -> str:
    """Raises ValueError with the end of a sentence about *file*."""
    try:
        with regular_file(file).open("rb") as stream:
            raw = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror} ({file})") from None
    if len(raw) > LARGEST_BYTES:
        raise ValueError(f"is larger than {LARGEST_BYTES // 1024 // 1024} MiB. Store it where the task can download it")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text. A workflow file can contain only text") from None
