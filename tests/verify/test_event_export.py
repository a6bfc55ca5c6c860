"""What `runrig export --events` writes, and that it is judged as the log that it came from."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.verify.reading import commits
from runrig.wiring.backup import write_backup
from runrig.wiring.event_export import export_events
from tests.stores import KINDS, store_url
from tests.verify.test_reading import FOLDER, judged
from tests.worlds.command_line import runrig
from tests.worlds.service import desk

SECRET = "hunter2"
STEPS = """
workflow:
  name: steps
  resources: {small: {gpu: 1}}
  tasks:
  - {name: first, image: hunter2, command: [hunter2], environment: {TOKEN: hunter2}, resource: small, duration: 10,
     files: [{path: /a, contents: hunter2}]}
  - {name: second, image: i, command: [x], resource: small, duration: 10, inputs: [{task: first}]}
"""


def exported(database: str | Path) -> str:
    out = io.StringIO()
    export_events(str(database), out)
    return out.getvalue()


@pytest.fixture(params=[KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The URL of a store in which LOW work was preempted, and a workflow has a group that waits for another."""
    with store_url(request.param, tmp_path) as url:
        with desk(tmp_path / "server", database=url) as server:
            server.submit("low", "pool1", Priority.LOW, gpus=4)
            server.later(5)
            server.submit("firm", "pool2", Priority.NORMAL, gpus=2)
            server.submit("steps", "pool1", text=STEPS)
            for _ in range(3):
                server.later(60)
        yield url


def test_export_gives_the_same_verdict_as_its_database_and_its_backup(database: str, tmp_path: Path) -> None:
    text = exported(database)
    (tmp_path / "events.jsonl").write_text(text)
    write_backup(database, tmp_path / "none", tmp_path / "a.backup", log_files=False)
    assert exported(tmp_path / "a.backup") == exported(tmp_path / "events.jsonl") == text
    assert list(commits(str(tmp_path / "events.jsonl"))) == list(commits(str(tmp_path / "a.backup")))
    code, said = judged(tmp_path / "events.jsonl")
    assert (code, said) == (0, judged(tmp_path / "a.backup")[1])
    assert not said[-1].startswith("0 decisions")


def test_export_contains_dependencies_and_no_secrets(database: str) -> None:
    first, *lines, last = map(json.loads, exported(database).splitlines())
    assert (first, last) == ({"runrig_events": 2}, {"events": len(lines)})
    steps = next(line for line in lines if line[4] == "Submit" and line[6]["workflow"]["name"] == "steps")
    assert steps[3] == "ann"
    assert [line[7]["about"]["needs"] for line in lines if line[7:] and "needs" in line[7].get("about", ())] == [
        {"steps-1": {"second-group": ["first-group"]}}
    ]
    assert SECRET not in exported(database)


def test_file_that_is_not_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidInput, match=r"text is not a SQLite database, backup or export of runrig"):
        exported(tmp_path / "text")


def test_command_writes_the_log_of_the_local_server_or_the_named_source(tmp_path: Path) -> None:
    with desk(tmp_path):
        pass
    text = exported(tmp_path / "runrig.db")
    assert runrig("export", "--events", env={"RUNRIG_DATA": str(tmp_path)}).out == text
    assert runrig("export", "--events", str(tmp_path / "runrig.db")).out == text
    done = runrig("export", "runrig.db")
    assert (done.code, done.out) == (2, "")
    assert "'runrig.db' names a database, which only --events reads. Add --events, or leave it out" in done.err


@pytest.mark.slow
def test_export_is_verified_without_runrig_installed(database: str, tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "anywhere", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "events.jsonl").write_text(exported(database))
    command = [sys.executable, "-I", "-S", str(folder / "verify.py"), "events.jsonl"]
    alone = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout.splitlines() == judged(tmp_path / "events.jsonl")[1]
    nothing = [sys.executable, "-I", "-S", "-c", "import runrig"]
    assert subprocess.run(nothing, capture_output=True, cwd=tmp_path, check=False).returncode == 1
