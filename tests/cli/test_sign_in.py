"""`runrig login --method oidc` at a real server and a real provider of identities, and what becomes of its token."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runrig.cli.commands import sign_in
from runrig.domain.errors import NotAllowed, Unavailable
from tests.attack.target import Target, serve
from tests.patience import PATIENCE_S
from tests.provider.running import CODES, DEVICES, Browser, Running, provider
from tests.worlds.command_line import Done, process, runrig

pytestmark = pytest.mark.slow


@dataclass
class Place:
    """A server, its provider, and the folder of somebody's settings."""

    target: Target
    provider: Running
    home: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.target.port}"

    @property
    def environment(self) -> dict[str, str]:
        browser = f"{sys.executable} -m tests.provider.browse alice %s"
        return {"XDG_CONFIG_HOME": str(self.home), "BROWSER": browser, "RUNRIG_DATA": ""}

    def run(self, *words: str) -> Done:
        return runrig(*words, env=self.environment)

    def login(self) -> Done:
        done = self.run("login", self.url, "--method", "oidc")
        assert done.code == 0, done
        return done

    @property
    def file(self) -> Path:
        return self.home / "runrig" / "logins.json"

    def renewal(self) -> dict[str, Any]:
        (found,) = json.loads(self.file.read_text())["renewals"].values()
        return dict(found)

    def pretend(self, **changed: object) -> None:
        """Changes what is kept of the renewal."""
        kept = json.loads(self.file.read_text())
        for each in kept["renewals"].values():
            each.update(changed)
        self.file.write_text(json.dumps(kept))

    def soon(self) -> None:
        self.pretend(ends_at=time.time() + 100)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    with provider(folder) as running:
        oidc = {"issuer": running.issuer, "client_id": "runrig", "role_map": {"ml": "team-user"}}
        with serve(folder / "server", oidc=oidc) as target:
            yield Place(target, running, folder)


@pytest.fixture
def place(shared: Place, tmp_path: Path) -> Place:
    shared.provider.groups(alice=["ml"])
    return Place(shared.target, shared.provider, tmp_path)


def test_later_commands_run_as_the_user_signed_in_through_the_browser(place: Place) -> None:
    done = place.login()
    assert done.out == (
        f"logged in to {place.url} as oidc:alice: team-user\n"
        "The sign-in is renewed automatically while the identity provider allows it.\n"
    )
    assert done.err.startswith(f"sign in at {place.provider.issuer}/authorize/?response_type=code&client_id=runrig&")
    assert place.file.stat().st_mode & 0o777 == 0o600
    pools = place.run("pool", "list", "-t", "json")
    assert (pools.code, "team2" in pools.out, '"team"' in pools.out) == (0, False, True)


def test_token_that_expires_soon_is_renewed_by_the_first_caller(place: Place) -> None:
    place.login()
    before = place.renewal()
    assert place.run("pool", "list").code == 0
    assert place.renewal() == before
    place.soon()
    environment = {**place.environment, "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen(process("pool", "list"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ended = [each.communicate(timeout=PATIENCE_S) for each in running]
    assert [(each.returncode, err) for each, (_, err) in zip(running, ended, strict=True)] == [(0, b"")] * 3
    after = place.renewal()
    assert after["refresh_token"] != before["refresh_token"]
    assert after["ends_at"] > before["ends_at"] - 1


def test_clock_that_was_set_back_renews_immediately(place: Place) -> None:
    place.login()
    before = place.renewal()
    place.pretend(begun_at=time.time() + 1000, ends_at=time.time() + 1900)
    assert place.run("pool", "list").code == 0
    assert place.renewal()["refresh_token"] != before["refresh_token"]


def test_a_withdrawn_group_is_gone_after_the_renewal(place: Place) -> None:
    place.login()
    place.provider.groups(alice=[])
    place.soon()
    done = place.run("pool", "show", "team")
    assert (done.code, "unknown pool 'team'" in done.err) == (2, True), done


def test_refusal_by_the_provider_is_one_line(place: Place) -> None:
    place.login()
    place.pretend(ends_at=time.time() + 100, refresh_token="stolen")
    done = place.run("pool", "list")
    assert done == Done(
        4,
        "",
        "Error: the identity provider refused: invalid_grant. "
        f"Sign in again: `runrig login {place.url} --method oidc`\n",
    )


def test_provider_that_is_down_does_not_matter_until_the_token_expires(tmp_path: Path) -> None:
    with provider(tmp_path) as running:
        oidc = {"issuer": running.issuer, "client_id": "runrig"}
        with serve(tmp_path / "server", oidc=oidc) as target:
            place = Place(target, running, tmp_path)
            place.login()
            running.process.kill()
            running.process.wait()
            place.soon()
            script = [*process("pool", "list")]
            done = subprocess.run(
                script, env={**place.environment, "PATH": "/usr/bin"}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done
            assert "the identity provider does not respond at http://127.0.0.1" in done.stderr
            assert ". The sign-in was not renewed and expires at " in done.stderr
            place.pretend(begun_at=0, ends_at=1)
            ended = place.run("pool", "list")
            assert (ended.code, ended.out) == (75, "")
            assert ended.err.startswith("Error: the identity provider does not respond at http://127.0.0.1")


def test_a_logout_forgets_the_refresh_token_too(place: Place) -> None:
    place.login()
    assert place.run("logout").code == 0
    assert "refresh_token" not in place.file.read_text()


def test_device_code_is_confirmed_on_another_machine(place: Place) -> None:
    place.provider.knows(DEVICES)
    try:
        command = process("login", place.url, "--method", "oidc", "--device")
        environment = {**place.environment, "PATH": "/usr/bin:/bin"}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as it:
            assert it.stderr is not None
            told = it.stderr.readline().split()
            assert told[:2] == ["open", f"{place.provider.issuer}/device/"]
            Browser("alice").open(told[1], f"{place.provider.issuer}/device-grant-status", user_code=told[-1])
            out, err = it.communicate(timeout=PATIENCE_S)
        assert (it.returncode, err) == (0, "")
        assert out.startswith(f"logged in to {place.url} as oidc:alice: team-user\n")
    finally:
        place.provider.knows(CODES)


def test_conflicting_options_are_refused(place: Place) -> None:
    done = place.run("login", place.url, "--method", "oidc", "--token-file", "x")
    assert (done.code, done.err) == (2, "Error: --token-file requires --method token. Omit one of them.\n")
    done = place.run("login", place.url, "--device")
    assert (done.code, done.err) == (2, "Error: --device requires --method oidc. Use both.\n")


# ---------------------------------------------------------------- the port to which the browser returns


def _sent(server: sign_in._Return, *targets: str) -> list[int]:
    """Statuses, while the server waits for its code."""
    return [httpx2.get(f"{server.uri}{target}").status_code for target in targets]


def test_callback_port_accepts_only_the_response_to_its_own_request() -> None:
    with sign_in._Return("https://i") as server:
        found: list[int] = []
        targets = ("", "?code=evil", "?code=evil&state=x", f"x?code=evil&state={server.state}", "?state=%ff&code=evil")
        thread = threading.Thread(
            target=lambda: found.extend(_sent(server, *targets, f"?code=good&state={server.state}"))
        )
        thread.start()
        assert server.code() == "good"
        thread.join()
        assert found == [400, 400, 400, 400, 400, 200]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("?error=access_denied", "the identity provider refused: access_denied"),
        ("?error=%1b%5b2J", "the identity provider refused: "),
        ("?x=y", "the identity provider refused: no code"),
        ("?code=c&iss=https://evil.example.org", "the response is not from https://i"),
    ],
)
def test_refusal_is_shown(target: str, words: str) -> None:
    with sign_in._Return("https://i") as server:
        thread = threading.Thread(target=_sent, args=(server, f"{target}&state={server.state}"))
        thread.start()
        with pytest.raises(NotAllowed, match=words) as refused:
            server.code()
        thread.join()
        assert refused.value.message.isprintable()


def test_waiting_for_the_browser_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "PATIENCE_S", 0.0)
    with sign_in._Return("https://i") as server:
        server.timeout = 0.01
        with pytest.raises(Unavailable, match="sign-in was not completed within 0 s"):
            server.code()
