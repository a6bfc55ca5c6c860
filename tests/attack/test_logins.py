"""Ten thousand failed logins: most are not even listened to, a good token always is, and it costs the server next to nothing."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.attack.target import Target, refused, serve
from tests.patience import PATIENCE_S, crowding

TRIES = 10_000
ATTACKERS = 10
MOST_MEMORY = 60 * 1024 * 1024
LISTENED_TO = 10
"""From one address, before it has to wait."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serve(tmp_path_factory.mktemp("logins")) as target:
        yield target


Attempt = tuple[str, str, str | None, dict[str, str]]
"""Method, path, body, headers."""


def _token(guess: str) -> Attempt:
    return "GET", "/api/pool", None, {"Authorization": f"Bearer {guess}"}


def _form(guess: str) -> Attempt:
    return "POST", "/login", f"shown={guess}", {"Content-Type": "application/x-www-form-urlencoded"}


class _Attacker(threading.Thread):
    """Tries secrets from an address of its own, each on the connection of the one before where the server lets it."""

    def __init__(self, port: int, address: str, way: Callable[[str], Attempt]) -> None:
        super().__init__(name=f"attacker {address}")
        self.statuses: Counter[int] = Counter()
        self.waits: set[int] = set()
        self._port = port
        self._address = address
        self._way = way

    def run(self) -> None:
        for number in range(TRIES // ATTACKERS):
            connection = http.client.HTTPConnection(
                "127.0.0.1", self._port, timeout=PATIENCE_S, source_address=(self._address, 0)
            )
            method, path, body, headers = self._way(f"{number:043}")
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
            if answer.status == 429:
                self.waits.add(int(answer.headers["retry-after"]))
            connection.close()


@pytest.mark.parametrize(("way", "net"), [(_token, "127.2.0"), (_form, "127.7.0")])
def test_ten_thousand_failed_logins_are_limited_and_a_valid_token_still_works(
    target: Target, way: Callable[[str], Attempt], net: str
) -> None:
    before = target.memory()
    log_before = target.log.stat().st_size
    attackers = [_Attacker(target.port, f"{net}.{number + 1}", way) for number in range(ATTACKERS)]
    slowest, allowed = 0.0, 5.0 * crowding()
    for attacker in attackers:
        attacker.start()
    while any(attacker.is_alive() for attacker in attackers):
        start = time.monotonic()
        # Clients at neighbouring addresses of an attacker must not be affected.
        assert target.ask("GET", "/api/pool", user="ann", source=f"{net}.1").status == 200
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.01)  # They, too, want the processor.
    statuses = sum((attacker.statuses for attacker in attackers), Counter[int]())
    assert set(statuses) == {401, 429}
    assert statuses.total() == TRIES
    assert LISTENED_TO * ATTACKERS <= statuses[401] < TRIES / 10
    assert all(wait > 0 for attacker in attackers for wait in attacker.waits)
    assert slowest < allowed
    assert target.memory() - before < MOST_MEMORY
    assert target.log.stat().st_size - log_before < 500 * TRIES


def test_other_addresses_still_get_the_error_and_then_a_retry_time(target: Target) -> None:
    said = set()
    for _ in range(LISTENED_TO + 5):
        headers = [("Host", f"127.0.0.1:{target.port}"), ("Authorization", "Bearer wrong")]
        answer = target.ask("GET", "/api/pool", headers=headers, source="127.3.0.1")
        refused(target, answer, 401, 429)
        said.add(answer.status)
    assert 429 in said


def test_false_client_addresses_are_ignored(target: Target) -> None:
    """Without a proxy nobody may say whom he calls for."""
    said = Counter[int]()
    for number in range(3 * LISTENED_TO):
        headers = [
            ("Host", f"127.0.0.1:{target.port}"),
            ("X-Forwarded-For", f"10.0.0.{number}"),
            ("Forwarded", f"for=10.0.0.{number}"),
            ("X-Real-IP", f"10.0.0.{number}"),
            ("Authorization", "Bearer wrong"),
        ]
        said[target.ask("GET", "/api/pool", headers=headers, source="127.4.0.1").status] += 1
    assert said[429] >= 2 * LISTENED_TO - 2
