"""What tasks of this machine are handed of credentials, and what is left of it."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runrig.backends.local import LocalBackend
from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import NotFound
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired, Launch, Program, no_pulls
from tests.backends.local.launches import end_all, launch, local, run_to_end, running, until_phase
from tests.patience import until

CANARY = "s3cr3t-canary"
KEY = TaskKey("wf-1", "train", 0)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    def opens(user: str, name: str) -> Mapping[str, str]:
        if (user, name) != ("tom", "wandb"):
            raise NotFound(f"{user} has no credential {name!r}: there are wandb")
        return {"api_key": CANARY, "lines": f"{CANARY}\r\ntwo\n"}

    with local(tmp_path) as it:
        it.use_credentials(opens, no_pulls)
        yield it


def shell(script: str, *uses: CredentialUse, user: str = "tom") -> Launch:
    return launch("sh", "-c", script, credentials=uses, user=user)


def left(folder: Path) -> list[str]:
    """The files in which the value stands, but for what the task printed."""
    files = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    found = (each for each in files if each.is_file() and not each.is_symlink() and not each.name.startswith("std"))
    return sorted(str(each.relative_to(folder)) for each in found if CANARY.encode() in each.read_bytes())


def ended(backend: LocalBackend, each: Launch) -> TaskFact:
    """How it ended, once the backend has been told that it is over."""
    fact = run_to_end(backend, each)
    backend.sync(Desired())
    return fact


def printed(folder: Path) -> str:
    return (folder / "data/tasks/wf-1/train/0/stdout.log").read_text()


def test_task_finds_its_variables_and_files_and_leaves_nothing_behind(backend: LocalBackend, tmp_path: Path) -> None:
    script = "echo $WANDB; cat /etc/keys/lines; ls /etc/keys; stat -c %a /etc/keys/api_key"
    uses = (CredentialUse("wandb", variables={"WANDB": "api_key"}), CredentialUse("wandb", "/etc/keys"))
    fact = ended(backend, shell(script, *uses))
    assert fact == TaskFact(Phase.ENDED, 0, by_itself=True)
    assert printed(tmp_path).split() == [CANARY, CANARY, "two", "api_key", "lines", "600"]
    assert left(tmp_path / "data") == []


def test_only_files_of_running_tasks_are_on_disk(backend: LocalBackend, tmp_path: Path) -> None:
    uses = (CredentialUse("wandb", variables={"WANDB": "api_key"}), CredentialUse("wandb", "/etc/keys"))
    backend.sync(running(shell("echo up; sleep 1000", *uses)))
    until(lambda: (tmp_path / "data/tasks/wf-1/train/0/stdout.log").exists() and "up" in printed(tmp_path))
    at = "tasks/wf-1/train/0/credentials/wandb"
    assert left(tmp_path / "data") == [f"{at}/api_key", f"{at}/lines"]
    assert (tmp_path / "data" / at).stat().st_mode & 0o777 == 0o700
    end_all(backend)
    assert left(tmp_path / "data") == []


def test_program_started_in_a_task_has_the_credentials_of_the_task(backend: LocalBackend, tmp_path: Path) -> None:
    """Also after the server has come back, and when the credential is another or gone by then: nobody opens it again."""
    uses = (CredentialUse("wandb", variables={"WANDB": "api_key"}), CredentialUse("wandb", "/etc/keys"))
    task = shell("sleep 1000", *uses)
    backend.sync(running(task))
    until_phase(backend, Phase.RUNNING, task)
    again = LocalBackend(tmp_path / "data", 1)
    again.sync(running(task))
    until_phase(again, Phase.RUNNING, task)

    async def entered() -> bytes:
        said = b""
        passage = await again.enter(task.key, Program(("sh", "-c", "echo $WANDB; cat ../credentials/wandb/api_key")))
        while (part := await passage.read()) is not None:
            said += part[1]
        await passage.close()
        return said

    for _ in range(2):
        assert asyncio.run(entered()) == f"{CANARY}\n{CANARY}".encode()
    at = "tasks/wf-1/train/0/credentials/wandb"
    assert left(tmp_path / "data") == [f"{at}/api_key", f"{at}/lines"]
    end_all(again)
    again.close()


def test_task_that_tampers_with_its_folder_cannot_cause_deletions_elsewhere(
    backend: LocalBackend, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "name"
    other.mkdir(parents=True)
    (other / "important").write_text("kept")
    script = f"cd ..; rm -r credentials; ln -s {tmp_path / 'other'} credentials; ln -s {other}/important secrets"
    assert ended(backend, shell(script, CredentialUse("wandb", "/etc/keys"))).exit_code == 0
    assert (other / "important").read_text() == "kept"


@pytest.mark.parametrize(
    ("use", "user", "message"),
    [
        (CredentialUse("old", "/k"), "tom", "tom has no credential 'old': there are wandb"),
        (CredentialUse("wandb", "/k"), "eve", "eve has no credential 'wandb': there are wandb"),
        (
            CredentialUse("wandb", variables={"A": "gone"}),
            "tom",
            "credential 'wandb' of tom no longer has the key 'gone'",
        ),
    ],
)
def test_without_its_credential_the_task_does_not_start(
    backend: LocalBackend, tmp_path: Path, use: CredentialUse, user: str, message: str
) -> None:
    fact = ended(backend, shell("echo started", use, user=user))
    assert (fact.exit_code, fact.message) == (3003, message)
    assert left(tmp_path / "data") == []
