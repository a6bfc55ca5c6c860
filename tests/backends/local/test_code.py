"""Code that was sent, in the working folder of attempts on this machine."""

import os
from pathlib import Path
from threading import Event

import pytest

from runrig.backends.local.code import CodeFolders, NotCopied
from runrig.domain.code import sha256
from runrig.domain.errors import NotFound, Unavailable
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import ExitCode, FileSpec, TaskKey
from runrig.ports.backend import Desired, Launch
from runrig.ports.code import StoredCode
from tests.backends.local.launches import launch, local, returns_early, run_to_end, running
from tests.patience import until
from tests.worlds.code import manifest

FILES = {"run.sh": b"#!/bin/sh\ncat lib/words; pwd\n", "lib/words": b"hello\n", "lib/empty": b""}
CODE = manifest(FILES, {"now": "lib/words"}, scripts={"run.sh"})
CONTENTS = {sha256(data): data for data in FILES.values()}


def code_of(user: str, id: str) -> StoredCode:
    if (user, id) != ("tom", CODE.id):
        raise NotFound(f"unknown code {id}")
    return StoredCode(CODE, CONTENTS.__getitem__)


def seen(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else (path.stat().st_mode & 0o777, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


KEY = TaskKey("wf-1", "train", 0)


def copied(folders: CodeFolders, task: str) -> Path:
    found = []

    def ready() -> bool:
        try:
            found.append(folders.copy_for(KEY._replace(task=task), "tom", CODE.id))
        except NotCopied:
            return False
        return True

    until(ready)
    return found[0]


WHOLE = {
    "run.sh": (0o700, FILES["run.sh"]),
    "lib/words": (0o600, b"hello\n"),
    "lib/empty": (0o600, b""),
    "now": "lib/words",
}


def test_each_attempt_gets_its_own_copy_and_code_is_unpacked_once(tmp_path: Path) -> None:
    asked = []

    def counted(user: str, id: str) -> StoredCode:
        asked.append(id)
        return code_of(user, id)

    folders = CodeFolders(tmp_path / "code")
    folders.code_of = counted
    for name in ("a", "b"):
        copied(folders, name).rename(tmp_path / name)
    folders.close()
    assert asked == [CODE.id]
    (tmp_path / "a/lib/words").write_text("changed")
    assert (seen(tmp_path / "b"), seen(tmp_path / "code" / CODE.id)) == (WHOLE, WHOLE)


def test_leftovers_of_a_killed_server_and_unused_code_are_removed(tmp_path: Path) -> None:
    (tmp_path / "code/.half/lib").mkdir(parents=True)
    folders = CodeFolders(tmp_path / "code")
    assert list((tmp_path / "code").iterdir()) == []
    folders.code_of = code_of
    copied(folders, "train").rename(tmp_path / "work")
    folders.close()
    again = CodeFolders(tmp_path / "code")
    again.keep({CODE.id})
    assert (tmp_path / "code" / CODE.id).is_dir()
    again.keep({None})
    assert list((tmp_path / "code").iterdir()) == []
    assert seen(tmp_path / "work") == WHOLE


def test_failure_leaves_no_partial_copy(tmp_path: Path) -> None:
    def broken(hash: str) -> bytes:
        if hash == CODE.files[-1].sha256:
            raise Unavailable("the database is away")
        return CONTENTS[hash]

    folders = CodeFolders(tmp_path / "code")
    folders.code_of = lambda _user, _id: StoredCode(CODE, broken)
    with pytest.raises(Unavailable):
        copied(folders, "train")
    folders.code_of = code_of
    folders.forget(KEY)
    assert seen(copied(folders, "train")) == WHOLE, "a later try succeeds"
    folders.close()


def test_copy_of_an_attempt_that_does_not_start_is_removed(tmp_path: Path) -> None:
    folders, going_on = CodeFolders(tmp_path / "code"), Event()
    folders.code_of = lambda user, id: (going_on.wait(), code_of(user, id))[1]
    with pytest.raises(NotCopied):
        folders.copy_for(KEY, "tom", CODE.id)
    folders.keep(())
    folders.forget(KEY)
    going_on.set()
    folders.close()
    assert [each.name for each in (tmp_path / "code").iterdir()] == [CODE.id]
    folders.keep(())
    assert list((tmp_path / "code").iterdir()) == []


@pytest.mark.slow
def test_slow_copy_delays_no_other_task(tmp_path: Path) -> None:
    going_on = Event()
    slow, other = launch("./run.sh", code=CODE.id, user="tom"), launch("true", task="other")
    with local(tmp_path) as backend:
        backend.use_code(lambda user, id: (going_on.wait(), code_of(user, id))[1])
        backend.sync(running(slow, other))
        until(lambda: backend.observe().tasks[other.key].phase is Phase.ENDED)
        assert backend.observe().tasks[slow.key].phase is Phase.STARTING
        going_on.set()
        assert returns_early(backend.wait)
        until(lambda: backend.observe().tasks[slow.key].phase is Phase.ENDED)
        assert backend.observe().tasks[slow.key].exit_code == 0


def _ended(tmp_path: Path, each: Launch) -> TaskFact:
    with local(tmp_path) as backend:
        backend.use_code(code_of)
        fact = run_to_end(backend, each)
        backend.sync(Desired())
        assert list((tmp_path / "data/code").iterdir()) == []
        return fact


@pytest.mark.slow
def test_command_starts_in_its_code(tmp_path: Path) -> None:
    assert _ended(tmp_path, launch("./run.sh", code=CODE.id, user="tom")).exit_code == 0
    folder = tmp_path / "data/tasks/wf-1/train/0"
    assert (folder / "stdout.log").read_text() == f"hello\n{folder}/work\n"


@pytest.mark.slow
def test_file_of_the_task_does_not_replace_one_of_its_code(tmp_path: Path) -> None:
    fact = _ended(tmp_path, launch("true", code=CODE.id, user="tom", files=(FileSpec("/lib/words", "x"),)))
    assert fact.exit_code == ExitCode.START_ERROR
    assert "another file of the task, or of its code, has the same path" in fact.message


@pytest.mark.slow
def test_missing_code_ends_the_attempt_with_a_message(tmp_path: Path) -> None:
    fact = _ended(tmp_path, launch("true", code="0" * 64, user="tom"))
    assert (fact.exit_code, fact.message) == (ExitCode.START_ERROR, f"unknown code {'0' * 64}")
