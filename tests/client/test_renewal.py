"""The token of a sign-in is renewed by one call of an `AsyncClient`, and the event loop goes on meanwhile: on a real, slow server."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runrig.client import AsyncClient, Client, NotAllowed, exchange
from runrig.client.saved import Logins, Renewal, read, write
from runrig.domain.shown import Workflow
from runrig.wire.base import example_of
from tests.patience import PATIENCE_S, until

OLD, NEW = "old", "new"
RENEWAL = "/api/v1/sign-in/renewal"
AGREED = (200, {"token": NEW, "refresh_token": "r2", "expires_in_s": 900})
REFUSED = (403, {"detail": "the identity provider refused: invalid_grant", "code": "FORBIDDEN"})


@dataclass
class Slow:
    """It answers a renewal with *answer*, and not before *may_answer*; everything else at once, with the token that came.

    Output begins at once, and goes on when a renewal was asked for.
    """

    url: str = ""
    answer: tuple[int, Mapping[str, object]] = AGREED
    may_answer: threading.Event = field(default_factory=threading.Event)
    renewals: list[str] = field(default_factory=list)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RUNRIG_TOKEN", raising=False)
    script = Slow()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == RENEWAL
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.renewals.append(body["refresh_token"])
            assert script.may_answer.wait(PATIENCE_S)
            self._say(*script.answer)

        def do_GET(self) -> None:
            if self.path.partition("?")[0].endswith("/logs"):
                return self._follow()
            if "/workflows/" in self.path:
                return self._say(200, example_of(Workflow))
            return self._say(200, {"version": self.headers["Authorization"].removeprefix("Bearer ")})

        def _say(self, status: int, body: object) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def _follow(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"one\n")
            until(lambda: script.renewals != [])
            self.wfile.write(b"two\n")

        def log_message(self, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield script
    script.may_answer.set()
    server.shutdown()
    server.server_close()
    thread.join()


def signed_in(server: Slow, *, ends_in_s: float) -> None:
    now = time.time()
    write(Logins().with_token(server.url, OLD, Renewal("r1", now - 600, now + ends_in_s)))


async def asked(server: Slow) -> None:
    """Returns once *server* was asked for a renewal; other coroutines go on meanwhile."""
    async with asyncio.timeout(PATIENCE_S):
        while not server.renewals:
            await asyncio.sleep(0.01)


def test_other_calls_use_the_token_while_it_is_valid(slow: Slow) -> None:
    async def calls() -> tuple[list[str], str, str]:
        async with AsyncClient(slow.url) as client:
            first = asyncio.create_task(client.version())
            await asked(slow)
            meanwhile = [await client.version() for _ in range(3)]
            assert not first.done()
            slow.may_answer.set()
            return meanwhile, await first, await client.version()

    signed_in(slow, ends_in_s=100)
    assert asyncio.run(calls()) == ([OLD] * 3, NEW, NEW)
    assert slow.renewals == ["r1"]
    assert read().token(slow.url) == NEW


def test_after_expiry_all_calls_wait_for_one_renewal_and_the_loop_continues(slow: Slow) -> None:
    async def calls() -> list[str]:
        async with AsyncClient(slow.url) as client:
            waiting = [asyncio.create_task(client.version()) for _ in range(5)]
            await asked(slow)
            for _ in range(10):  # turns of the event loop; any of them could end here
                await asyncio.sleep(0)
            assert not any(each.done() for each in waiting)
            slow.may_answer.set()
            return await asyncio.gather(*waiting)

    signed_in(slow, ends_in_s=-1)
    assert asyncio.run(calls()) == [NEW] * 5
    assert slow.renewals == ["r1"]


def test_renewal_begun_by_a_cancelled_call_is_kept(slow: Slow) -> None:
    async def impatient() -> str:
        async with AsyncClient(slow.url) as client:
            first = asyncio.create_task(client.version())
            await asked(slow)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            slow.may_answer.set()
            await asyncio.to_thread(until, lambda: read().token(slow.url) == NEW)
            return await client.version()

    signed_in(slow, ends_in_s=-1)
    assert asyncio.run(impatient()) == NEW
    assert slow.renewals == ["r1"]


@pytest.mark.parametrize("refused", [False, True])
def test_client_that_only_follows_renews_too(slow: Slow, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    monkeypatch.setattr(exchange, "LOOK_S", 0.05)
    slow.may_answer.set()
    slow.answer = REFUSED if refused else AGREED
    signed_in(slow, ends_in_s=300.5)  # not due at first
    found: list[str] = []

    def follow() -> None:
        with Client(slow.url) as client:
            found.extend(client.workflows.logs("a-1", follow=True))

    if refused:
        with pytest.raises(NotAllowed, match="Sign in again"):
            follow()
    else:
        follow()
        assert found == ["one", "two"]
        assert read().token(slow.url) == NEW
    assert slow.renewals == ["r1"]


def test_event_loop_continues_while_a_stream_is_followed(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LOOK_S", 0.05)
    slow.may_answer.set()

    async def followed() -> list[str]:
        async with AsyncClient(slow.url) as client:
            return [line async for line in client.workflows.logs("a-1", follow=True)]

    signed_in(slow, ends_in_s=300.5)
    assert asyncio.run(followed()) == ["one", "two"]
    assert slow.renewals == ["r1"]


def test_refusal_by_the_provider_is_reported(slow: Slow) -> None:
    async def refused() -> None:
        async with AsyncClient(slow.url) as client:
            with pytest.raises(NotAllowed, match=r"invalid_grant\. Sign in again: `runrig login "):
                await client.version()

    slow.answer = REFUSED
    slow.may_answer.set()
    signed_in(slow, ends_in_s=100)
    asyncio.run(refused())
