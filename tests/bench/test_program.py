"""The benchmark of the command line runs each command against a server of its own, and each goal has its verdict."""

import pytest
from bench.section import MET, MISSED

from bench import program

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
