"""One fact, one record: how many answers repeat a record from inside, so that a field is added twice."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.test_docs import ROOT

REPEATS = {
    "wire/pools.py: SaidRequest": "a request: a note of the history before it was checked",
    "wire/v1/access.py: TokenEdit": "a request: only the fields that change",
    "wire/v1/notices.py: NoticesRequest": "a request: what a user can set, checked",
    "wire/v1/sessions.py: ExecStart": "a request: bounds of what a backend takes",
    "wire/v1/sessions.py: PortForwardStart": "a request: bounds of what a backend takes",
    "wire/v1/sessions.py: Terminal": "a request: bounds of what a backend takes",
    "wire/v1/workflows.py: WorkflowFile": "a request: strict, and a batch has several for one set of options",
    "domain/shown/access.py: Token": "times are instants here, seconds inside; no secret's hash",
    "domain/shown/access.py: User": "the time is an instant here, seconds inside; roles by name",
    "domain/shown/notices.py: NoticeSettings": "all fields also exist where notices are off; the time is an instant",
    "domain/shown/pools.py: DeclaredPool": "derived: these are the inherited fields that JSON has in another type",
    "domain/shown/pools.py: Pool": "an answer names the backend, which the service's view of a pool does not know",
    "domain/shown/workflows.py: TaskAttempt": "times are instants here, seconds inside; 7 inner fields stay inside",
    "domain/shown/workflows.py: WorkflowHead": "times are instants here, seconds inside; 8 inner fields stay inside",
}
"""The answers that still repeat an inner record, and why.  The list may only get shorter."""
ACCIDENTS = {
    "wire/access.py: RoleGrantRequest": (
        {"RoleGrant"},
        "`role` is a role's whole name; in a cluster file its pool is apart",
    ),
    "wire/access.py: UserCreateRequest": ({"TokenRow"}, "of a user: not of a token, which also has a name and roles"),
    "wire/accounts.py: AccountCreateRequest": (
        {"TokenRow"},
        "of a user: not of a token, which also has an ID and roles",
    ),
    "wire/v1/pools.py: PoolCreate": (
        {"Cohort", "Declared", "QueueCohort", "Subgroup", "Workflow"},
        "its settings are inherited; `name` is the short name of a subpool, which no record inside has",
    ),
    "domain/shown/access.py: MyToken": ({"TokenRow"}, "a single sign-on too, which has no row"),
    "domain/shown/nodes.py: GpuHolder": (
        {"ListedTask", "LogRequest", "TaskCount", "TaskKey"},
        "both null for work that the asker may not see; the others always name a task",
    ),
    "domain/shown/plans.py: PlanDrain": ({"PoolView"}, "what a drain would end, not what the pool has"),
    "domain/shown/topology.py: Others": ({"Queued"}, "gangs that run in a domain; those others wait in a pool"),
}
"""Answer → the records inside that have fields of the same names but for other facts, and the difference."""
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


def test_only_these_responses_repeat_an_inner_record() -> None:
    """Shown values count as well, so that nothing is won by moving a record from `wire/` to where they are."""
    everywhere = [each for folder in _INSIDE for each in _records(folder)]
    inside = [each for each in everywhere if not each[0].is_relative_to(_SHOWN)]
    answers = [*_records("wire"), *(each for each in everywhere if each[0].is_relative_to(_SHOWN))]
    found = {
        f"{file}: {name}": {other for _, other, theirs in inside if len(fields & theirs) >= SHARED * len(fields)}
        for file, name, fields in answers
    }
    accidents = {name: found[name] for name in ACCIDENTS}
    assert accidents == {name: others for name, (others, _) in ACCIDENTS.items()}
    assert {name for name, others in found.items() if others} - set(ACCIDENTS) == set(REPEATS)
    assert len(REPEATS) <= 15
