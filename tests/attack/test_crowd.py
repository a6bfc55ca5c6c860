"""Clients that open connections and do nothing: they are few for each address, go after a while, and others are served."""

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attack.target import Target, refused, serve
from tests.attack.wire import Wire, request, wire
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import RUN

CONNECTIONS = 400
OF_ADDRESS = CONNECTIONS // 4
OF_USER = CONNECTIONS // 2
IDLE = 2500
FILES = 1024


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Behind a proxy at 127.0.0.1; all other addresses call for themselves."""
    patient = f"from runrig.http import crowd; crowd.STRANGER_S = {PATIENCE_S}; {RUN}"
    folder = tmp_path_factory.mktemp("crowd")
    with serve(folder, run=patient, connections=CONNECTIONS, behind_proxy=True, read_timeout_s=PATIENCE_S) as target:
        yield target


def idle(stack: ExitStack, target: Target, count: int, source: str) -> list[Wire]:
    return [stack.enter_context(wire(target.port, source)) for _ in range(count)]


def half(target: Target, user: str) -> bytes:
    """A request with a good token whose body never comes."""
    headers = [*target.headers(user), ("Content-Type", "application/json"), ("Content-Length", "1000")]
    return request("POST", "/api/pool/team/workflow", headers)


def test_oldest_anonymous_connection_of_an_address_is_closed_if_there_are_too_many(target: Target) -> None:
    with ExitStack() as stack:
        others = idle(stack, target, OF_ADDRESS, "127.0.0.3")
        first, *rest = idle(stack, target, OF_ADDRESS, "127.0.0.2")
        assert target.ask("GET", "/api/version", source="127.0.0.2").status == 200
        said = refused(target, first.answer(), 503)["message"]
        assert said == "100 connections of 127.0.0.2 have not sent a valid token, and this is the oldest"
        assert first.is_closed()
        assert [each for each in (*others[-3:], *rest[-3:]) if each.is_closed(0.01)] == []


def test_anonymous_connection_has_ten_seconds_and_an_authenticated_one_has_more(tmp_path: Path) -> None:
    soon = f"from runrig.http import crowd; crowd.STRANGER_S = 1.0; {RUN}"
    with serve(tmp_path, run=soon) as target, wire(target.port) as stranger, wire(target.port) as known:
        ask = request("GET", "/api/version", target.headers()[:-1])
        assert known.send(ask).answer().status == 200
        message = refused(target, stranger.answer(), 408)["message"]
        assert message == "no valid token was received within 1 seconds: send a request with one"
        assert stranger.is_closed()
        assert known.send(ask).answer().status == 200


def test_one_user_gets_at_most_half_of_the_connections(target: Target) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(wire(target.port, "127.0.0.4")).send(half(target, "ann")) for _ in range(OF_USER)]
        until(lambda: target.ask("GET", "/api/version", user="ann", source="127.0.0.4").status == 503)
        answer = target.ask("GET", "/api/version", user="ann", source="127.0.0.4")
        assert refused(target, answer, 503)["message"] == (
            "ann has 200 open connections, which is the limit for one user. Close some"
        )
        assert answer.headers["retry-after"] == "1"
        assert target.ask("GET", "/api/version", user="eve").status == 200
        assert not held[0].is_closed(0.01)
    until(lambda: target.ask("GET", "/api/version", user="ann").status == 200)


def test_only_a_configured_proxy_can_name_the_client(target: Target) -> None:
    def login(address: str) -> bytes:
        more = [("X-Forwarded-For", address), ("Content-Type", "application/json"), ("Content-Length", "100")]
        return request("POST", "/api/auth/jwt/access_token", [*target.headers(None), *more])

    with ExitStack() as stack:
        idle(stack, target, OF_ADDRESS + 5, "127.0.0.1")  # a proxy may keep some open
        first, *_ = [each.send(login("10.0.0.1")) for each in idle(stack, target, OF_ADDRESS, "127.0.0.1")]
        assert not first.is_closed(0.1)
        first.socket.settimeout(PATIENCE_S)
        stack.enter_context(wire(target.port)).send(login("10.0.0.1"))
        said = refused(target, first.answer(), 503)["message"]
        assert said == "100 connections of 10.0.0.1 have not sent a valid token, and this is the oldest"
    with ExitStack() as stack:
        first, *_ = (
            each.send(login(f"10.0.1.{number}"))
            for number, each in enumerate(idle(stack, target, OF_ADDRESS + 1, "127.0.0.5"))
        )
        said = refused(target, first.answer(), 503)["message"]
        assert said == "100 connections of 127.0.0.5 have not sent a valid token, and this is the oldest"


def test_2500_idle_connections_do_not_lock_out_users_and_are_not_logged_individually(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 200:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 200), hard))
    scarce = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); {RUN}"
    with serve(tmp_path, run=scarce) as target, ExitStack() as stack:
        before = target.log.stat().st_size
        for number in range(IDLE):
            stack.enter_context(wire(target.port))
            if number % 500 == 499:
                assert target.ask("GET", "/api/version").status == 200
        assert target.ask("GET", "/api/version", source="127.0.0.2").status == 200
        assert len(list(Path(f"/proc/{target.process.pid}/fd").iterdir())) < FILES
        assert target.log.stat().st_size - before < 10_000, target.log.read_text()[-3000:]
        assert "Traceback" not in target.log.read_text()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
