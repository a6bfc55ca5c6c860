"""Every end of a command has its exit code, and one message: the same in text and in JSON."""

import json
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runrig.cli.main import run
from runrig.domain.shown import LogRecord
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, at, refused, serving
from tests.patience import PATIENCE_S
from tests.worlds.command_line import process, runrig, written


def asking(listener: socket.socket) -> subprocess.Popen[str]:
    """A process that asks the server behind *listener*."""
    command = process("--server", f"http://127.0.0.1:{listener.getsockname()[1]}", "pool", "list")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


EXIT = [
    (400, "USAGE", 2),
    (422, "USAGE", 2),
    (404, "NOTFOUND", 2),
    (400, "DATABASE", 2),
    (400, "RESOURCE", 1),
    (409, "CONFLICT", 1),
    (422, "RESOURCE", 1),
    (401, "FORBIDDEN", 4),
    (403, "FORBIDDEN", 4),
    (429, "UNAVAILABLE", 75),
    (503, "UNAVAILABLE", 75),
    (500, "SERVER", 10),
]


@pytest.mark.parametrize(("status", "code", "exit_code"), EXIT)
def test_an_error_of_the_server_has_the_exit_code_of_its_kind(status: int, code: str, exit_code: int) -> None:
    answers = {"GET /api/v1/workflows/w": (status, refused("no: 9 of 8", code))}
    with serving(answers) as server:
        text = runrig("--server", server.url, "workflow", "query", "w", env={"RUNRIG_TOKEN": "t"})
        json = runrig("--server", server.url, "workflow", "query", "w", "-t", "json", env={"RUNRIG_TOKEN": "t"})
    way = f" (invalid token; log in with `runrig login {server.url}` or set RUNRIG_TOKEN)"
    message = "no: 9 of 8" + (way if status == 401 else "")
    assert (text.code, text.out, text.err) == (exit_code, "", f"Error: {message}\n")
    assert (json.code, json.json, json.err) == (exit_code, {"message": message, "code": code}, "")


@pytest.mark.parametrize(
    ("status", "body", "exit_code", "message"),
    [
        (500, "<html>oops</html>", 10, "the server answered with status 500: <html>oops</html>"),
        (404, "", 2, "the server answered with status 404"),
        (400, "[1]", 2, "the server answered with status 400: [1]"),
        (409, '{"message": "no"}', 1, 'the server answered with status 409: {"message": "no"}'),
    ],
)
def test_error_of_an_unknown_kind_is_still_reported(status: int, body: str, exit_code: int, message: str) -> None:
    done = answered({"GET /api/v1/workflows/w": (status, body)}, "workflow", "query", "w")
    assert (done.code, done.err) == (exit_code, f"Error: {message}\n")


def test_without_a_server_one_line_names_the_address_and_the_way_out() -> None:
    done = runrig("pool", "list", "--server", "http://127.0.0.1:1")
    assert (done.code, done.out) == (10, "")
    assert done.err == (
        "Error: no runrig server at http://127.0.0.1:1 (from --server; connection refused). "
        "Start one with `runrig up`, or set --server\n"
    )


def test_another_program_on_the_port_is_not_mistaken_for_a_server() -> None:
    for body in ("<html>", "null", "[]", "[1]", "3", "", "[" * 2_000, '"items"', '{"items": 5}'):
        done = answered({"GET /api/v1/pools": (200, body)}, "pool", "list")
        assert (done.code, done.out) == (10, "")
        assert f"is not a runrig server ({body[:60]!r})" in done.err
    done = answered({"GET /api/v1/pools": (302, "")}, "pool", "list")
    assert (done.code, "is not a runrig server ('status 302')" in done.err) == (10, True)


def test_response_of_another_version_is_reported_as_such() -> None:
    said: tuple[object, ...] = ({"pools": []}, (204, ""))
    for each in said:
        done = answered({"GET /api/v1/pools": each}, "pool", "list")
        assert (done.code, done.out) == (10, "")
        assert "(no 'items'). Check the server address and version with `runrig version`" in done.err


@pytest.mark.slow
def test_closed_connection_is_a_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, asking(listener) as child:
        listener.accept()[0].close()
        _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 10
    assert "it closed the connection" in err
    assert "Traceback" not in err


def test_wrong_usage_in_json_mode_is_json_too() -> None:
    done = runrig("workflow", "query", "-t", "json")
    assert (done.code, done.err) == (2, "")
    assert done.json == {
        "message": "Missing argument 'ID'.",
        "code": "USAGE",
        "details": {"problems": [{"message": "Missing argument 'ID'.", "path": "", "line": None, "column": None}]},
    }


def test_all_problems_of_a_file_are_shown_with_their_positions(tmp_path: Path) -> None:
    file = written(tmp_path, "workflow: {}\n")
    problems = [
        {"message": "unknown field 'imge'", "path": "workflow.imge", "line": 3, "column": 7},
        {"message": "no tasks", "path": "workflow", "line": None, "column": None},
    ]
    answers = {"POST /api/v1/workflows": (422, refused("2 problems", "USAGE", problems=problems))}
    with serving(answers) as server:
        text = at(server, "workflow", "submit", file, "--pool", "p")
        json = at(server, "workflow", "submit", file, "--pool", "p", "-t", "json")
    assert (text.code, text.out) == (2, "")
    assert text.err == f"{file}:3:7: unknown field 'imge'\n{file}: no tasks\n"
    assert (json.code, json.json["code"], json.json["details"]) == (2, "USAGE", {"problems": problems})


MANY = "1" * 5_000
ZEROS = "0" * 12 + "1" * 30


@pytest.mark.parametrize(
    "args",
    [
        *(
            ("run", option, digits, "--", "true")
            for option in ("-g", "--nodes", "--cpus")
            for digits in (MANY, "h100:" + MANY)
        ),
        *(("run", "--array", f"0-9%{digits}", "--", "true") for digits in (MANY, ZEROS)),
        *(("limits", "set", "--user", "u", "--gpus", digits) for digits in (MANY, ZEROS, "١")),
        *(("pool", "update", "p", option, MANY) for option in ("--quota", "--borrowing-limit", "--weight")),
        ("pool", "subpool", "create", "p", "s", "--quota", MANY),
        ("logs", "w", "--attempt", MANY),
        ("mcp", "--http", "--listen", f"127.0.0.1:{MANY}"),
        ("usage", "report", "--month", f"{MANY}-01", "--html", "-"),
    ],
    ids=lambda args: " ".join(args)[:30],
)
def test_number_with_thousands_of_digits_is_wrong_usage(args: tuple[str, ...]) -> None:
    done = runrig(*args)
    assert (done.code, done.out, "Error: " in done.err) == (2, "", True)


def test_output_that_cannot_be_written_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also that of --help, which click prints while it reads the options."""
    for args in (["example", "list"], ["--help"]):
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert run(args) == 2
            assert capsys.readouterr().err == "Error: stdout cannot be written: No space left on device\n"


def test_file_name_that_the_system_refuses_is_reported() -> None:
    """Wherever a command uses it: each would have to check it."""
    name = "n" * 300
    for args in (("backup", "-o", name), ("serve", "--config", name), ("up", "--data", name, "--port", "0")):
        done = runrig(*args)
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith(f"{name} cannot be {'read' if args[0] == 'serve' else 'used'}: File name too long\n")


def test_closed_streams_are_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    codes = [run(["example", "list"]), run(["simulate", "-"]), run(["logs", "w", "--attempt", "x"])]
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()
    assert codes == [0, 0, 2]


@pytest.mark.slow
def test_ctrl_c_is_exit_code_3_without_a_trace() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, asking(listener) as child:
        connection, _ = listener.accept()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE_S)
        connection.close()
    assert (child.returncode, out, err.strip()) == (3, "", "interrupted")


AT_IMPORT = """
import signal, sys
sys.addaudithook(lambda kind, told: kind == "import" and told[0] == "click" and signal.raise_signal(signal.SIGINT))
from runrig.__main__ import main
main()
"""


@pytest.mark.slow
def test_ctrl_c_while_the_command_is_imported_is_no_different() -> None:
    done = subprocess.run([sys.executable, "-c", AT_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "interrupted\n")


@pytest.mark.slow
def test_closed_pipe_is_silent() -> None:
    line = "x" * 200
    record = json.dumps({**example_of(LogRecord), "text": line})
    answers = {
        "GET /api/v1/workflows/w/logs": "\n".join([record] * 20_000),
        "GET /api/v1/workflows/w": {"groups": [], "cause": None},
    }
    with serving(answers) as server:
        logs = shlex.join(process("--server", server.url, "workflow", "logs", "w"))
        command = ["bash", "-c", f"set -o pipefail; {logs} | head -n 1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, line + "\n", "")
