"""The server on its stores: submissions over HTTP, durable decisions, and `pool list` with much work.

Each store runs as intended: SQLite in a file, PostgreSQL (of the tests' package) with fsync.  The server is a separate process,
`python -m bench.store URL CLUSTER`, with the application, the loop and a simulated cluster of 1,000 GPUs.
"""

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from time import perf_counter, process_time
from typing import Any, NamedTuple

import uvicorn
from tests import postgres

from bench.client import Client
from bench.timing import Times, as_served, timed, took
from bench.traffic import STARTS_WITHIN_S, TOKEN
from runrig.api.app import create_app
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation
from runrig.domain.plan import Action, Admit, Plan, PutNode, PutPool, SetFlavors
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import RowChange
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, Status, Task, Workflow
from runrig.engine.state.state import State
from runrig.http import connections
from runrig.http.crowd import Crowd, Door
from runrig.ports.store import SpecText
from runrig.service.commands.submission import Submission, read
from runrig.service.runtime.transactor import Transactor
from runrig.service.runtime.writing import Command, Job
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore
from runrig.web.install import install
from runrig.wiring.process import keep_what_is_loaded

KINDS = ("sqlite", "postgresql")
CLIENTS = {1: 200, 16: 800}
"""Clients → submissions of all of them in one run."""
GANGS = 5000
COMMIT_REFERENCE_MS, COMMIT_TARGET_MS = {"sqlite": 4_700.0, "postgresql": 1_230.0}, 1_000.0
"""Processor time of GANGS admissions, decided and stored: at first, later on PostgreSQL, and the goal."""
TOGETHER = (1, 8, 32)
GROUPS = 50
PARENTS, SUBPOOLS_EACH, FINISHED = 10, 100, 100_000
POOL_LIST_TARGET_MS = 100
POSTGRESQL = {"listen_addresses": "", "max_connections": "50", "shared_buffers": "128MB", "max_wal_size": "1GB"}
FILE = """\
workflow:
  name: sleeper
  tasks:
  - {name: main, image: bench, command: [sleep, "60"], resource: one}
  resources:
    one: {gpu: 1}
"""
THOUSAND_GPUS = """\
nodes:
- {name: "n{000..124}", resources: {gpu: 8, cpu: 96, memory: 1Ti}}
pools:
- {name: team, quota: 1000}
"""

# ---------------------------------------------------------------- databases and servers


@contextmanager
def fresh(kind: str) -> Iterator[str]:
    """The URL of an empty database."""
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/runrig.db"
            return
        with _postgresql().database() as name:
            yield _postgresql().url(name)


@cache
def _postgresql() -> postgres.Server:
    """One for all runs; it ends with this process."""
    return postgres.start(POSTGRESQL)


def serve(url: str, cluster: str) -> None:
    """As `run`."""
    declared, clock = read_cluster(cluster), SimulatedClock()
    service = Service(SqlStore.open(url, exclusive=True), SimulatedBackend(declared.nodes, clock), clock)
    service.prepare(declared, user="bench")
    run(service)


def run(service: Service, *told: str) -> None:
    """Runs until it is killed; prints its port, and *told*, when it is up."""
    guests = Crowd()
    with Door(guests, socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        port = listener.getsockname()[1]
        keep_what_is_loaded()  # as `up` does
        service.start()
        print(port, *told, flush=True)
        app = create_app(service, token=TOKEN, port=port, user="bench")
        install(app, service)
        uvicorn.Server(connections.config(app, crowd=guests)).run(sockets=[listener])


def client_of(port: int) -> Client:
    return Client(f"http://127.0.0.1:{port}", TOKEN)


@contextmanager
def server(url: str, cluster: str) -> Iterator[int]:
    """Its port."""
    with process_of(url, cluster) as (port, _):
        yield port


@contextmanager
def process_of(url: str, cluster: str) -> Iterator[tuple[int, int]]:
    """Port and process id of a server."""
    with started("bench.store", url, cluster) as ((port,), process):
        yield int(port), process


@contextmanager
def started(*command: str) -> Iterator[tuple[list[str], int]]:
    """The words that this program of the bench prints when it is up, and its process id."""
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if not (line := process.stdout.readline()):
            raise RuntimeError(f"{' '.join(command)} did not come up")
        yield line.split(), process.pid
    finally:
        process.terminate()
        process.wait(STARTS_WITHIN_S)
        process.stdout.close()


# ---------------------------------------------------------------- submissions


class Rate(NamedTuple):
    """*each*: per run."""

    store: str
    clients: int
    each: int
    times: Times


def submissions(runs: int, clients: dict[int, int] | None = None) -> Iterator[Rate]:
    """The first thousand start and the others wait, as on a busy cluster."""
    for kind in KINDS:
        with fresh(kind) as url, server(url, THOUSAND_GPUS) as port:
            for many, each in (CLIENTS if clients is None else clients).items():
                yield Rate(kind, many, each, timed(partial(_submit, port, many, each), runs))


def _submit(port: int, many: int, each: int) -> float:
    """Seconds until the last of *many* clients has its last response."""
    body = json.dumps({"file": FILE})

    def submit(_: int) -> None:
        with closing(client_of(port)) as client:
            for _ in range(each // many):
                client.call("POST", "/api/pool/team/workflow", body)

    with ThreadPoolExecutor(many) as pool:
        start = perf_counter()
        tuple(pool.map(submit, range(many)))
        return perf_counter() - start


# ---------------------------------------------------------------- one commit


class Cycle(NamedTuple):
    """*entries*: of the log.  *whole*: deciding and storing; *storing*: the commits alone.  Processor time of this process."""

    store: str
    admissions: int
    entries: int
    whole: Times
    storing: tuple[float, ...]


def commits(runs: int, gangs: int = GANGS) -> Iterator[Cycle]:
    """One cycle admits *gangs* waiting gangs."""
    for kind in KINDS:
        storing: list[float] = []
        entries: list[int] = []

        def measure(kind: str = kind, storing: list[float] = storing, entries: list[int] = entries) -> float:
            with fresh(kind) as url:
                whole, part, many = _cycle(url, gangs)
            storing.append(part)
            entries.append(many)
            return whole

        whole = timed(measure, runs, process_time)
        yield Cycle(kind, gangs, entries[0], whole, tuple(storing))


class TimedStore(SqlStore):
    """*seconds*: processor time of all commits since it was set to 0."""

    seconds = 0.0

    def commit(self, *args: Any, **named: Any) -> None:
        self.seconds += took(partial(super().commit, *args, **named), process_time)


def _cycle(url: str, gangs: int) -> tuple[float, float, int]:
    """(seconds of the cycle, of its commits alone, entries of the log)."""
    spec, actions = _waiting(gangs)
    with closing(TimedStore.open(url, exclusive=True)) as store:
        transactor = Transactor(store, SimulatedClock(), fixed_nodes=True, topology=True)
        with transactor.writing("bench") as writing:
            writing.commit(Plan(actions), spec)
        store.seconds = 0.0
        with as_served():
            start = process_time()
            made = [action for plan in transactor.cycle(Observation()) for action in plan.actions]
            whole = process_time() - start
        admitted = sum(isinstance(action, Admit) for action in made)
        if admitted != gangs:
            raise RuntimeError(f"{admitted} of {gangs} were admitted")
        return whole, store.seconds, len(made)


def _waiting(gangs: int) -> tuple[SpecText, tuple[Action, ...]]:
    """The workflow file of all gangs, and the actions that create a cluster with as many GPUs and queue them."""

    quota = {FlavorResource("default", GPU): Quota(gangs)}
    nodes = [PutNode(Node(f"n{at:05}", {GPU: 8}, flavor="default")) for at in range((gangs + 7) // 8)]
    actions: list[Action] = [SetFlavors((Flavor("default"),)), *nodes, PutPool(Pool("team", quota))]
    state = State()
    state.apply_all(actions, 0.0)
    parsed = read(Submission(FILE, "team", "bench", priority=Priority.NORMAL))
    state.specs[parsed.spec.hash] = parsed.spec.spec
    for at in range(gangs):
        plan = parsed.plan(state, float(at)).actions
        state.apply_all(plan, float(at))
        actions += plan
    return parsed.spec, tuple(actions)


# ---------------------------------------------------------------- submissions that share a commit


class Shared(NamedTuple):
    """*together*: submissions in each commit.  *times*: processor seconds of one commit, without deciding."""

    store: str
    together: int
    times: Times


def groups(runs: int, sizes: Sequence[int] = TOGETHER, each: int = GROUPS) -> Iterator[Shared]:
    """*runs* of *each* commits in every size, all of one workflow file."""
    parsed = read(Submission(FILE, "team", "bench", priority=Priority.NORMAL))

    def submit() -> Command[None]:
        yield Job("bench", lambda writing: writing.commit(parsed.plan(writing.state, writing.now), parsed.spec))

    for kind in KINDS:
        with fresh(kind) as url, closing(TimedStore.open(url, exclusive=True)) as store:
            declared, clock = read_cluster(THOUSAND_GPUS), SimulatedClock()
            Service(store, SimulatedBackend(declared.nodes, clock), clock).prepare(declared, user="bench")
            transactor = Transactor(store, clock, fixed_nodes=True, topology=True)

            def measure(many: int, store: TimedStore = store, transactor: Transactor = transactor) -> float:
                store.seconds = 0.0
                for _ in range(each):
                    if any(transactor.carry_out_all([submit() for _ in range(many)])):
                        raise RuntimeError("a submission was refused")
                return store.seconds / each

            measure(1)  # warms up
            for many in sizes:
                yield Shared(kind, many, timed(partial(measure, many), runs, process_time))


# ---------------------------------------------------------------- pool list


class Listed(NamedTuple):
    """*answer*: bytes of one response."""

    store: str
    what: str
    answer: int
    times: Times


def pool_lists(runs: int, finished: int = FINISHED, each: int = SUBPOOLS_EACH) -> Iterator[Listed]:
    """Lists PARENTS pools with *each* subpools, with *finished* workflows in the store."""
    cluster = _parents(each)
    for kind in KINDS:
        with fresh(kind) as url:
            _fill(url, finished, each, cluster)
            with server(url, cluster) as port, closing(client_of(port)) as client:
                for what, path, pools in (
                    ("all pools", "/api/pool_quota", PARENTS * (1 + each)),
                    ("one parent", "/api/pool_quota?pools=p00&subpools=true", 1 + each),
                ):
                    answer = client.call("GET", path)
                    listed = sum(len(sets["pools"]) for sets in json.loads(answer)["node_sets"])
                    if listed != pools:
                        raise RuntimeError(f"{listed} of {pools} pools were listed")
                    yield Listed(kind, what, len(answer), timed(partial(took, partial(client.call, "GET", path)), runs))


def _parents(each: int) -> str:
    """Half of every parent's quota is divided among its subpools; there are as many GPUs as quota."""
    subpools = [{"name": f"s{short:03}", "quota": 5} for short in range(each)]
    pools = [{"name": f"p{at:02}", "quota": 10 * each, "subpools": subpools} for at in range(PARENTS)]
    nodes = [{"name": f"n{at:04}", "resources": {"gpu": 8}} for at in range((10 * each * PARENTS + 7) // 8)]
    return json.dumps({"nodes": nodes, "pools": pools})


def _fill(url: str, finished: int, each: int, cluster: str) -> None:
    """The pools of *cluster*, and finished workflows with their groups and tasks; 10,000 per commit."""
    declared, clock = read_cluster(cluster), SimulatedClock()
    spec = read(Submission(FILE, "p00", "bench", priority=Priority.NORMAL)).spec
    store = SqlStore.open(url, exclusive=True)
    Service(store, SimulatedBackend(declared.nodes, clock), clock).prepare(declared, user="bench")
    revision = store.load().revision
    for first in range(0, finished, 10_000):
        changes: list[RowChange] = []
        for at in range(first, min(first + 10_000, finished)):
            changes += _ended(at, f"p{at % PARENTS:02}--s{at % each:03}", spec.hash)
        revision += 1
        store.commit(revision, (), changes, (spec,))
    store.close()


def _ended(at: int, pool: str, spec: str) -> Iterator[RowChange]:
    """The rows of the workflow number *at*."""
    submitted = 1.7e9 + at
    workflow = Workflow(
        f"sleeper-{at + 1}", f"{at:032x}", "sleeper", at + 1, pool, Priority.NORMAL, "bench", submitted, spec
    )
    workflow = replace(workflow, status=WorkflowStatus.COMPLETED, start_time=submitted + 1, end_time=submitted + 61)
    group = Group(workflow.id, "main-group", Status.COMPLETED, start_time=submitted + 1, end_time=submitted + 61)
    task = Task(workflow.id, "main", 0, group.name, "main", 0, lead=True, status=Status.COMPLETED, exit_code=0)
    yield RowChange("Workflow", (workflow.id,), workflow)
    yield RowChange("Group", (workflow.id, group.name), group)
    yield RowChange("Task", task.key, task)


if __name__ == "__main__":
    serve(*sys.argv[1:3])
