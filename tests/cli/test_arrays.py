"""Arrays at the command line: one row each, commands for one element, and the limit (rule W4)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.observed import Phase, TaskFact
from runrig.domain.shown import TaskGroup, Workflow
from runrig.domain.shown.workflows import WorkflowArray
from runrig.domain.workflows import TaskKey
from runrig.wire.base import example_of
from tests.cli.canned_server import at, serving
from tests.worlds.served import Served, served
from tests.worlds.workflow_files import sweep

FILE = sweep("0-5")


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as it:
        it.submit(FILE, "--pool", "pool1")
        it.desk.service.settle()
        yield it


def said(it: Served, *args: str) -> str:
    done = it.runrig(*args)
    assert (done.code, done.err) == (0, "")
    return done.out


def words(text: str) -> str:
    return " ".join(text.split())


def test_an_array_is_one_row_with_its_elements_counted(there: Served) -> None:
    for command in ("list", "status"):
        (row,) = [line for line in said(there, command).splitlines() if "sweep-1" in line]
        assert "2 run, 4 wait" in row
    assert "Elements 2 run, 4 wait; at most 2 at a time" in words(said(there, "workflow", "query", "sweep-1"))


def test_submit_makes_a_file_an_array_and_says_how_many_elements_would_start(there: Served) -> None:
    one = FILE.replace("    array: {indices: 0-5, most: 2}\n", "").replace("[train]", "[train, '{{array_index}}']")
    options = ("--pool", "pool2", "--sweep", "lr=1,2,3", "--most", "2")
    preview = there.runrig("submit", "-", *options, "--dry-run", stdin=one)
    options_told, verdict = preview.err.splitlines()
    assert options_told == "The file is shown without the options that apply to it: --sweep lr=1,2,3 --most 2"
    assert (preview.code, verdict.split(" on ")[0]) == (0, "would start now")
    assert verdict.endswith(": 2 of its 3 elements")
    assert there.submit(one, *options) == "sweep-2"
    there.desk.service.settle()
    assert "2 run, 1 wait; at most 2 at a time" in words(said(there, "workflow", "query", "sweep-2"))
    assert there.submit(one, "--pool", "pool2", "--array", "0-1", "--after", "sweep-2/2:any") == "sweep-3"
    assert "sweep-2/2 must end first" in said(there, "why", "sweep-3")


def test_commands_take_one_element(there: Served) -> None:
    assert "2 of its 6 elements are running or queued, and at most 2 may run at a time (Arrays, rule W4)" in words(
        said(there, "why", "sweep-1/5")
    )
    tasks = said(there, "workflow", "query", "sweep-1/5")
    assert ("main-5" in tasks, "main-4" in tasks) == (True, False)
    assert said(there, "cancel", "sweep-1/5") == "sweep-1/5 is cancelled\n"
    assert "2 run, 1 cancelled, 3 wait" in said(there, "list")
    for command in (("why",), ("cancel",), ("logs",), ("workflow", "query")):
        done = there.runrig(*command, "sweep-1/9")
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert "'9'" in done.err


def test_the_limit_of_an_array_can_be_changed_and_previewed(there: Served) -> None:
    assert said(there, "array", "sweep-1", "--most", "5", "--dry-run") == (
        "3 elements of sweep-1 would enter the queue now. Nothing was changed\n"
    )
    assert said(there, "array", "sweep-1", "--most", "5") == "sweep-1 runs at most 5 of its elements at a time\n"
    assert said(there, "array", "sweep-1", "--most", "4", "--dry-run") == (
        "1 element of sweep-1 would leave the queue. Nothing was changed\n"
    )
    assert "2 run, 4 wait" in said(there, "list")


def test_a_restart_runs_the_elements_that_did_not_complete(there: Served) -> None:
    said(there, "cancel", "sweep-1")
    there.desk.later(1)
    there.desk.later(31)
    there.desk.service.settle()
    assert "6 of 6 cancelled: 0-5 (cancelled by ann)" in words(said(there, "workflow", "query", "sweep-1"))
    assert there.json("restart", "--failed", "sweep-1")["name"] == "sweep-2"


@pytest.mark.parametrize(
    "command", ["wait", "attach", "restart", "workflow hold", "workflow reprioritise --priority LOW"]
)
def test_commands_for_a_whole_array_name_it(there: Served, command: str) -> None:
    done = there.runrig(*command.split(), "sweep-1/5")
    assert (done.code, done.out) == (2, "")
    assert done.err == "Error: sweep-1/5 is an element of an array. Use the whole array: sweep-1\n"


def test_a_limit_out_of_range_is_refused_before_any_request() -> None:
    with serving({}) as server:
        done = at(server, "array", "sweep-1", "--most", "0")
    assert (done.code, server.asked) == (2, [])
    assert "Invalid value for '--most': 0 is not in the range 1<=x<=1000." in done.err


def test_wait_reports_which_elements_have_failed(there: Served) -> None:
    there.desk.backend.facts = {TaskKey("sweep-1", "main-0", 0): TaskFact(Phase.ENDED, 7)}
    there.desk.service.settle()
    done = there.runrig("wait", "sweep-1", "--timeout", "0")
    assert (done.code, done.err.splitlines()[0]) == (75, "sweep-1/0 is FAILED: exit code 7")


def test_failed_elements_are_reported_once_and_cancelled_ones_are_not() -> None:
    counts = example_of(WorkflowArray)
    running = example_of(Workflow) | {
        "id": "sweep-4",
        "status": "RUNNING",
        "array": counts,
        "groups": [element(0, "FAILED")],
    }
    groups = [
        element(0, "FAILED"),
        element(1, "COMPLETED"),
        element(2, "FAILED_CANCELED"),
        element(3, "FAILED_EXEC_TIMEOUT"),
    ]
    over = running | {"status": "FAILED", "groups": groups, "message": "2 of 4 failed: 0, 3"}
    over |= {
        "cause": {"task": "main-0", "attempt": 0, "sentence": "KeyError: 'lr'", "ending": "exit code 1", "lines": []}
    }
    told = ["sweep-4/0 is FAILED: 0 exited with 1", "sweep-4/3 is FAILED_EXEC_TIMEOUT: 3 exited with 1"]
    route = "GET /api/v1/workflows/sweep-4"
    more = {f"{route}/wait": running, f"{route}/logs": ""}
    with serving({f"{route}/wait": [(200, running), (200, running), (200, over)]}) as server:
        waited = at(server, "wait", "sweep-4")
    assert waited.err.splitlines() == [*told, "sweep-4 is FAILED: 2 of 4 failed: 0, 3"]
    with serving({route: [(200, running), (200, running), (200, over)], **more}) as server:
        attached = at(server, "attach", "sweep-4")
    assert attached.err.splitlines()[:2] == told
    assert "FAILED after 12s: 2 of 4 failed: 0, 3; main-0: KeyError: 'lr'\n" in attached.err
    assert attached.err.endswith("again: runrig restart sweep-4 --failed\n"), "one has completed"


def element(index: int, status: str) -> dict[str, Any]:
    found: dict[str, Any] = example_of(TaskGroup)
    return found | {"name": str(index), "status": status, "message": f"{index} exited with 1", "tasks": []}
