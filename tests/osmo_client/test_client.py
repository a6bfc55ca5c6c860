"""The client itself, where it is installed: it asks what was recorded, and ends as it did then.

``RUNRIG_OSMO_CLIENT`` is the path of an unmodified `osmo` 6.4.0.  Without it nothing is run.
"""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.osmo_client.conversations import FILES, HEADERS, LOGIN, PARTS, Ask, Step, dug, filled, steps
from tests.osmo_client.recording import Noted, Proxy, proxy
from tests.osmo_client.test_server import OPTIONS, reached, token_of, url_of
from tests.worlds.command_line import Up, up

CLIENT = os.environ.get("RUNRIG_OSMO_CLIENT", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),  # a second for each of more than a hundred commands, on an idle machine
    pytest.mark.skipif(not CLIENT, reason="RUNRIG_OSMO_CLIENT does not name a client of OSMO 6.4.0"),
]

RENEWAL = "/api/auth/jwt/access_token"
"""Asked before anything else once the token of the login runs out, whatever the command."""
_TIMES = re.compile(r"(at_timestamp|expires_at)=[^&]*")
"""What depends on the moment at which the client asks."""


@contextmanager
def terminal() -> Iterator[int]:
    """The end of a terminal that a program reads: `exec` asks for its size."""
    ours, theirs = pty.openpty()
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def test_client_sends_the_recorded_requests_and_gets_the_recorded_results(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "files")  # where the client writes its own files
    with up(tmp_path / "data", *OPTIONS) as server, proxy(urlsplit(url_of(server)).port or 0) as between:
        names: dict[str, Any] = {"url": f"http://127.0.0.1:{between.server_port}", "token": token_of(server)}
        for name in (LOGIN, *sorted(each for part in PARTS.values() for each in part)):  # the last one logs out
            for step in filter(lambda step: step.by_client, steps(name)):
                _run(server, between, step, names, tmp_path)


def _run(server: Up, between: Proxy, step: Step, names: dict[str, Any], home: Path) -> None:
    for workflow, status in step.after.items():
        reached(server, workflow, status)
    between.noted.clear()
    done = _client(filled(step.run, names), home)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert done.returncode == step.exit, said
    login = step.run.startswith("login")
    asks = [ask for ask in step.asks if login or ask.path != RENEWAL]
    there = [noted for noted in between.noted if login or noted.path != RENEWAL]
    asked = _as_recorded(there)
    for ask, noted in zip(asks, there, strict=False):
        for name, place in ask.keep.items():
            names[name] = dug(_json(noted), place)
    names |= {"now": "", "in_31_days": ""}
    assert asked == [_written(ask, names) for ask in asks], step.run
    if step.exit:
        assert asks[-1].says in said if asks else said


def _client(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    folders = ("OSMO_CONFIG_FILE_DIR", "OSMO_LOG_FILE_DIR", "XDG_STATE_HOME", "HOME")
    env = {**os.environ, **dict.fromkeys(folders, str(home)), "EDITOR": "true", "BROWSER": "true"}
    with terminal() as stdin:
        return subprocess.run(
            [CLIENT, *shlex.split(line)],
            cwd=home / "files",
            env=env,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def _as_recorded(noted: Sequence[Noted]) -> list[tuple[str, str, Any, int]]:
    for each in noted:
        sent: Mapping[str, str] = {name.lower(): value for name, value in each.headers.items()}
        if not each.path.startswith("/api/auth/"):
            assert {name: sent.get(name.lower()) for name in HEADERS} | {"x-osmo-client-version": None} == HEADERS | {
                "x-osmo-client-version": None
            }
    return [(each.method, _TIMES.sub(r"\1=", each.path), each.body, each.status) for each in noted]


def _written(ask: Ask, names: Mapping[str, Any]) -> tuple[str, str, Any, int]:
    path = _TIMES.sub(r"\1=", filled(ask.path, names))
    return ask.method, path, filled(ask.body, names), ask.status


def _json(noted: Noted) -> Any:
    return json.loads(noted.answer)
