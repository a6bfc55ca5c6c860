"""`runrig wait` for several workflows, and the cause in its sentence."""

from typing import Any

import pytest

from runrig.domain.shown.why import WorkflowCause
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, refused, task, workflow

CAUSE = {**example_of(WorkflowCause), "task": "main", "sentence": "KeyError: 'lr'", "ending": "exit code 7"}


def ended(id: str, status: str, exit_code: int | None = None, **fields: Any) -> dict[str, Any]:
    tasks = [task(status=status, exit_code=exit_code, end_time="2026-01-31T12:01:00Z")]
    return workflow(status, *tasks, id=id, **{"cause": None, "message": "", **fields})


ANSWERS = {
    f"GET /api/v1/workflows/{id}/wait": answer
    for id, answer in (
        ("good-1", ended("good-1", "COMPLETED", 0)),
        ("bad-1", ended("bad-1", "FAILED", 7, cause=CAUSE)),
        ("late-1", ended("late-1", "FAILED_EXEC_TIMEOUT", message="time limit of 1h", cause=CAUSE)),
        ("runs-1", workflow("RUNNING", id="runs-1")),
        ("gone-1", (404, refused("workflow 'gone-1' not found", "NOTFOUND"))),
    )
}
GOOD, BAD = "good-1 is COMPLETED\n", "bad-1 is FAILED: KeyError: 'lr' (main, exit code 7)\n"
LATE = "late-1 is FAILED_EXEC_TIMEOUT: time limit of 1h\n"


@pytest.mark.parametrize(
    ("args", "code", "out", "err"),
    [
        ("good-1 bad-1 late-1", 7, GOOD, BAD + LATE),
        ("late-1 bad-1 bad-1", 124, "", LATE + BAD),
        ("good-1 good-1", 0, GOOD, ""),
        ("good-1 bad-1 --for FAILED", 1, "bad-1 is FAILED: KeyError: 'lr' (main, exit code 7)\n", GOOD),
        ("bad-1 gone-1", 2, "", "Error: workflow 'gone-1' not found\n"),
        (
            "bad-1 runs-1 --timeout 0",
            75,
            "",
            BAD + "Error: runs-1 is RUNNING after 0 s. To see why: runrig why runs-1\n",
        ),
    ],
)
def test_wait_for_several_ends_with_the_code_of_the_first_in_the_list_that_did_not_complete(
    args: str, code: int, out: str, err: str
) -> None:
    done = answered(ANSWERS, "wait", *args.split())
    assert (done.code, done.out, done.err) == (code, out, err)


def test_wait_for_several_as_json_is_a_list() -> None:
    one, two = (answered(ANSWERS, "wait", *ids, "-t", "json") for ids in (["bad-1"], ["good-1", "bad-1"]))
    assert (one.code, one.json["name"], one.json["cause"]["sentence"]) == (7, "bad-1", "KeyError: 'lr'")
    assert (two.code, [each["name"] for each in two.json]) == (7, ["good-1", "bad-1"])


@pytest.mark.parametrize("id", ["", "..", "a/b", "a\\b", "a\nb"])
def test_an_id_that_cannot_be_one_is_refused_without_a_request(id: str) -> None:
    """Such as that of an empty variable of a shell."""
    rule = "is not an ID or a name: it cannot contain '/', '\\' or control characters, or be '.' or '..'"
    done = answered({}, "wait", id)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"Error: {f'{id!r} {rule}' if id else 'an ID or a name is empty'}\n",
    )
