"""The benchmark of the command line runs each command against a server of its own, and each goal has its verdict."""

import pytest
from bench.section import MET, MISSED

from bench import first_line, program

pytestmark = pytest.mark.slow


def test_each_command_gets_an_answer_from_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LEAST_RUNS", 1)
    found = {str(row["what"]): row for row in program.rows(1, workflows=12)}
    assert list(found) == [
        "the interpreter alone",
        "runrig --help",
        "completion, without a server",
        "runrig status",
        "runrig list",
        "runrig why train-12",
        "runrig logs train-1",
        "completion of an ID",
    ]
    assert [row["is"] in (*MET, *MISSED) for row in found.values()] == [False, *[True] * 7]


def test_the_time_to_the_first_line_is_measured_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_line, "LEAST_RUNS", 1)
    found = {str(row["what"]): row for row in first_line.rows(1)}
    assert list(found) == [
        "first line, nothing changed",
        "first line, one file changed",
        "first line, --code none",
        "part: the ID, with -d",
        "part: runrig --help",
        "part: the program alone",
    ]
    assert [row["is"] in (*MET, *MISSED) for row in found.values()] == [True] * 3 + [False] * 3
