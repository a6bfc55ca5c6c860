"""Logs that tests make are judged by `runrig verify`, which shares no code with the server that decided.

judge(folder / "runrig.db")          # of a server, also while it runs; or the URL of its database
judge_commits(driver.commits)        # of an engine without a store
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from runrig.domain.plan import Action, Submit
from runrig.domain.workflows import WorkflowSpec
from runrig.store.codec import encode_action
from runrig.verify.court import Commit
from runrig.verify.verify import LAWFUL, Checker, check
from runrig.wiring.event_export import export_events


def judge(database: Path | str) -> None:
    """Fails with each unlawful decision, and if the chain of hashes is broken."""
    said: list[str] = []
    with TemporaryDirectory() as folder:
        path = str(database)
        if "://" in path:
            path = f"{folder}/events.jsonl"
            with Path(path).open("w", encoding="utf-8") as out:
                export_events(str(database), out)
        code = check(path, since=0, laws=(), head="", as_json=False, say=said.append)
    assert code == LAWFUL, "\n".join(said)


def judge_commits(commits: Sequence[Commit]) -> None:
    assert [str(each) for each in Checker().read(commits)] == []


def commit_of(
    revision: int, at: float, actions: Iterable[Action], specs: Mapping[str, WorkflowSpec], *, end: bool | None
) -> Commit:
    """*end*: a cycle ends with it; None: it is a command. *specs*: by hash."""
    events = []
    for action in actions:
        kind, plain = encode_action(action)
        if isinstance(action, Submit):
            groups = specs[action.workflow.spec_hash].groups
            plain["workflow"]["upstream"] = {each.name: each.upstream for each in groups}
        events.append((kind, plain))
    return Commit(revision, at, "u" if end is None else "engine", events, bool(end))
