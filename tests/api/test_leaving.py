"""A client that disconnects while it waits for a search leaves the queue; with real connections."""

import http.client
from contextlib import ExitStack
from pathlib import Path

from runrig.api.app import create_app
from runrig.service.queries import would_start
from tests.api.client import AUTHORIZED, TOKEN
from tests.patience import PATIENCE_S, until
from tests.worlds.http import listening
from tests.worlds.service import desk

PATH = "/api/v1/workflows/b-1/why?changes=own"


def test_disconnect_ends_a_wait(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        for name in ("a", "b"):
            it.submit(name, "pool1", gpus=2)
            it.later(0)
        turns = it.service.change_queries._turns
        turns._within_s = PATIENCE_S  # no wait times out here
        with listening(lambda port: create_app(it.service, token=TOKEN, port=port, user="ann")) as port:
            with ExitStack() as others:
                for _ in range(would_start.AT_ONCE):
                    others.enter_context(turns.turn())
                asker = http.client.HTTPConnection(f"127.0.0.1:{port}")
                asker.request("GET", PATH, headers=AUTHORIZED)
                until(lambda: len(turns._waiting) == 1, 15)
                asker.close()
                until(lambda: not turns._waiting, 15)
            asker.request("GET", PATH, headers=AUTHORIZED)
            assert asker.getresponse().status == 200
            asker.close()
