"""Writes what a server leaves behind when it is killed: ``python -m tests.store.record_session tests/store/data/sessions/vX.Y.Z.sql.gz``.

Run once per release, from the repository's root, by the code of that release: a real `runrig up` on the simulated backend, a
session of its own command line with something of everything in it, and ``kill -9`` while work runs, waits and stops.
"""

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

PATIENCE_S = 60.0

CLUSTER = """
backend: {name: lab, type: simulated}
flavors:
- {name: h100, node_labels: {gpu: h100}}
- {name: b200, node_labels: {gpu: b200}}
nodes:
- {name: "h{0..5}", resources: {gpu: 4, cpu: 32}, labels: {gpu: h100, zone: "z{n//4}", rack: "r{n//2}"}}
- {name: "b{0..1}", resources: {gpu: 8}, labels: {gpu: b200, zone: z2, rack: r9}}
- {name: b2, resources: {gpu: 8}, labels: {gpu: b200, zone: z2, rack: r9}, cordoned: true}
cohorts:
- {name: org}
- {name: research, parent: org, quota: {h100: {gpu: {nominal: 2, borrowing_limit: 16, lending_limit: 8}}}}
pools:
- name: vision
  cohort: research
  quota: {h100: {gpu: {nominal: 10, borrowing_limit: 12}}, b200: 8}
  topology_keys: [{key: zone, label: zone}, {key: rack, label: rack}]
  subpools: [{name: robots, quota: {h100: 4, b200: 2}}, {name: maps, quota: "25%"}]
- name: speech
  cohort: research
  quota: {h100: {gpu: {nominal: 8, lending_limit: 6}}, b200: {gpu: {nominal: 4}}}
  default_exit_actions: {RESCHEDULE: "75"}
- {name: batch, cohort: org, quota: {h100: 2}, flavors: [h100], queueing: STRICT_FIFO, grace_s: 5, description: nightly work}
"""

LONG, SHORT = 10_000, 1


def one(
    name: str, gpus: int, seconds: int, *, count: int | None = None, least: int | None = None, more: str = ""
) -> str:
    size = "" if count is None else f", count: {count}" + ("" if least is None else f", minCount: {least}")
    return f"""
workflow:
  name: {name}
  resources: {{one: {{gpu: {gpus}}}}}
  tasks:
  - {{name: main, image: any, command: [work], resource: one, duration: {seconds}{size}{more}}}
"""


CHAIN = """
workflow:
  name: chain
  labels: {of: the-session}
  timeout: {exec_timeout: 3h, queue_timeout: 1d}
  resources: {one: {gpu: 1}}
  groups:
  - name: first
    tasks: [{name: draw, image: any, command: [draw], resource: one, duration: 1, files: [{path: /a, contents: "ä\\n"}]}]
  - name: second
    tasks:
    - {name: lead, lead: true, image: any, command: [train], resource: one, duration: 10000, inputs: [{task: draw}]}
    - {name: mate, image: any, command: [help], resource: one, duration: 10000, exitActions: {RESCHEDULE: "1-9"}}
  - name: third
    tasks: [{name: sum, image: any, command: [sum], resource: one, duration: 1, inputs: [{task: lead}]}]
"""

RACKS = """
workflow:
  name: racks
  resources:
    near: {gpu: 1, topology: [{key: zone, group: z}, {key: rack, group: r, sliceSize: 2}]}
  tasks: [{name: shard, image: any, command: [work], resource: near, count: 4, duration: 10000}]
"""


class Session:
    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self._process: subprocess.Popen[str] | None = None

    def up(self) -> None:
        (self.folder / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        command = [*self._program(), "up", "--cluster", str(self.folder / "cluster.yaml"), "--port", "0"]
        with (self.folder / "up.stderr").open("a") as errors:
            self._process = subprocess.Popen(
                [*command, "--data", str(self.data)], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise SystemExit(f"it did not come up: {(self.folder / 'up.stderr').read_text()}")

    def end(self, *, kill: bool) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()

    def __call__(self, *words: str, stdin: str | None = None, refused: bool = False, token: str | None = None) -> str:
        """What the command prints.  *refused*: it must end with an error."""
        environment = {**os.environ, "RUNRIG_DATA": str(self.data)}
        if token is not None:
            server = json.loads((self.data / "server.json").read_text())["url"]
            environment |= {"RUNRIG_TOKEN": token, "RUNRIG_SERVER": server}
        done = subprocess.run(
            [*self._program(), *words], input=stdin, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        if (done.returncode != 0) != refused:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, text: str, pool: str, priority: str = "NORMAL", token: str | None = None) -> str:
        words = ("workflow", "submit", "-", "--pool", pool, "--priority", priority, "-t", "json")
        return str(json.loads(self(*words, stdin=text, token=token))["name"])

    def kill_while_it_waits_for_others_to_stop(self, text: str, pool: str) -> None:
        """The answer to the one who submits may be lost with the server."""
        command = [*self._program(), "workflow", "submit", "-", "--pool", pool, "--priority", "HIGH"]
        environment = {**os.environ, "RUNRIG_DATA": str(self.data)}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as client:
            assert client.stdin is not None
            client.stdin.write(text)
            client.stdin.close()
            self._until(lambda: self._gangs("NOMINATED") > 0)
            self.end(kill=True)
        if not self._gangs("STOPPING"):
            raise SystemExit("nothing was stopping when it was killed")

    def _gangs(self, state: str) -> int:
        with closing(sqlite3.connect(self.data / "runrig.db")) as connection:
            (count,) = connection.execute("SELECT count(*) FROM gangs WHERE state = ?", (state,)).fetchone()
        return int(count)

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise SystemExit("it never came to hold")
            time.sleep(0.005)

    def status(self, workflow: str) -> str:
        return str(json.loads(self("workflow", "query", workflow, "-t", "json"))["status"])

    def wait_for(self, workflow: str, status: str) -> None:
        self._until(lambda: self.status(workflow) == status)

    def _program(self) -> Sequence[str]:
        return (sys.executable, "-m", "runrig")


def play(run: Session) -> None:
    """Up to the moment in which it is killed."""
    run.up()
    _people(run)
    _work_that_ends(run)
    run.end(kill=False)
    run.up()
    _work_that_borrows(run)
    _edits(run)
    _work_that_stays(run)
    run.kill_while_it_waits_for_others_to_stop(one("taker", 4, LONG), "speech")


def _people(run: Session) -> None:
    run("user", "create", "alice", "--role", "vision-user")
    run("user", "create", "bob", "--role", "speech-admin", "--role", "viewer")
    run("user", "create", "carol")
    run("role", "grant", "carol", "user")
    run("role", "revoke", "bob", "viewer")
    token = run("token", "create", "laptop", "--user", "alice").strip()
    run("token", "create", "ci", "--user", "bob", "--expires", "never")
    run.submit(one("alices", 1, SHORT), "vision", token=token)
    words = ("workflow", "submit", "-", "--pool", "speech")
    run(*words, stdin=one("not-hers", 1, SHORT), token=token, refused=True)


def _work_that_ends(run: Session) -> None:
    for name, rule in (("done", ""), ("failed", '{FAIL: "0"}'), ("retried", '{RESCHEDULE: "0"}')):
        more = f", exitActions: {rule}" if rule else ""
        run.submit(one(name, 1, SHORT, more=more), "speech")
    run.wait_for("done-1", "COMPLETED")
    run.wait_for("failed-1", "FAILED")
    run.wait_for("retried-1", "FAILED")
    run("workflow", "restart", "failed-1")
    run.wait_for("failed-2", "FAILED")
    run("workflow", "submit", "-", "--pool", "batch", stdin=one("too-much", 3, SHORT), refused=True)


def _work_that_borrows(run: Session) -> None:
    """LOW of two pools fills the cluster, and firm work takes back what it lent; within a pool, HIGH takes from LOW."""
    racks = run.submit(RACKS, "vision", "LOW")
    run.wait_for(racks, "RUNNING")
    for index in range(3):
        run.submit(one("low", 2, LONG, count=2, least=1), "vision", "LOW")
        run.submit(one("crumbs", 1, LONG), ("batch", "vision--robots", "speech")[index], "LOW")
    kept = run.submit(one("kept", 1, LONG, more=', exitActions: {FAIL: "3006"}'), "batch", "LOW")
    run.wait_for(kept, "RUNNING")
    firm = run.submit(one("firm", 4, LONG, count=2), "speech", "HIGH")
    run.wait_for(firm, "RUNNING")
    own = run.submit(one("own", 2, LONG), "vision--robots", "NORMAL")
    run.wait_for(own, "RUNNING")


def _edits(run: Session) -> None:
    run("workflow", "cancel", "crumbs-1", "-m", "wrong data")
    run("cohort", "create", "guests", "--parent", "org", "--quota", "h100=1,b200=2", "--lending-limit", "b200=1")
    run("pool", "create", "visit", "--cohort", "guests", "--quota", "b200=1", "--topology-key", "rack=rack")
    run("pool", "create", "gone", "--quota", "h100=0")
    run("pool", "delete", "gone", "--yes")
    run("pool", "update", "batch", "--quota", "h100=3", "--borrowing-limit", "h100=6")
    run("pool", "subpool", "create", "vision", "draining", "--quota", "h100=1")
    drained = run.submit(one("drained", 1, LONG), "vision--draining")
    run.wait_for(drained, "RUNNING")
    run("pool", "subpool", "update", "vision", "maps", "--quota", "h100=1,b200=1")
    run("pool", "subpool", "delete", "vision", "draining", "--yes")
    run("pool", "subpool", "create", "speech", "was", "--quota", "b200=1")
    run("pool", "subpool", "delete", "speech", "was", "--yes")
    run("cohort", "update", "research", "--lending-limit", "h100=10")


def _work_that_stays(run: Session) -> None:
    racks = run.submit(RACKS, "vision")
    chain = run.submit(CHAIN, "vision", "HIGH")
    run.wait_for(chain, "RUNNING")
    run.submit(one("strict", 2, LONG, count=1), "batch")
    run.submit(one("behind", 1, LONG), "batch")
    run.submit(one("wide", 4, LONG, count=4, least=2), "vision", "LOW")
    run.submit(one("robot", 2, LONG), "vision--robots")
    run.submit(one("strict", 3, LONG), "batch")
    run.submit(one("behind", 1, LONG), "batch")
    run("workflow", "why", racks)
    run("workflow", "cancel", "firm-1")
    run.wait_for("firm-1", "FAILED_CANCELED")
    run.submit(one("filler", 1, LONG, count=40, least=1), "vision", "LOW")
    run.wait_for("filler-1", "RUNNING")


def dump(folder: Path) -> str:
    """The database of *folder* as SQL text, schema and data."""
    with closing(sqlite3.connect(folder / "runrig.db")) as connection:
        return "\n".join(connection.iterdump()) + "\n"


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        session = Session(Path(made))
        play(session)
        text = dump(session.data)
    Path(sys.argv[1]).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
