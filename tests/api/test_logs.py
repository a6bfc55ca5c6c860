"""Output of real processes, as a whole, by line, and as it comes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.backends.clock import ServerClock
from runrig.backends.local import LocalBackend
from runrig.domain.access import Identity
from runrig.service import log_stream
from runrig.service.log_stream import LogRequest, stream
from runrig.service.service import Service
from runrig.store import SqlStore
from tests.api.client import AUTHORIZED, PORT, TOKEN, URL
from tests.backends.local.launches import end_all
from tests.patience import PATIENCE_S, until
from tests.worlds.service import KEYS, submit

TWO_TASKS = """
workflow:
  name: talk
  tasks:
  - {name: one, image: any, command: [sh, -c, 'printf "a\\nb\\nc"; echo oops >&2']}
  - {name: two, image: any, command: [sh, -c, 'printf "x\\ny\\n"']}
"""
FLAG = """
workflow:
  name: slow
  tasks:
  - {{name: main, image: any, command: [sh, -c, 'echo first; while [ ! -e "{flag}" ]; do sleep 0.01; done; echo last']}}
"""


@contextmanager
def local(folder: Path) -> Iterator[tuple[Service, TestClient]]:
    backend = LocalBackend(folder, 2, find_gpus=lambda: ())
    (folder / "credential.key").write_text(KEYS)
    (folder / "credential.key").chmod(0o600)
    store = SqlStore.open(folder / "runrig.db")
    service = Service(store, backend, ServerClock(), credential_key=folder / "credential.key")
    try:
        service.prepare(None, user="ann")
        service.start()
        app = create_app(service, token=TOKEN, port=PORT, user="ann")
        yield service, TestClient(app, base_url=URL, headers=AUTHORIZED)
    finally:
        service._reconciler.stop()
        end_all(backend)
        service.close()


def _submit(service: Service, text: str) -> str:
    return submit(service, text, "default", "ann")


def _wait(service: Service, id: str, status: str) -> None:
    until(lambda: service.workflow_queries.status(id).value == status)


ONE_OF_A_COUNT = """
workflow:
  name: lone
  tasks:
  - {name: one, image: any, count: 1, command: [echo, a]}
"""


def test_single_pod_has_a_prefix_only_if_its_task_has_a_count(tmp_path: Path) -> None:
    with local(tmp_path) as (service, http):
        for text, said in ((ONE_OF_A_COUNT, "[one-0] a\n"), (ONE_OF_A_COUNT.replace("count: 1, ", ""), "a\n")):
            id = _submit(service, text)
            _wait(service, id, "COMPLETED")
            assert http.get(f"/api/workflow/{id}/logs").text == said


def test_lines_have_their_task_as_a_prefix_unless_one_task_is_selected(tmp_path: Path) -> None:
    with local(tmp_path) as (service, http):
        id = _submit(service, TWO_TASKS)
        _wait(service, id, "COMPLETED")
        logs = f"/api/workflow/{id}/logs"
        lines = http.get(logs).text.splitlines()
        assert sorted(lines) == ["[one] a", "[one] b", "[one] c", "[one] oops", "[two] x", "[two] y"]
        assert [line for line in lines if "two" in line] == ["[two] x", "[two] y"]
        ours = f"/api/v1/workflows/{id}/logs"
        assert http.get(ours, params={"task": "one"}).text == "a\nb\nc"
        assert http.get(ours, params={"task": "one", "last_lines": 2}).text == "b\nc"
        assert http.get(ours, params={"task": "one", "stream": "stderr"}).text == "oops\n"
        assert sorted(http.get(logs, params={"last_n_lines": 1}).text.splitlines()) == [
            "[one] c",
            "[one] oops",
            "[two] y",
        ]
        assert http.get(logs, params={"last_n_lines": 0}).text == ""
        assert http.get(logs, params={"follow": "True", "task_name": "two", "retry_id": 0}).text == "x\ny\n"
        assert http.get(f"/api/workflow/{id}/error_logs").text == "[one] oops\n"
        for path in (logs, f"/api/workflow/{id}/events"):
            missing = http.get(path, params={"task_name": "three"})
            assert (missing.status_code, missing.json()["message"]) == (
                404,
                f"{id} has no task 'three' (tasks: one, two)",
            )
            missing = http.get(path, params={"task_name": "two", "retry_id": 8})
            assert missing.json()["message"] == f"{id} has no such attempt. Attempts so far: one 1, two 1"
            assert http.get(path, params={"retry_id": -1}).status_code == 422


def test_following_continues_until_the_task_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "HEARTBEAT_S", 0.0)
    flag, other = tmp_path / "flag", tmp_path / "other"

    async def told(following: AsyncIterator[bytes]) -> list[str]:
        """Lets the task end once the silence was filled with a space."""
        parts = []
        async with asyncio.timeout(PATIENCE_S):
            async for part in following:
                parts.append(part)
                if part == b" ":
                    other.touch()
        return [json.loads(line)["text"] for line in b"".join(parts).split(b"\n") if line.strip()]

    with local(tmp_path) as (service, http):
        id = _submit(service, FLAG.format(flag=flag))
        _wait(service, id, "RUNNING")
        flag.touch()
        assert http.get(f"/api/workflow/{id}/logs", params={"follow": True}).text == "first\nlast\n"
        assert service.workflow_queries.status(id).value == "COMPLETED"
        id = _submit(service, FLAG.format(flag=other))
        following = stream(service, LogRequest(id, follow=True, records=True), lambda: Identity("ann", ()))
        assert asyncio.run(told(following)) == ["first", "last"]


def test_following_ends_if_the_task_ended_before_it_began(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with local(tmp_path) as (service, _):
        id = _submit(service, FLAG.format(flag=flag))
        _wait(service, id, "RUNNING")
        following = stream(service, LogRequest(id, follow=True), lambda: Identity("ann", ()))
        flag.touch()
        _wait(service, id, "COMPLETED")

        async def read() -> bytes:
            async with asyncio.timeout(30):
                return b"".join([part async for part in following])

        assert asyncio.run(read()) == b"first\nlast\n"


def test_local_task_starts_soon_after_its_submission(tmp_path: Path) -> None:
    with local(tmp_path) as (_, http):
        id = http.post("/api/pool/default/workflow", json={"file": FLAG.format(flag=tmp_path / "x")}).json()["name"]
        answer = http.get(f"/api/v1/workflows/{id}/wait", params={"for": "RUNNING", "timeout": 20}).json()
        assert answer["status"] == "RUNNING"
