"""The files of tests that a change can break, one a line: ``make affected``, or ``python -m tests.affected [COMMIT]``.

What changed is the working tree beside COMMIT (else where this branch left main).  A file of tests is affected if it reaches a
changed file: by imports, those inside functions too; by the name of a module in a string, as the lazy tables of the command line
and programs that run as processes have it; or by a string that begins with the folder or name of a file that is read as data.
A data file inside a package counts as a change of the modules beside it.  Too many tests are better than one too few.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_ROOTS = {"runrig": "src/runrig", **{name: name for name in ("tests", "bench", "demo", "docs", "e2e")}}
"""Package to its folder."""
_NAMED = re.compile(rf"\b(?:{'|'.join(_ROOTS)})(?:\.\w+)+")
EVERYTHING = ("pyproject.toml", "uv.lock", "Makefile", "tests/conftest.py", "tests/tiers.py", "tests/costs.py")
"""A change of these concerns all tests."""


def modules() -> dict[str, Path]:
    """Name of each module to its file, relative to the repository."""
    found = {}
    for package, folder in _ROOTS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *(part for part in parts if part != "__init__")))
            found[name] = file.relative_to(ROOT)
    return found


def reached(text: str, package: str, known: Mapping[str, Path]) -> tuple[set[str], set[str]]:
    """The modules that the *text* of a module in *package* names, and the first parts of the paths that its strings may be."""
    names: set[str] = set()
    paths: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""  # the text of a docstring affects no test
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{_origin(node, package)}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(_NAMED.findall(node.value))
            paths.add(node.value.partition("/")[0])
    return {module for name in names for module in _known(name, known)}, paths


def _origin(node: ast.ImportFrom, package: str) -> str:
    """What *node* imports from, by its whole name: ``from ..a import b`` counts from *package* upwards."""
    around = package.split(".")
    above = around[: len(around) - node.level + 1] if node.level else []
    return ".".join((*above, *filter(None, (node.module,))))


def _known(name: str, known: Mapping[str, Path]) -> Iterator[str]:
    """The module *name*, or the one that has it, and the packages around it, which are imported before."""
    parts = name.split(".")
    yield from (each for each in (".".join(parts[:end]) for end in range(1, len(parts) + 1)) if each in known)


class Graph(NamedTuple):
    """*edges*: what each module reaches at once; *strings*: the first parts of the paths that its strings may be."""

    known: Mapping[str, Path]
    edges: Mapping[str, set[str]]
    strings: Mapping[str, set[str]]


@cache
def graph() -> Graph:
    """The modules of the working tree. Takes about three seconds."""
    known = modules()
    edges, strings = {}, {}
    for name, file in known.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        edges[name], strings[name] = reached(text, package, known)
        edges[name] |= _fixtures(name, text, known)
    return Graph(known, edges, strings)


def affected(changed: Iterable[str]) -> list[Path]:
    """The files of tests that one of *changed* (paths relative to the repository) can break."""
    known, edges, strings = graph()
    changed = set(changed)
    tests = [file for file in known.values() if file.parts[0] == "tests" and file.name.startswith("test_")]
    if changed.intersection(EVERYTHING):
        return tests
    dirty = {name for name, file in known.items() if str(file) in changed}
    for path in changed - {str(file) for file in known.values()}:
        beside = next((folder for folder in Path(path).parents if (ROOT / folder / "__init__.py").exists()), None)
        dirty |= {name for name, file in known.items() if file.parent == beside}
        dirty |= {name for name, found in strings.items() if Path(path).parts[0] in found and name.startswith("tests")}
    return [known[name] for name in sorted(_users(dirty, edges)) if known[name] in tests]


def _fixtures(name: str, text: str, known: Mapping[str, Path]) -> set[str]:
    """What gives a module of tests its fixtures, which come without an import."""
    around = {each for each in known if each.endswith(".conftest") and name.startswith(each.removesuffix("conftest"))}
    return (around - {"tests.conftest"}) | ({"tests.stores"} if "any_store" in text else set())


def _users(dirty: set[str], edges: Mapping[str, set[str]]) -> set[str]:
    """*dirty* and all that reach one of them."""
    users: dict[str, set[str]] = {}
    for name, used in edges.items():
        for each in used:
            users.setdefault(each, set()).add(name)
    found, ahead = set(dirty), list(dirty)
    while ahead:
        new = users.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def changes(commit: str | None) -> list[str]:
    """Paths that differ from *commit*; None: from where this branch left main."""
    base = commit or _git("merge-base", "HEAD", "main").strip()
    told = _git("diff", "--name-only", base) + _git("ls-files", "--others", "--exclude-standard")
    return told.splitlines()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    print(*affected(changes(sys.argv[1] if len(sys.argv) > 1 else None)), sep="\n")
