"""Arrays at the command line: one row each, commands for one element, and the limit (rule W4)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.canned_server import at, serving
from tests.worlds.served import Served, served

FILE = """
workflow:
  name: sweep
  groups:
  - name: runs
    array: {indices: 0-5, most: 2}
    tasks: [{name: main, image: any, command: [run], duration: 3000}]
  resources: {default: {gpu: 1}}
"""


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


def test_the_limit_can_be_changed_and_tried(there: Served) -> None:
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


def test_a_number_of_elements_outside_the_limits_reaches_no_server() -> None:
    with serving({}) as server:
        done = at(server, "array", "sweep-1", "--most", "0")
    assert (done.code, server.asked) == (2, [])
    assert "Invalid value for '--most': 0 is not in the range 1<=x<=1000." in done.err
