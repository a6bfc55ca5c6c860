"""Parses the files of a scenario into documents."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runrig.domain.errors import InvalidInput, Problem
from runrig.kueue.read.tree import Report, Value, values
from runrig.spec.jsontree import read_json
from runrig.spec.yamltree import Document, decoded, read_documents

LARGEST_YAML = 20 * 1024 * 1024
LARGEST_JSON = 256 * 1024 * 1024
"""Maximum size of a file, in bytes."""

_LIKE_JSON = re.compile(r"\ufeff?[ \t\r\n]*\{")
_SURELY_JSON = 1024 * 1024
"""Longer text that looks like JSON is not parsed as YAML, because finding its error would take minutes."""


class File(NamedTuple):
    """*name*: for messages; empty if there is only one file."""

    name: str
    text: bytes | str


def read_files(files: Iterable[File], report: Report, what: str) -> Iterator[Value]:
    """Yields all documents. Raises InvalidInput if a file cannot be parsed. *what*: what messages call a file without a
    name.
    """
    for file in files:
        try:
            documents = _documents(file.text, "file" if file.name else what)
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
        raise InvalidInput.one(f"the {what} is too large ({len(data):,} bytes, maximum {LARGEST_JSON:,})")
    text = decoded(data, what) if isinstance(data, bytes) else data
    if not _LIKE_JSON.match(text):
        if len(text) > LARGEST_YAML:
            way_out = f"the limit for YAML is {LARGEST_YAML:,}. Use JSON (kubectl get -o json)"
            raise InvalidInput.one(f"the {what} has {len(text):,} bytes: {way_out}, with a limit of {LARGEST_JSON:,}")
        return read_documents(text, what, LARGEST_YAML)
    try:
        return read_json(text.removeprefix("\ufeff"), what)
    except InvalidInput:
        # It may be a YAML mapping in braces, or documents separated by dashes. YAML errors also have positions.
        if len(text) > _SURELY_JSON:
            raise
        return read_documents(text, what, LARGEST_YAML)
