"""The text of a scenario, in one file or several → documents."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runrig.domain.errors import InvalidInput, Problem
from runrig.kueue.read.tree import Report, Value, values
from runrig.spec.jsontree import read_json
from runrig.spec.yamltree import Document, decoded, read_documents

LARGEST_YAML = 20 * 1024 * 1024
LARGEST_JSON = 256 * 1024 * 1024
"""Bytes of one file that are read."""

_LIKE_JSON = re.compile(r"\ufeff?[ \t\r\n]*\{")
_SURELY_JSON = 1024 * 1024
"""A longer text that looks like JSON is not tried as YAML, which would take minutes to say what is wrong."""


class File(NamedTuple):
    """*name*: for messages; empty if there is only one."""

    name: str
    text: bytes | str


def read_files(files: Iterable[File], report: Report, what: str) -> Iterator[Value]:
    """All documents.  Raises InvalidInput where a text cannot be read.  *what* names a file without a name there."""
    for file in files:
        try:
            documents = _documents(file.text, f"file {file.name}" if file.name else what)
        except InvalidInput as error:
            if not file.name:
                raise
            problems = tuple(
                Problem(f"{file.name}: {each.message}", each.path, each.line, each.column) for each in error.problems
            )
            raise InvalidInput(problems) from None
        yield from values(documents, report, file.name)


def _documents(data: bytes | str, what: str) -> tuple[Document, ...]:
    if len(data) > LARGEST_JSON:
        raise InvalidInput.one(f"the {what} has {len(data):,} bytes: at most {LARGEST_JSON:,} are read")
    text = decoded(data, what) if isinstance(data, bytes) else data
    if not _LIKE_JSON.match(text):
        if len(text) > LARGEST_YAML:
            way_out = f"at most {LARGEST_YAML:,} are read of YAML. Use JSON (kubectl get -o json)"
            raise InvalidInput.one(f"the {what} has {len(text):,} bytes: {way_out}, of which {LARGEST_JSON:,} are read")
        return read_documents(text, what, LARGEST_YAML)
    try:
        return read_json(text.removeprefix("\ufeff"), what)
    except InvalidInput:
        # A mapping of YAML in braces, or documents between lines of dashes; and YAML has places for what is wrong.
        if len(text) > _SURELY_JSON:
            raise
        return read_documents(text, what, LARGEST_YAML)
