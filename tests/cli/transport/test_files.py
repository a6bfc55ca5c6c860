"""Files named on the command line: a pipe is read if a program writes to it, and never waited for if not."""

import os
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from runrig.cli.transport.files import read_text
from tests.worlds.command_line import runrig
from tests.worlds.workflow_files import one_task

TEXT = one_task("train", 1)
COMMANDS = [
    "workflow submit",
    "workflow validate",
    "workflow render --pool p",
    "workflow render - --pool p --cluster",
    "simulate",
    "simulate -f",
    "plan -f",
    "apply -f",
    "up --cluster",
    "serve --config",
    "credential set wandb -f",
    "login http://127.0.0.1:1 --token-file",
    "admin credential-key",
    "restore --data /nonexistent",
    "verify",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_pipe_without_a_writer_is_refused(command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = runrig(*command.split(), str(tmp_path / "pipe"), stdin=TEXT)
    assert (done.code, done.out) == (2, "")
    assert (
        "pipe cannot be read" in done.err.replace("it cannot", "cannot").replace(":", "") or "not a regular" in done.err
    )


def test_pipe_is_read_until_its_end(tmp_path: Path) -> None:
    """A named one, whose writer is slow, and one that a shell passes as ``<(...)``."""
    os.mkfifo(tmp_path / "pipe")
    with closing(os.fdopen(os.open(tmp_path / "pipe", os.O_RDWR), "w")) as writer:
        reader = Thread(target=lambda: found.append(read_text(str(tmp_path / "pipe"))))
        found: list[str] = []
        reader.start()
        reader.join(0.1)
        assert reader.is_alive()
        writer.write(TEXT)
    reader.join()
    assert found == [TEXT]
    out, into = os.pipe()
    with os.fdopen(out), os.fdopen(into, "w") as writer:
        writer.write(TEXT)
        writer.close()
        assert runrig("workflow", "validate", f"/dev/fd/{out}").code == 0
