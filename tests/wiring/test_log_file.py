"""The log of a server does not grow for ever, and where it cannot be written that is said once."""

import logging
import os
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from runrig.wiring import process


def test_log_is_rotated_and_only_the_last_files_are_kept(tmp_path: Path) -> None:
    with (
        patch.object(process, "LOG_BYTES", 1000),
        patch.object(process, "LOGS_KEPT", 2),
        process.logging_to(tmp_path / "server.log"),
    ):
        for number in range(9 * process.LogFile.LINES + 1):
            logging.getLogger("runrig").warning("event=test number=%s", number)
    files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert set(files) == {"server.log", "server.log.1", "server.log.2"}
    assert all(text.count("\n") <= process.LogFile.LINES for text in files.values())
    assert files["server.log"].endswith(f"number={9 * process.LogFile.LINES}\n")


def log(*words: str) -> None:
    for word in words:
        logging.getLogger("runrig").warning("event=%s", word)


BROKEN = {
    "a full disk": ("/dev/full", "No space left on device"),
    "a folder in its place": ("/tmp", "Is a directory"),
    "a folder that is gone": ("/proc/nonexistent/server.log", "No such file or directory"),
    "a pipe that nobody reads": ("pipe", "No such device or address"),
    "a file in the place of its folder": ("/etc/passwd/server.log", "Not a directory"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_unwritable_log_is_reported_once_and_again_when_it_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    target, cause = BROKEN[how]
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "server.log"
    file.symlink_to(target)
    with process.logging_to(file):
        log("one", "two", "three")
        cannot = f"Warning: the log {file} cannot be written ({cause}); log lines are lost until it can\n"
        assert capsys.readouterr().err == cannot
        file.unlink()
        log("four", "five")
        assert capsys.readouterr().err == f"Warning: the log {file} can be written again; 3 log lines were lost\n"
        file.unlink()
        file.symlink_to(target)
        process_handler()._let_go()  # as when it is rotated
        log("six")
        assert capsys.readouterr().err == cannot
    assert capsys.readouterr().err == ""


def process_handler() -> process.LogFile:
    (handler,) = (each for each in logging.getLogger().handlers if isinstance(each, process.LogFile))
    return handler


def test_blocked_log_on_stderr_delays_nothing() -> None:
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - closing it fails too
    with patch.object(sys, "stderr", full), process.logging_to(None):
        log("one", "two")
    with pytest.raises(OSError, match="No space left on device"):
        full.close()


def test_bug_in_a_log_call_shows_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with process.logging_to(tmp_path / "server.log"):
        process_handler().emit(logging.makeLogRecord({"msg": "event=%s %s", "args": ("one",)}))
    assert "not enough arguments for format string" in capsys.readouterr().err


def test_log_that_cannot_be_rotated_keeps_growing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        patch.object(process, "LOG_BYTES", 100),
        patch("os.rename", side_effect=PermissionError(1, "Operation not permitted")),
        process.logging_to(tmp_path / "server.log"),
    ):
        log(*map(str, range(2 * process.LogFile.LINES + 1)))
    assert capsys.readouterr().err == ""
    assert (tmp_path / "server.log").read_text().count("\n") == 2 * process.LogFile.LINES + 1
