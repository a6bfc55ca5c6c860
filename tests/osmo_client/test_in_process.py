"""The conversations of the client with the real application, in this process; what needs processes is in `test_server.py`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from tests.api.client import PORT, URL
from tests.osmo_client.conversations import CLUSTER, LOGIN, PARTS, Answer, Replay
from tests.worlds.service import T0, desk

TOKEN = "a-token-of-forty-three-characters-in-a-file"


@pytest.mark.parametrize("part", PARTS)
def test_client_finds_everything_it_needs(tmp_path: Path, part: str) -> None:
    with desk(tmp_path, cluster=CLUSTER.read_text(), gpus=4) as it:
        app = create_app(it.service, token=TOKEN, port=PORT, user="ada")
        with TestClient(app, base_url=URL, raise_server_exceptions=False) as http:

            def send(method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
                answer = http.request(method, f"{URL}{path}", json=body, headers=dict(headers))
                return Answer(answer.status_code, answer.text, "json" in answer.headers["content-type"])

            def reached(workflow: str, status: str) -> None:
                assert it.status(workflow) == status, workflow

            replay = Replay(
                send, TOKEN, lambda: it.later(0), reached, now=datetime.fromtimestamp(T0, UTC) + timedelta(1)
            )
            for name in (LOGIN, *PARTS[part]):
                replay.play(name, with_processes=False)
