"""The ledger has two ways in: `apply` for decisions, `restore` for stored rows."""

import ast
from collections.abc import Iterator
from pathlib import Path

import runrig.engine
from runrig.engine.ledger.queue import Entry

ENGINE = Path(runrig.engine.__file__).parent


def writes_to_entries(source: str) -> Iterator[str]:
    """``attribute, line`` of each assignment to a name that is an attribute of `Entry`, except an object's own."""
    names = set(Entry.__slots__)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store) or node.attr not in names:
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield f"{node.attr}, line {node.lineno}"


def test_only_the_ledger_writes_to_its_entries() -> None:
    found = {
        str(path.relative_to(ENGINE)): list(writes_to_entries(path.read_text(encoding="utf-8")))
        for room in ("state", "preemption", "scheduling", "explain", "lifecycle", "placement")
        for path in sorted((ENGINE / room).rglob("*.py"))
    }
    assert len(found) > 15
    assert {path: writes for path, writes in found.items() if writes} == {}


def test_a_write_from_outside_is_found() -> None:
    source = "def f(entry):\n    entry.placement, entry.request = (), ()\n    self.law = 1\n"
    assert list(writes_to_entries(source)) == ["placement, line 2", "request, line 2"]
