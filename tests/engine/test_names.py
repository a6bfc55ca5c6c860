"""One name per concept: no public name is defined twice in the engine, and dropped names are not used again."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import runrig

ROOT = Path(runrig.__file__).parent
ENGINE = ROOT / "engine"
IMPORTED = ROOT / "kueue" / "engine"

MAY_HAVE_TWO_HOMES: frozenset[str] = frozenset()
"""Public classes and functions that two modules of the engine may define all the same."""

FORMER_MODULES = {
    "engine": "near needs noderoom room space nearest search seats clearing footprints refusals losses replacing outline survey figures "
    "world book line work rooms spots places counts placing forest exits balance",
    "service": "door stories sight endings drains shares anonymous",
    "wiring": "wiring_serve wiring_process",
    "backends": "making seen claim",
    "cli": "place clean",
    "api": "shape",
}
"""Module names that the code had before, by package."""

FORMER_CLASSES = "Near Knot Need Put Wanted Forest Book Told Cleared Lot Word Taken Reign House Rest"
FORMER_NAMES = (
    "dealt settle DECIDED_AND_STILL_THERE spoken capping outer let_try seated told lot spots word line lines book"
)
"""Functions, constants and attributes of the engine.  Those with a second meaning (`counts`, `room`, `over`) are not listed."""


def _modules(*packages: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(path for package in packages for path in package.rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def _names(module: ast.Module) -> Iterator[str]:
    """Classes, functions, methods, module constants and attributes: in a class body, in slots, or set on self."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from _targets(node.body)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    yield from _targets(module.body)


def _targets(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_public_class_or_function_is_defined_in_two_modules() -> None:
    homes = defaultdict(list)
    for path, module in _modules(ENGINE, IMPORTED):
        for node in module.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                homes[node.name].append(path)
    assert homes["QuotaNode"] == ["engine/quota/quota_node.py"]
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert twice.keys() == MAY_HAVE_TWO_HOMES, twice


def test_no_module_has_a_dropped_name() -> None:
    stems = {
        package: {path.stem for path in (ROOT / package).rglob("*.py")}
        | {path.name for path in (ROOT / package).iterdir()}
        for package in FORMER_MODULES
    }
    assert "cycle" in stems["engine"]
    assert {
        package: sorted(stems[package].intersection(former.split())) for package, former in FORMER_MODULES.items()
    } == {package: [] for package in FORMER_MODULES}


def test_nothing_in_the_engine_has_a_dropped_name() -> None:
    former = {*FORMER_CLASSES.split(), *FORMER_NAMES.split()}
    names = {path: {name.lstrip("_") for name in _names(module)} for path, module in _modules(ENGINE, IMPORTED)}
    assert {"SchedulerContext", "queues", "reach"} <= names["kueue/engine/scheduler_context.py"]
    assert {path: sorted(found & former) for path, found in names.items() if found & former} == {}
