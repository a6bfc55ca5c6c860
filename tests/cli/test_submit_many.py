"""`runrig workflow submit` with several files: one request for all, and what became of each."""

import json
from pathlib import Path
from typing import Any

from runrig.wire import v1
from tests.cli.canned_server import answered, at, refused, serving
from tests.worlds.command_line import runrig

BATCH, CHECK = "POST /api/v1/workflows:batch", "POST /api/v1/workflows:check"
FILE = "workflow:\n  name: train\n  tasks:\n  - {name: main, image: any, command: [x]}\n"
REFUSED = refused("big needs 4 GPUs", "RESOURCE", law="P3")
PROBLEM = {"message": "unknown field 'imge'", "path": "workflow.imge", "line": 4, "column": 5}
WRONG = refused("unknown field 'imge'", "USAGE", problems=[PROBLEM])
FULL = (503, refused("not now", "UNAVAILABLE"))


def good(name: str, *warnings: str) -> dict[str, Any]:
    return {"id": name, "warnings": list(warnings), "problem": None}


def bad(problem: dict[str, Any]) -> dict[str, Any]:
    return {"id": None, "warnings": [], "problem": problem}


def answer(*results: dict[str, Any]) -> dict[str, Any]:
    return {"submitted": sum(each["problem"] is None for each in results), "outcomes": list(results)}


def files(folder: Path, many: int) -> list[str]:
    names = [folder / f"{letter}.yaml" for letter in "abcdefgh"[:many]]
    for name in names:
        name.write_text(FILE)
    return [str(name) for name in names]


def test_several_files_are_sent_in_one_request_and_listed_with_their_ids(tmp_path: Path) -> None:
    a, b = files(tmp_path, 2)
    with serving({BATCH: answer(good("train-1"), good("train-2", "image is ignored"))}) as server:
        done = at(server, "workflow", "submit", a, b, "-p", "p", "--priority", "LOW", "--set", "x=1")
    width = len(a)
    assert done.out.splitlines() == [
        f"{'File':{width}}  Workflow ID",
        f"{'-' * width}  -----------",
        f"{a}  train-1",
        f"{b}  train-2",
    ]
    assert (done.code, done.err) == (0, f"Warning: {b}: image is ignored\n")
    body = {"file": FILE, "variables": ["x=1"], "string_variables": []}
    whole = {"pool": "p", "priority": "LOW"}
    assert server.asked == [(BATCH, [], {**whole, "workflows": [body, body], "all_or_nothing": False})]


def test_refused_file_does_not_affect_the_others(tmp_path: Path) -> None:
    a, b, c = files(tmp_path, 3)
    said = {BATCH: answer(bad(WRONG), good("train-1"), bad(REFUSED))}
    done = answered(said, "workflow", "submit", a, b, c, "-p", "p")
    assert done.code == 1
    assert done.out.splitlines()[2:] == [f"{b}  train-1"]
    assert done.err.splitlines() == [
        f"{a}:4:5: unknown field 'imge'",
        f"{c}: big needs 4 GPUs",
        "1 of 3 files submitted",
    ]
    in_json = answered(said, "workflow", "submit", a, b, c, "-p", "p", "-t", "json")
    assert (in_json.code, in_json.err) == (1, "")
    found = json.loads(in_json.out)
    assert [each["file"] for each in found["submitted"]] == [b]
    assert [(each["file"], each["code"]) for each in found["failed"]] == [(a, "USAGE"), (c, "RESOURCE")]


def test_exit_code_is_that_of_the_only_kind_of_failure(tmp_path: Path) -> None:
    a, b = files(tmp_path, 2)
    assert answered({BATCH: answer(bad(WRONG), bad(WRONG))}, "workflow", "submit", a, b, "-p", "p").code == 2
    assert answered({BATCH: answer(bad(WRONG), bad(REFUSED))}, "workflow", "submit", a, b, "-p", "p").code == 1
    assert answered({BATCH: FULL}, "workflow", "submit", a, b, "-p", "p").code == 75


def test_more_than_a_thousand_files_are_sent_in_parts_with_progress(tmp_path: Path) -> None:
    (a,) = files(tmp_path, 1)
    parts = [(200, answer(*[good("t-1")] * 1000)), FULL]
    done = answered({BATCH: parts}, "workflow", "submit", *[a] * 1002, "-p", "p")
    assert done.code == 1
    assert len(done.out.splitlines()) == 2 + 1000
    said = done.err.splitlines()
    assert said == ["1,000 of 1,002 files sent", *[f"{a}: not now"] * 2, "1,000 of 1,002 files submitted"]


def test_all_or_nothing_batch_is_never_split(tmp_path: Path) -> None:
    (a,) = files(tmp_path, 1)
    with serving({BATCH: (422, refused("1002 workflows in one batch", "USAGE"))}) as server:
        assert at(server, "workflow", "submit", *[a] * 1002, "-p", "p", "--all-or-nothing").code == 2
    assert [(len(body["workflows"]), body["all_or_nothing"]) for _, _, body in server.asked] == [(1002, True)]


def test_dry_run_prints_each_file_and_submits_none(tmp_path: Path) -> None:
    a, b = files(tmp_path, 2)
    rendered = v1.WorkflowChecked.example() | {"file": FILE}
    with serving({CHECK: [(200, rendered), (422, WRONG)]}) as server:
        done = at(server, "workflow", "submit", a, b, "-p", "p", "--dry-run")
    assert (done.code, done.out) == (1, f"# {a}\n{FILE}")
    assert done.err.splitlines() == [
        f"{a}: would start now on node-1",
        f"{b}:4:5: unknown field 'imge'",
        "1 of 2 files checked",
    ]
    assert [route for route, _, _ in server.asked] == [CHECK] * 2


def test_dry_run_without_a_server_fails_with_one_message(tmp_path: Path) -> None:
    a, b = files(tmp_path, 2)
    done = runrig("--server", "http://127.0.0.1:1", "workflow", "submit", a, b, "-p", "p", "--dry-run")
    (said,) = done.err.splitlines()
    assert (done.code, done.out) == (10, "")
    assert said.startswith("Error: no runrig server at http://127.0.0.1:1 (from --server; connection refused)")


def test_nothing_is_sent_if_a_file_cannot_be_read(tmp_path: Path) -> None:
    (a,) = files(tmp_path, 1)
    done = runrig("workflow", "submit", a, "nowhere.yaml", "-p", "p")
    assert (done.code, done.err) == (2, "Error: nowhere.yaml: no such file\n")
    assert runrig("workflow", "submit", "-", "-", "-p", "p", stdin=FILE).code == 2
