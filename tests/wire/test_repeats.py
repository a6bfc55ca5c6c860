"""One fact, one record: how many answers repeat a record from inside, so that a field is added twice."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.test_docs import ROOT

REPEATS = 31
"""As many as there are.  It may only fall: whoever removes one writes the new number here."""
SHARED = 0.7
"""With so much of its fields in common it repeats the other record."""
_INSIDE = ("domain", "engine", "kueue", "service", "ports", "spec")
_SHOWN = Path("domain", "shown")

Record = tuple[Path, str, frozenset[str]]


def _records(folder: str) -> Iterator[Record]:
    """The classes with at least two fields in a folder of the package: file, name and fields."""
    package = ROOT / "src" / "runrig"
    for file in sorted((package / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                fields = frozenset(
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign)
                    and isinstance(each.target, ast.Name)
                    and not each.target.id.startswith("_")
                    and "ClassVar" not in ast.unparse(each.annotation)
                )
                if len(fields) > 1:
                    yield file.relative_to(package), node.name, fields


def test_number_of_responses_that_repeat_an_inner_record_only_falls() -> None:
    """Shown values count as well, so that nothing is won by moving a record from `wire/` to where they are."""
    everywhere = [each for folder in _INSIDE for each in _records(folder)]
    inside = [fields for file, _, fields in everywhere if not file.is_relative_to(_SHOWN)]
    answers = [*_records("wire"), *(each for each in everywhere if each[0].is_relative_to(_SHOWN))]
    found = [
        f"{file}: {name}"
        for file, name, fields in answers
        if any(len(fields & other) >= SHARED * len(fields) for other in inside)
    ]
    assert len(found) == REPEATS, "\n".join(found)
