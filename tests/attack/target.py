"""A real server as a process, with something in it that is worth stealing, and a look at all that it has stored."""

import json
import os
import sqlite3
import ssl
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.attack.wire import Answer, request, wire
from tests.patience import until
from tests.worlds.command_line import RUN, Process, running, runrig

CANARY = "canary-Zk3vT9"
"""Stands in an environment and in a file of a workflow: neither belongs into a log or into an answer to a stranger."""

POOLS = """
pools:
- {name: team, quota: 8, subpools: [{name: a, quota: 2}, {name: b, quota: 2}]}
- {name: team2, quota: 4}
- {name: zebra, quota: 4}
"""
CLUSTER = f"""
backend: {{type: simulated}}
nodes:
- {{name: "n{{0..3}}", resources: {{gpu: 4}}}}
{POOLS}
"""
TREASURE = f"""
workflow:
  name: treasure
  tasks:
  - name: main
    image: any
    command: [train, --fast]
    duration: 100000
    resource: one
    environment: {{PASSWORD: {CANARY}}}
    files: [{{path: /tmp/key, contents: {CANARY}}}]
  resources:
    one: {{gpu: 1}}
"""
VOLATILE = ("leader", "tokens", "access_events", "browser_sessions", "usage_cursor", "usage_keys", "usage_sums")
"""Tables that also change when nobody changes anything: they keep who came and who was turned away, or a thread adds up
events for them in its own time.
"""


@dataclass
class Target:
    """*tokens*: by the name of their user; ``admin`` may do everything."""

    port: int
    data: Path
    log: Path
    process: Process
    tokens: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def headers(self, user: str | None = "admin") -> list[tuple[str, str]]:
        """What every honest client sends; *user* None: without a token."""
        token = [] if user is None else [("Authorization", f"Bearer {self.tokens[user]}")]
        return [("Host", f"127.0.0.1:{self.port}"), *token, ("Connection", "close")]

    def ask(
        self,
        method: str,
        path: str | bytes,
        *,
        user: str | None = "admin",
        headers: Iterable[tuple[str, str]] | None = None,
        body: object = None,
        source: str = "127.0.0.1",
    ) -> Answer:
        """*headers*: instead of the honest ones.  *body*: bytes as they are, everything else as JSON."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = self.headers(user) if headers is None else list(headers)
        if content is not None and not any(name.lower() == "content-type" for name, _ in sent):
            sent.append(("Content-Type", "application/json"))
        with wire(self.port, source, self.tls) as connection:
            return connection.send(request(method, path, sent, content)).answer()

    def raw(self, *pieces: bytes) -> Answer:
        with wire(self.port) as connection:
            return connection.send(*pieces).answer()

    def ok(self, method: str, path: str, body: object = None, user: str = "admin") -> Any:
        answer = self.ask(method, path, user=user, body=body)
        assert answer.status in (200, 201, 204), answer
        if answer.status == 204:
            return None
        return answer.json if answer.headers["content-type"] == "application/json" else answer.body.decode()

    def portrait(self, *, volatile: bool = False) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that is stored, read past the server; *volatile*: with all tables."""
        with sqlite3.connect(f"file:{self.data / 'runrig.db'}?mode=ro", uri=True) as database:
            names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name: sorted(database.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
                for name in names
                if volatile or name not in VOLATILE
            }

    def memory(self) -> int:
        """Bytes that the process really uses."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_s(self) -> float:
        """Seconds of processor time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def secrets(self) -> list[str]:
        return [CANARY, *self.tokens.values()]

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """What happens inside changes nothing, is still served, and leaves no secret in the log."""
        before = self.portrait()
        yield
        assert self.ask("GET", "/healthz", user=None).status == 200
        assert self.portrait() == before
        log = self.log.read_text()
        assert [secret for secret in self.secrets() if secret in log] == []
        assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:3000]


def refused(target: Target, answer: Answer, *statuses: int) -> dict[str, Any]:
    """The answer to something that may not be: a 4xx with a sentence in the shape of its door, and nothing besides."""
    assert answer.status in (statuses or range(400, 500)), answer
    if answer.bodiless:
        assert answer.body == b""
        return {}
    said: dict[str, Any] = answer.json
    if answer.headers["content-type"] == "application/problem+json":
        assert set(said) - {"details", "problems"} == {"type", "title", "status", "detail", "code"}, said
        assert said["status"] == answer.status
        said["message"] = said["detail"]
    else:
        assert answer.headers["content-type"] == "application/json", answer
        assert set(said) == {"message", "error_code", "details"}, said
    assert len(said["message"]) > 10, said
    leaked = [secret for secret in target.secrets() if secret.encode() in answer.body]
    assert (leaked, b"Traceback" in answer.body) == ([], False), answer
    return said


@contextmanager
def up(folder: Path, *more: str) -> Iterator[Target]:
    """`runrig up` on a simulated cluster, with a workflow of somebody in pool team2.  *more*: arguments."""
    data, cluster = folder / "data", folder / "cluster.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    cluster.write_text(CLUSTER)
    arguments = ["up", "--cluster", str(cluster), "--data", str(data), "--port", "0", *more]
    with started(arguments, folder / "stderr") as (running, _):
        port = int(json.loads((data / "server.json").read_text())["url"].rpartition(":")[2])
        target = Target(port, data, data / "server.log", running)
        target.tokens["admin"] = (data / "token").read_text().strip()
        hide_treasure(target)
        yield target


ROLES = {"vera": ["viewer"], "tim": ["team-admin"], "ann": ["team-user"], "eve": ["team2-user"], "nobody": []}
"""The people of `serve`; ``admin`` may do everything."""


@contextmanager
def serve(
    folder: Path, *, cluster: str = CLUSTER, run: str = RUN, tokens: Mapping[str, str] | None = None, **settings: object
) -> Iterator[Target]:
    """`runrig serve` with the people of ROLES and the same workflow.  *settings*: of the server file.

    *run*: what Python runs.  *tokens*: of an earlier one in the same folder, which then has all that already.
    """
    file = _server_file(folder, cluster, settings)
    admin = _first_admin(file) if tokens is None else ""
    with started(["serve", "--config", str(file)], folder / "stderr", run) as (running, line):
        port = int(line.split(" listens at ")[1].split(" ")[0].rpartition(":")[2])
        target = Target(port, folder / "data", folder / "server.log", running, dict(tokens or {"admin": admin}))
        target.tls = _any_certificate() if "tls" in settings else None
        wait_until_leading(target)
        if tokens is None:
            _invite(target)
            hide_treasure(target)
        yield target


def certificate(folder: Path) -> dict[str, str]:
    """A new one and its key, as `tls` of a server file."""
    made = {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=here"]
    request = ["openssl", "req", "-x509", *curve, "-out", made["cert"], "-keyout", made["key"]]
    subprocess.run(request, check=True, capture_output=True)
    Path(made["key"]).chmod(0o600)
    return made


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _server_file(folder: Path, cluster: str, settings: Mapping[str, object]) -> Path:
    file = folder / "serve.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.yaml").write_text(cluster)
    usual = {
        "data": str(folder / "data"),
        "listen": "127.0.0.1:0",
        "backend": "simulated",
        "cluster": "cluster.yaml",
        "log_file": str(folder / "server.log"),
    }
    file.write_text(yaml.safe_dump({**usual, **settings}))
    file.chmod(0o600)
    return file


def _first_admin(file: Path) -> str:
    made = runrig("serve", "--config", str(file), "--init-admin", "admin")
    assert made.code == 0, made.err
    return made.out.split()[-1]


def _invite(target: Target) -> None:
    for name, roles in ROLES.items():
        target.ok("POST", "/api/v1/users", {"name": name, "roles": roles})
        target.tokens[name] = target.ok("POST", f"/api/v1/users/{name}/tokens", {"name": "t"})["token"]


def wait_until_leading(target: Target) -> None:
    until(lambda: target.ask("GET", "/readyz", user=None).status == 200, said=target.log.read_text)


def hide_treasure(target: Target) -> None:
    target.ok("POST", "/api/pool/team2/workflow", {"file": TREASURE})
    target.ok("GET", "/api/v1/workflows/treasure-1/wait?for=RUNNING&timeout=120")
    until(lambda: target.portrait()["checkpoints"])  # A thread writes the first one, soon; the next is far away.


@contextmanager
def started(arguments: list[str], errors: Path, run: str = RUN) -> Iterator[tuple[Process, str]]:
    """`runrig` with *arguments*, once it has said its ready line."""
    with errors.open("a") as stream:
        child = running(arguments, stream, run)
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, f"it did not come up:\n{errors.read_text()}"
        yield child, line
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
