"""A client that disconnects while it waits for a search leaves the queue; with real connections."""

import http.client
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI

from runrig.api.app import create_app
from runrig.service.service import Service
from runrig.web.install import install
from tests.api.client import AUTHORIZED, TOKEN
from tests.patience import PATIENCE_S, until
from tests.worlds.http import listening
from tests.worlds.service import desk


def _with_pages(service: Service, port: int) -> FastAPI:
    app = create_app(service, token=TOKEN, port=port, user="ann")
    install(app, service)
    return app


@pytest.mark.parametrize(
    ("part", "path"),
    [("change_queries", "/api/v1/workflows/b-1/why?changes=own"), ("plans", "/pool/pool1/what-if?quota=4")],
)
def test_disconnect_ends_a_wait(tmp_path: Path, part: str, path: str) -> None:
    with desk(tmp_path) as it:
        for name in ("a", "b"):
            it.submit(name, "pool1", gpus=2)
            it.later(0)
        turns = getattr(it.service, part)._turns
        turns.within_s, turns.of_all = PATIENCE_S, 9  # no wait times out here or is refused
        with listening(lambda port: _with_pages(it.service, port)) as port:
            with ExitStack() as others:
                for _ in range(turns.at_once):
                    others.enter_context(turns.turn())
                asker = http.client.HTTPConnection(f"127.0.0.1:{port}")
                asker.request("GET", path, headers=AUTHORIZED)
                until(lambda: len(turns._waiting) == 1, 15)
                asker.close()
                until(lambda: not turns._waiting, 15)
            asker.request("GET", path, headers=AUTHORIZED)
            assert asker.getresponse().status == 200
            asker.close()
