"""`runrig serve` as a process: it refuses to start open, speaks TLS, knows its names, and has its first administrator made."""

import http.client
import json
import shutil
import signal
import sqlite3
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from runrig.cli.main import run
from tests.failover.load import workflow
from tests.failover.servers import Server, Site, site
from tests.patience import PATIENCE_S, crowding, until
from tests.worlds.command_line import ended
from tests.worlds.http import Client

DATA = Path(__file__).parent / "data"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, "data/runrig.db") as found:
        yield found


@contextmanager
def serving(here: Site, more: str = "") -> Iterator[Server]:
    """With *more* in its file."""
    arguments = here.arguments()
    file = here.folder / f"serve{here._number}.yaml"
    file.write_text(file.read_text() + more)
    server = Server(arguments, here.folder / f"serve{here._number}.log")
    here.servers.append(server)
    server.wait_until_up()
    yield server
    here.forget(server)


def ask(server: Server, path: str, *, tls: bool = False, **headers: str) -> tuple[int, Any]:
    address = server.url.partition("://")[2]
    if tls:
        context = ssl.create_default_context(cafile=str(DATA / "cert.pem"))
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            address, timeout=PATIENCE_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def checked(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(["serve", "--config", str(file), "--check"])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_check_reports_problems_with_file_and_line_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("data: data\nbackend: simulated\n")
    assert checked(file, capsys) == (0, f"{file} is valid\n")
    file.write_text("data: data\nbackend: local\nlisten: 10.1.2.3:80\n")
    code, said = checked(file, capsys)
    assert code == 2
    assert [line.split(": ")[0] for line in said.splitlines()] == [f"{file}:2:10", f"{file}:3:9"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["serve.yaml"]


KUBECONFIG = """
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: lab, context: {cluster: lab, user: me}}]
users: [{name: me, user: {token: secret}}]
current-context: lab
"""


@pytest.mark.parametrize(
    ("kubeconfig", "more", "message"),
    [
        (KUBECONFIG, "", None),
        (KUBECONFIG, ", context: prod", "kubeconfig KUBE cannot be used: unknown context 'prod' (contexts: lab). Correct backend.context"),
        ("a: b: c", "", "kubeconfig KUBE cannot be used: not valid YAML (line 1)"),
        ("", "", "kubeconfig KUBE cannot be used: not a kubeconfig (must be a mapping)"),
        (KUBECONFIG.replace("{server", "{certificate-authority: no/ca, server"), "",
            "kubeconfig KUBE cannot be used: No such file or directory HERE/no/ca"),
        (KUBECONFIG.replace("{token: secret", "{tokenFile: /dev/zero"), "",
            "kubeconfig KUBE cannot be used: Not a regular file /dev/zero"),
    ],
)  # fmt: skip
def test_invalid_kubeconfig_is_a_problem_of_the_file_at_check_and_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kubeconfig: str, more: str, message: str | None
) -> None:
    file, kube = tmp_path / "serve.yaml", tmp_path / "kube"
    kube.write_text(kubeconfig)
    file.write_text(f"data: data\nlisten: 127.0.0.1:0\nbackend: {{type: kubernetes, kubeconfig: {kube}{more}}}\n")
    if message is None:
        code, said = checked(file, capsys)
        silent = (
            f"{file} is valid\nThe cluster could not be checked: the API server https://127.0.0.1:1 does not respond"
        )
        assert (code, said[: len(silent)]) == (0, silent)
        return
    expected = 2, f"{file}: {message}\n".replace("KUBE", str(kube)).replace("HERE", str(tmp_path))
    assert checked(file, capsys) == expected
    code = run(["serve", "--config", str(file)])
    assert (code, capsys.readouterr().err) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kube", "serve.yaml"]


def test_missing_kubeconfig_of_the_environment_is_reported_with_all_ways_to_set_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/k")
    file = tmp_path / "serve.yaml"
    file.write_text("data: data\nbackend: kubernetes\n")
    code, said = checked(file, capsys)
    assert (code, said) == (
        2,
        f"{file}: no kubeconfig at /nowhere/k. Set backend.kubeconfig or KUBECONFIG, or run in a pod with "
        "a service account\n",
    )


@pytest.mark.slow
def test_first_administrator_is_created_once_and_can_log_in(here: Site) -> None:
    token = here.admin()
    again = ended(*here.arguments("--init-admin", "eve"))
    assert (again.code, again.out) == (1, "")
    with serving(here) as server:
        until(lambda: server.ready)
        assert ask(server, "/api/version")[0] == 401
        assert ask(server, "/api/version", Authorization=f"Bearer {token}")[0] == 200
        during = ended(*here.arguments("--init-admin", "eve"))
        assert during.code == 10
        assert "is in use by the server with process id" in during.err
        assert token not in server.log()


@pytest.mark.slow
def test_server_speaks_only_tls_if_configured(here: Site) -> None:
    for name in ("cert.pem", "key.pem"):
        shutil.copy(DATA / name, here.folder / name)
    (here.folder / "key.pem").chmod(0o600)
    with serving(here, "tls: {cert: cert.pem, key: key.pem}\n") as server:
        assert server.url.startswith("https://127.0.0.1:")
        until(lambda: ask(server, "/readyz", tls=True)[0] == 200)
        assert ask(server, "/api/version", tls=True)[0] == 401
        origin = server.url
        assert ask(server, "/api/version", tls=True, Origin=origin)[0] == 401
        assert ask(server, "/api/version", tls=True, Origin=origin.replace("https", "http"))[0] == 403
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(server, "/healthz")


@pytest.mark.slow
def test_server_accepts_the_names_in_its_file_and_health_checks_under_any(here: Site) -> None:
    with serving(here, "hosts: [runrig.example.org]\n") as server:
        until(lambda: server.ready)
        port = server.url.rpartition(":")[2]
        for host in (f"runrig.example.org:{port}", f"RUNRIG.example.org:{port}", f"127.0.0.1:{port}"):
            assert ask(server, "/api/version", Host=host)[0] == 401
        for host in ("evil.example", f"evil.example:{port}", f"runrig.example.org.evil:{port}", "runrig.example.org:1"):
            assert ask(server, "/api/version", Host=host)[0] == 403
        assert ask(server, "/healthz", Host="10.2.3.4:1") == (200, {"status": "ok"})
        assert ask(server, "/readyz", Host="10.2.3.4:1") == (200, {"status": "ready"})


@pytest.mark.slow
def test_cluster_file_creates_a_new_cluster_and_leaves_an_existing_one_unchanged(here: Site) -> None:
    with serving(here) as server:
        until(lambda: server.ready)
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    here.database = str(here.folder / "data" / "runrig.db")
    with here.store() as store:
        before = store.load()
    assert [pool.name for pool in before.pools] == ["team"]
    file = here.folder / "cluster.yaml"
    file.write_text(file.read_text().replace("quota: 32", "quota: 16"))
    with serving(here) as server:
        until(lambda: server.ready)
        assert "event=cluster_file_differs names=pool/team" in server.log()
    with here.store() as store:
        assert store.load().pools == before.pools


@pytest.mark.slow
def test_unusable_database_ends_the_server_with_its_reason(here: Site) -> None:
    (here.folder / "data").mkdir()
    with closing(sqlite3.connect(here.folder / "data" / "runrig.db")) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    found = ended(*here.arguments())
    assert found.code == 10
    assert "belongs to another program (it has the table 'songs')" in found.err


@pytest.mark.slow
def test_clients_waiting_at_a_stopping_leader_get_a_message(here: Site) -> None:
    token = here.admin()
    with serving(here) as server:
        until(lambda: server.ready)
        headers = {"Authorization": f"Bearer {token}"}
        body = {"file": workflow("long").replace('"4s"', '"4h"')}
        with closing(Client(server.url.partition("://")[2], headers)) as client:
            client.ok("POST", "/api/pool/team/workflow", body)
        connection = http.client.HTTPConnection(server.url.partition("://")[2], timeout=PATIENCE_S)
        connection.request("GET", "/api/v1/workflows/long-1/wait?timeout=600", headers=headers)
        until(lambda: "event=committed" in server.log())
        server.send(signal.SIGTERM)
        start = time.monotonic()
        with suppress(OSError, http.client.HTTPException):
            assert connection.getresponse().status == 503
        connection.close()
        assert server.wait() == 0
        assert time.monotonic() - start < 20 * crowding()
