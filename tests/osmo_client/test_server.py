"""The conversations of the client with a real `runrig up`, whose tasks are processes."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.osmo_client.conversations import CLUSTER, LOGIN, PARTS, Answer, Replay
from tests.worlds.command_line import Up, up

pytestmark = pytest.mark.slow

OPTIONS = ("--backend", "local", "--gpus", "4", "--cluster", str(CLUSTER))


def url_of(server: Up) -> str:
    """The address in the line that the server printed."""
    return server.said.split(" is up at ")[1].split()[0]


def token_of(server: Up) -> str:
    return (server.data / "token").read_text().strip()


def reached(server: Up, workflow: str, status: str) -> None:
    done = server.runrig("workflow", "wait", workflow, "--for", status, "--timeout", "60")
    assert done.code == 0, done


def test_client_finds_everything_it_needs_on_a_server_with_processes(tmp_path: Path) -> None:
    with up(tmp_path / "data", *OPTIONS) as server:
        url = url_of(server)

        def send(method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url + path, data, dict(headers), method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return Answer(answer.status, answer.read().decode(), "json" in answer.headers["content-type"])
            except urllib.error.HTTPError as refusal:
                with refusal:
                    return Answer(refusal.code, refusal.read().decode(), "json" in refusal.headers["content-type"])

        tomorrow = datetime.now(UTC) + timedelta(1)  # the client's times are in whole seconds, and the server is newer
        replay = Replay(send, token_of(server), lambda: None, lambda *what: reached(server, *what), now=tomorrow)
        for name in (LOGIN, *(each for part in PARTS.values() for each in part)):
            replay.play(name, with_processes=True)
