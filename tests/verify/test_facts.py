"""What a commit says beside its events: refusals, searches, and placements that were not proven (docs/event-export.md)."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.errors import Refused
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.engine.lifecycle import submission_gate
from runrig.engine.placement import best_fit, exact_search
from runrig.service.commands.submission import Submission
from runrig.service.runtime.about import COMMITS_EACH, MOST_REFUSED
from runrig.service.runtime.writing import Command, Job, Writing
from runrig.verify.reading import commits
from runrig.verify.verify import Checker
from tests.worlds.service import Desk, desk, do, one_task

TWO_SHAPES = """
workflow:
  name: two
  groups:
  - name: main
    tasks:
    - {name: x, image: any, command: [sleep, '1'], resource: small, count: 2, lead: true}
    - {name: y, image: any, command: [sleep, '1'], resource: large}
  resources:
    small: {gpu: 2, cpu: 1}
    large: {gpu: 3, cpu: 1}
"""
RACKS = """
pools:
- {name: pool1, quota: 4, topology_keys: [{key: rack, label: rack}]}
- {name: pool2, quota: 4}
"""
IN_A_RACK = """
workflow:
  name: firm
  tasks:
  - {name: main, image: any, command: [sleep, '1'], count: 2, resource: one, duration: 100}
  resources:
    one: {gpu: 2, topology: [{key: rack}]}
"""


def facts(folder: Path, name: str) -> list[tuple[int, Any]]:
    with closing(sqlite3.connect(folder / "runrig.db")) as connection:
        rows = connection.execute(
            "SELECT revision, about FROM events WHERE about IS NOT NULL ORDER BY revision"
        ).fetchall()
    said = [(at, json.loads(about)) for at, about in rows]
    return [(at, about[name]) for at, about in said if name in about]


def refused(server: Desk, name: str, gpus: int) -> None:
    with pytest.raises(Refused):
        server.submit(name, "pool1", gpus=gpus)


def test_the_next_commit_has_what_the_gate_refused(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        refused(server, "large", 3)
        server.submit("w", "pool1")
        refused(server, "later", 5)
        revision = server.revision
        server.later(1)
    (first, (large,)), (second, (later,)) = facts(tmp_path, "refused")
    assert (first, second) == (revision, revision + 1)
    assert {name: large[name] for name in ("user", "law", "numbers")} == {
        "user": "ann",
        "law": "P3",
        "numbers": {"asked": 3, "limit": 2, "pool": "pool1", "resource": "default/gpu"},
    }
    assert (large["gang"]["id"], large["gang"]["pool"], large["gang"]["priority"]) == (
        "large-1/main-group",
        "pool1",
        "NORMAL",
    )
    assert later["gang"]["pod_sets"][0]["requests"] == [["gpu", 5], ["pods", 1]]
    (commit,) = [each for each in commits(str(tmp_path / "runrig.db")) if each.revision == first]
    assert commit.refused == [large]  # type: ignore[union-attr]


def batch(server: Desk, **gpus: int) -> None:
    """All or nothing."""
    several = [Submission(one_task(name, gpus=each), "pool1", "ann") for name, each in gpus.items()]
    outcomes = server.service.batches.submit(several, key=None, together=True)
    assert any(isinstance(each, Refused) for each in outcomes)


def test_the_next_commit_has_what_was_refused_of_a_batch(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        batch(server, large=3, small=1, larger=4)
        server.submit("w")
        batch(server, **{f"large-{each}": 3 for each in range(MOST_REFUSED + 5)})
        server.submit("w")
    (_, first), (_, second) = facts(tmp_path, "refused")
    assert [(each["user"], each["gang"]["id"]) for each in first] == [
        ("ann", "large-1/main-group"),
        ("ann", "larger-1/main-group"),
    ]
    assert len(first) + len(second) == MOST_REFUSED


def test_a_dry_run_is_not_in_the_log(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        with pytest.raises(Refused):
            server.service.submissions.check(Submission(one_task("large", gpus=3), "pool1", "ann"))
        server.submit("w")
    assert facts(tmp_path, "refused") == []


def test_a_wrong_refusal_is_reported_however_it_was_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, judged=False) as server:
        first = server.submit("first", gpus=2)
        submissions = server.service.submissions
        with monkeypatch.context() as patched:
            patched.setattr(submission_gate, "most_ever", lambda leaf, index: 1)
            batch(server, large=3, two=2, one=1)
            refused(server, "alone", 2)
            for command in (
                submissions.submitting_again(first, pool="pool1", user="bob"),
                submissions.reassigning(first, user="bob", pool="pool2", priority=None),
            ):
                with pytest.raises(Refused):
                    do(server.service, command)
        server.submit("w")
    reports = Checker().read(commits(str(tmp_path / "runrig.db")))
    assert [(each.law, each.who) for each in reports] == [
        ("P3", f"{name}/main-group") for name in ("two-1", "alone-1", "first-2", "first-1")
    ]


def test_refusals_cannot_fill_the_log(tmp_path: Path) -> None:
    with desk(tmp_path) as server:
        server.later(1)
        for turn in range(3):
            for each in range(MOST_REFUSED + 5):
                refused(server, f"large-{turn}-{each}", 3)
            server.submit("w", "pool1")
        server.later(1)
        revision = server.revision
    counts = [len(said) for _, said in facts(tmp_path, "refused")]
    assert counts[0] == MOST_REFUSED
    assert sum(counts) <= MOST_REFUSED + revision // COMMITS_EACH + 1


@pytest.mark.parametrize("unstorable", ["a\0b", "\ud800", float("nan"), {1}, {None: 1, "b": 2}])
def test_a_refusal_that_cannot_be_stored_does_not_fail_the_next_commit(tmp_path: Path, unstorable: object) -> None:
    def decide(_: Writing) -> None:
        raise Refused("no", "P3", {"key": unstorable})

    def command() -> Command[None]:
        yield Job("eve", decide)

    with desk(tmp_path) as server:
        with pytest.raises(Refused):
            do(server.service, command())
        refused(server, "large", 3)
        server.submit("w")
    ((_, (large,)),) = facts(tmp_path, "refused")
    assert large["user"] == "ann"


def test_a_refusal_that_takes_long_to_store_is_not_recorded(tmp_path: Path) -> None:
    names = [f"t{at}" for at in range(800)]
    tasks = [
        {"name": name, "image": "any", "command": ["x"], "resource": "one", "lead": name == "t0"} for name in names
    ]
    spec = {"name": "large", "groups": [{"name": "g", "tasks": tasks}], "resources": {"one": {"gpu": 1}}}
    text = json.dumps({"workflow": spec})
    with desk(tmp_path) as server:
        with pytest.raises(Refused):
            server.submit("large", text=text)
        refused(server, "small", 3)
        server.submit("w")
    ((_, (small,)),) = facts(tmp_path, "refused")
    assert small["gang"]["id"] == "small-1/main-group"


def test_a_nomination_says_how_far_the_search_went(tmp_path: Path) -> None:
    nodes = tuple(Node(f"n{at}", {"gpu": 2}, labels={"rack": f"r{at // 2}"}) for at in range(4))
    with desk(tmp_path, nodes=nodes, cluster=RACKS) as server:
        for each in range(8):
            server.submit(f"low-{each}", "pool2", Priority.LOW)
        server.later(1)
        server.submit("firm", "pool1", text=IN_A_RACK)
        server.later(1)
        server.submit("second", "pool2", gpus=2)
        server.later(1)
    (_, firm), (_, second) = facts(tmp_path, "searched")
    assert firm == {"firm-1/main-group": [2, 1, 0]}
    assert second.keys() == {"second-1/main-group"}
    assert second["second-1/main-group"][0] == second["second-1/main-group"][2] == 0


@pytest.mark.parametrize("limited", [False, True])
def test_a_placement_that_was_not_proven_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, limited: bool
) -> None:
    if limited:
        monkeypatch.setattr(best_fit, "PACKING_STEPS", 0)
        monkeypatch.setattr(exact_search, "BUDGET", 1)
    nodes = Node("n0", {"gpu": 4, "cpu": 2000}), Node("n1", {"gpu": 3, "cpu": 4000})
    with desk(tmp_path, nodes=nodes, cluster="pools: [{name: pool1, quota: 7}]") as server:
        server.submit("two", text=TWO_SHAPES)
        server.later(1)
        server.submit("w")
        server.later(1)
    assert {gang for _, gangs in facts(tmp_path, "unproven") for gang in gangs} == (
        {"two-1/main"} if limited else set()
    )
