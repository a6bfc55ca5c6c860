"""The docs say what is: links lead somewhere, files that they show can be read, and nothing of the code is missing."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from docs import generate
from runrig.domain.errors import RunrigError
from runrig.domain.laws import NAMES
from runrig.domain.reasons import Code
from runrig.spec.cluster import read_cluster
from runrig.spec.template import render
from runrig.spec.workflow import read_workflow
from tests.worlds.engine import LOW, NORMAL, World

ROOT = generate.ROOT
PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in generate.pages()}
CODE = sorted((ROOT / "src").rglob("*.py"))

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
AVOIDED = ("victim", "preemptee", "reclaimee", "opportunistic", "over-quota", "overquota", "tenant", "decommission")
"""Words that the glossary has another one for, and that mean nothing else in our code."""


def blocks(kind: str) -> list[ParameterSet]:
    """The text of every fenced block that is marked as *kind*, with where it stands as its id."""
    found = []
    for name, text in PAGES.items():
        for match in re.finditer(rf"^```yaml {kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text[: match.start()].count("\n") + 2
            found.append(pytest.param(match[1], id=f"{name}:{line}"))
    return found


# ---------------------------------------------------------------- links between pages


def test_every_link_has_a_target() -> None:
    assert list(generate.broken_links()) == []


def test_generated_sections_match_the_code() -> None:
    """`make docs` brings them up to date."""
    assert list(generate.stale()) == []


def test_every_page_is_linked_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
            waiting += [(page.parent / link).resolve() for link in links if "://" not in link]
    assert {str(page.relative_to(ROOT)) for page in reached} == set(PAGES)


def test_every_rule_named_in_the_code_is_in_the_laws() -> None:
    named = dict(re.findall(r"^\| \*\*([A-Z][0-9])\*\* ([^|]*) \|", PAGES["docs/laws.md"], re.MULTILINE))
    assert named == NAMES
    cited = {
        law
        for file in CODE
        for words in re.findall(
            r"\b(?:laws?|rules?) ([A-Z][0-9](?:(?:, | and |-)[A-Z][0-9])*)", file.read_text(encoding="utf-8")
        )
        for law in re.findall(r"[A-Z][0-9]", words)
    }
    assert cited - set(named) == set()


# ---------------------------------------------------------------- pages compared with the code


@pytest.mark.parametrize("text", blocks("workflow"))
def test_shown_workflow_file_is_valid(text: str) -> None:
    assert read_workflow(render(text)).groups


@pytest.mark.parametrize("text", blocks("cluster"))
def test_shown_cluster_file_is_valid(text: str) -> None:
    assert read_cluster(text).pools


def test_every_named_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    marked = " ".join(re.findall(r"`[^`\n]+`|^make .*$", "\n".join(PAGES.values()), re.MULTILINE))
    named = {
        word
        for words in re.findall(r"\bmake ((?:[a-z0-9]+(?: \| | )?)+)", marked)
        for word in re.findall("[a-z0-9]+", words)
    }
    assert named - targets == set()
    assert {"demo", "test"} <= named


def test_every_shown_command_exists() -> None:
    """In what the pages show as typed; the reference itself is generated."""
    there = {name for name, _, _ in generate.commands()}
    groups = {name.rsplit(" ", 1)[0] for name in there}
    typed = {
        words.strip()
        for name, text in PAGES.items()
        for words in re.findall(r"`(?:\$ )?runrig((?: [a-z]+)+)|^\$ \S*runrig((?: [a-z]+)+)", text, re.MULTILINE)
        for words in words
        if words
    }
    unknown = {
        words for words in typed if not any(f"runrig {words} ".startswith(f"{name} ") for name in there | groups)
    }
    assert unknown == set()


def test_every_command_error_and_reason_is_in_the_reference() -> None:
    names = [name for name, _, _ in generate.commands()]
    page = PAGES["docs/cli.md"]
    assert [name for name in names if f"### {name}\n" not in page and f"Same as `{name}`." not in page] == []
    kinds = [kind for kind in RunrigError.__subclasses__() if kind.__module__ == RunrigError.__module__]
    codes = [kind.code for kind in kinds] + [code.value for code in Code]
    assert [code for code in codes if f"| `{code}` |" not in PAGES["docs/reference/messages.md"]] == []


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGES["docs/properties.md"]))
    missing = {
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8"))
    }
    assert missing == set()


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_every_named_path_exists() -> None:
    laws = re.findall(r"`((?:domain|engine|spec|service|store|backends)/[\w/]*(?:\.py)?)`", PAGES["docs/laws.md"])
    others = re.findall(r"`(src/runrig/[\w/]+(?:\.py)?|tests/[\w/]+(?:\.py)?)`", "\n".join(PAGES.values()))
    paths = {Path("src/runrig") / path for path in laws} | {Path(path) for path in others}
    assert {str(path) for path in paths if not (ROOT / path).exists()} == set()


def names_of_the_code() -> Iterator[str]:
    """`module.py`, `module.name` with its packages before it, and `Class.member`, of everything below src/runrig."""
    for file in CODE:
        module = file.relative_to(ROOT / "src" / "runrig").with_suffix("").parts
        tails = [".".join(module[start:]) for start in range(len(module))]
        yield file.name
        for top in parsed(file).body:
            names = [top.name] if isinstance(top, DEFINITIONS) else [name.id for name in assigned(top)]
            yield from (f"{tail}.{name}" for tail in tails for name in names)
            if isinstance(top, ast.ClassDef):
                yield from (f"{top.name}.{member}" for member in members(top))


def assigned(statement: ast.stmt) -> Iterator[ast.Name]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return (target for target in targets if isinstance(target, ast.Name))


def members(defined: ast.ClassDef) -> Iterator[str]:
    """Its fields, its methods, and what they set on self."""
    for node in ast.walk(defined):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from (name.id for name in assigned(node))


def test_every_name_in_the_architecture_exists() -> None:
    named = re.findall(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`", PAGES["docs/architecture.md"])
    assert {name for name in named if not name.endswith(".py")} - set(names_of_the_code()) == set()
    assert {"State.apply", "cycle.run"} <= set(named)


@pytest.mark.parametrize("word", AVOIDED)
def test_code_uses_the_terms_of_the_glossary(word: str) -> None:
    pattern = re.compile(rf"\b{word}s?\b", re.IGNORECASE)
    using = [str(file.relative_to(ROOT)) for file in CODE if pattern.search(file.read_text(encoding="utf-8"))]
    assert using == []


def test_example_of_preemption_matches_the_engine() -> None:
    """docs/preemption.md, an example in numbers; laws R1, R2, R3."""
    world = World({"blue": 2, "green": 4, "red": 4}, {"n0": 10})
    for name, pool, priority, gpus in (
        ("r1", "red", NORMAL, 2),
        ("r2", "red", LOW, 1),
        ("g1", "green", NORMAL, 2),
        ("b1", "blue", LOW, 2),
        ("b2", "blue", LOW, 2),
        ("b3", "blue", LOW, 1),
    ):
        world.submit(name, pool, priority, gpus)
        assert world.cycle() == [f"admit {name}"]
    world.submit("g2", "green", NORMAL, 2)
    assert world.cycle() == ["nominate g2", "preempt b2 for g2 (RECLAIM)"]
    assert world.cycle() == ["admit g2"]
    world.submit("g3", "green", NORMAL, 1)
    assert world.cycle() == []
    world.submit("r3", "red", NORMAL, 2)
    assert world.cycle() == ["nominate r3", "preempt b3 for r3 (RECLAIM)", "preempt r2 for r3 (PRIORITY)"]
    assert world.cycle() == ["admit r3"]
