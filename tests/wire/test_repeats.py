"""One fact, one record: how many answers repeat a record from inside, so that a field is added twice."""

import ast
from collections.abc import Iterator
from pathlib import Path

from runrig.domain.pools import Declared
from runrig.domain.shown import pools
from tests.docs.test_docs import ROOT

REPEATS = {
    "wire/v1/access.py: UserCreateRequest": "a request; by chance a token has a name and roles as well",
    "api/osmo/models/access.py: AccountCreateRequest": "a request; by chance a token has an ID and roles as well",
    "wire/v1/access.py: TokenEdit": "a request: only the fields that change",
    "wire/v1/access.py: NoticesRequest": "a request: what a user can set, checked",
    "wire/v1/pools.py: PoolCreate": "a request: `name` is the short name of a subpool, which no record inside has",
    "wire/v1/sessions.py: ExecStart": "a request: bounds of what a backend takes",
    "wire/v1/sessions.py: PortForwardStart": "a request: bounds of what a backend takes",
    "wire/v1/workflows.py: WorkflowFile": "a request: strict, and a batch has several for one set of options",
    "domain/shown/access.py: MyToken": "a single sign-on too, which has no row; the time is an instant here",
    "domain/shown/access.py: Token": "times are instants here, seconds inside; no secret's hash",
    "domain/shown/access.py: User": "the time is an instant here, seconds inside; roles by name",
    "domain/shown/nodes.py: GpuHolder": "both null for work that the asker may not see; the others always name a task",
    "domain/shown/notices.py: NoticeSettings": "all fields also exist where notices are off; the time is an instant",
    "domain/shown/workflows.py: TaskAttempt": "times are instants here, seconds inside; 7 inner fields stay inside",
    "domain/shown/workflows.py: WorkflowHead": "times are instants here, seconds inside; 8 inner fields stay inside",
}
"""Everything that still repeats an inner record, on purpose or by chance, and why.  The list may only get shorter."""
SHARED = 0.7
"""With so much of its fields in common it repeats the other record."""
_OUTSIDE = ("wire", "api", "client", "http", "osmo")
_INSIDE = ("domain", "engine", "kueue", "service", "ports", "spec")
_SHOWN = Path("domain", "shown")

Record = tuple[Path, str, frozenset[str]]


def _records(folder: str) -> Iterator[Record]:
    """The classes with at least two fields in a folder of the package: file, name and fields, without those of base classes."""
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


def test_only_these_repeat_an_inner_record() -> None:
    """A record repeats another of which it is no subclass if they share most names of fields, whatever these mean.

    Shown values count as well, and the models of `api/`, so that nothing is won by moving a record from `wire/` to where they are.
    """
    everywhere = [each for folder in _INSIDE for each in _records(folder)]
    inside = [each for each in everywhere if not each[0].is_relative_to(_SHOWN)]
    outside = [each for folder in _OUTSIDE for each in _records(folder)]
    outside += (each for each in everywhere if each[0].is_relative_to(_SHOWN))
    found = {
        f"{file}: {name}"
        for file, name, fields in outside
        if any(len(fields & theirs) >= SHARED * len(fields) for _, _, theirs in inside)
    }
    derived = "domain/shown/pools.py: DeclaredPool"
    assert issubclass(pools.DeclaredPool, Declared), "what it names again is the type that a field has in JSON"
    assert found - {derived} == set(REPEATS)
    assert len(REPEATS) <= 15
