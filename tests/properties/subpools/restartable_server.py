"""A server whose cluster and clock are in the test's hand, on a real store that it can lose and find again.

with store_url("postgresql", folder) as url, RestartableServer(url) as server:
    server.pool("team", 100)
    server.service.subpools.create("team", "a", 30, user="ann")
    old = server.submit("team", Priority.HIGH, gpus=50)
    server.settle()
    server.restart()                  # as after `kill -9`: nobody said goodbye
"""

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from runrig.backends.clock import ServerClock
from runrig.domain.errors import NotLoggedIn
from runrig.domain.gangs import Priority
from runrig.domain.gpu_use import GpuMinute
from runrig.domain.nodes import Node
from runrig.domain.observed import ClusterEvent, Observation, Phase, TaskFact
from runrig.domain.quantities import GPU
from runrig.domain.records import Loaded
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired, Launch, Opens, Output, Passage, Program, Pulls
from runrig.ports.clock import Clock
from runrig.ports.code import CodeOf
from runrig.service.commands.edits import PoolEdit
from runrig.service.queries.resource_queries import PoolView
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore
from runrig.store.schema import metadata
from tests.worlds.edits import amounts
from tests.worlds.service import T0, do, submit

STOPPED = 143


class HandClock(ServerClock):
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.time = T0
        super().__init__(lambda: self.time, lambda: self.time)


class PowerCut(BaseException):
    """The server is dead at this very point: nothing of it may catch this."""


class Cluster:
    """Tasks run until `end`, or until they are told to stop; they outlive every server.

    No attempt starts twice, and no GPU has two tasks: it says so at once.  *cuts*: raised by `sync` before it heeds anything,
    or when it has heeded half (``"before"``, ``"half"``).
    """

    name = "simulated"
    fixed_nodes = True
    topology = True
    queues = False
    outputs = True
    datagrams = False

    def __init__(self, nodes: Mapping[str, int]) -> None:
        self.nodes = tuple(Node(name, {GPU: gpus}) for name, gpus in nodes.items())
        self.running: dict[TaskKey, Launch] = {}
        self.ended: dict[TaskKey, int] = {}
        self.cuts: str | None = None
        self._ever: set[TaskKey] = set()
        self._lock = threading.Lock()
        self._woken = threading.Event()

    largest_code: int | None = None

    def use_code(self, code_of: CodeOf) -> None:
        """No task is handed any."""

    def code_for(self, token: str) -> tuple[str, str]:
        raise NotLoggedIn(token)

    def use_credentials(self, opens: Opens, pulls: Pulls) -> None:
        """No task is handed any."""

    def observe(self) -> Observation:
        with self._lock:
            facts = {key: TaskFact(Phase.RUNNING) for key in self.running}
            facts |= {key: TaskFact(Phase.ENDED, code) for key, code in self.ended.items()}
        return Observation(facts, self.nodes)

    def sync(self, desired: Desired) -> None:
        with self._lock:
            if self.cuts == "before":
                raise PowerCut
            self._stop(desired)
            if self.cuts == "half":
                raise PowerCut
            for key, launch in desired.run.items():
                if key not in self.running and key not in self.ended:
                    self._start(key, launch)

    def _stop(self, desired: Desired) -> None:
        wanted = {*desired.run, *desired.stop}
        for key in desired.stop:
            if key not in self.ended:
                self.running.pop(key, None)
                self.ended[key] = STOPPED
        self.running = {key: launch for key, launch in self.running.items() if key in wanted}
        self.ended = {key: code for key, code in self.ended.items() if key in wanted}

    def _start(self, key: TaskKey, launch: Launch) -> None:
        assert key not in self._ever, f"{key} runs a second time"
        taken = {(each.node, index): other for other, each in self.running.items() for index in each.gpus}
        for index in launch.gpus:
            assert (launch.node, index) not in taken, f"{key} and {taken[launch.node, index]} have one GPU"
        self._ever.add(key)
        self.running[key] = launch

    def says(self, workflow: str) -> tuple[str, ...]:
        return ()

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:
        return ()

    def end(self, key: TaskKey, code: int = 0) -> None:
        """Ends the task by itself, if it still runs."""
        with self._lock:
            if self.running.pop(key, None) is not None:
                self.ended[key] = code
        self._woken.set()

    def end_one(self, at: int) -> None:
        """The how many-th of those that run, around; nothing if none does."""
        with self._lock:
            there = sorted(self.running)
        if there:
            self.end(there[at % len(there)])

    def wait(self, timeout_s: float) -> None:
        self._woken.wait(timeout_s)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def output(self, key: TaskKey) -> Output | None:
        return None

    def keeps_output(self, key: TaskKey) -> bool:
        return False

    def gpu_use(self) -> str:
        return "there are no GPUs"

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:
        return ()

    async def enter(self, key: TaskKey, program: Program) -> Passage:
        raise NotImplementedError

    async def connect(self, key: TaskKey, port: int, *, udp: bool = False) -> Passage:
        raise NotImplementedError

    def discard(self, workflow: str) -> None:
        """There is nothing to throw away."""

    def close(self) -> None:
        """The tasks go on."""


class RestartableServer:
    """*nodes*: name -> GPUs.  Whoever does something in it is ann, unless said otherwise."""

    def __init__(self, url: str, nodes: Mapping[str, int] | None = None, clock: Clock | None = None) -> None:
        self.url = url
        self.cluster = Cluster(nodes or {"n0": 100})
        self.clock = clock or HandClock()
        self._numbers = itertools.count(1)
        self._open()
        self.service.prepare(read_cluster("{}"), user="ann")
        self.settle()

    def _open(self) -> None:
        self.store = SqlStore.open(self.url, exclusive=True)
        self.service = Service(self.store, self.cluster, self.clock)

    def __enter__(self) -> "RestartableServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.service.close()

    def restart(self) -> None:
        """The server is gone without a word, with what it had in memory; another one takes over."""
        self.cluster.cuts = None
        self.store.close()
        self._open()
        self.service.prepare(None, user="ann")

    # ------------------------------------------------------------ doing

    def pool(self, name: str, gpus: int, **subpools: int) -> None:
        self.service.declarations.create_pool(name, PoolEdit(amounts(quota=gpus)), user="ann")
        for short, share in subpools.items():
            self.service.subpools.create(name, short, share, user="ann")

    def resize(self, pool: str, gpus: int, user: str = "ann") -> None:
        self.service.declarations.update_pool(pool, PoolEdit(amounts(quota=gpus)), user=user)

    def submit(self, pool: str, priority: Priority = Priority.NORMAL, gpus: int = 1, **more: Any) -> str:
        """Submits one task, or *count* pods with *gpus* each.  Returns the id."""
        if isinstance(self.clock, HandClock):
            self.clock.time += 1
        text = file(f"w{next(self._numbers)}", gpus, **more)
        return submit(self.service, text, pool, "ann", priority)

    def cancel(self, id: str) -> None:
        do(self.service, self.service.submissions.cancelling(id, user="ann"))

    def settle(self) -> None:
        self.service.settle()

    def finish(self, *ids: str, code: int = 0) -> None:
        """What of them runs ends now, and the next rounds see it."""
        for key in sorted(self.cluster.running):
            if key.workflow in ids:
                self.cluster.end(key, code)
        self.settle()

    # ------------------------------------------------------------ looking

    def view(self, name: str) -> PoolView:
        return self.service.queries.pool(name)

    def numbers(self, name: str) -> tuple[int, int, int, int]:
        """(quota, unallocated, used, available), as `pool list` shows them."""
        balance = self.view(name).now.gpus
        return balance.quota, balance.unallocated, balance.used, balance.available

    def state_of(self, name: str) -> str:
        return self.view(name).pool.state.value

    def status(self, id: str) -> str:
        return self.service.workflow_queries.status(id).value

    def rows(self) -> Loaded:
        """What the server has in memory."""
        with self.service._transactor.reading() as state:
            return state.rows()

    def contents(self) -> dict[str, list[str]]:
        """Every row of every table, in an order of its own."""
        with self.store.transactions.database.reader.begin() as connection:
            return {
                name: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {name}")))
                for name in sorted(metadata.tables)
            }


def file(name: str, gpus: int, *, count: int | None = None, minimum: int | None = None, then: int | None = None) -> str:
    """*minimum*: of *count*, with which it starts too.  *then*: the GPUs of a second group, which waits for the first."""
    first = {**_task("first", "some"), **({} if count is None else {"count": count})}
    if minimum is not None:
        first["minCount"] = minimum
    tasks, resources = [first], {"some": {"gpu": gpus}}
    if then is not None:
        tasks.append({**_task("second", "then"), "inputs": [{"task": "first"}]})
        resources["then"] = {"gpu": then}
    return json.dumps({"workflow": {"name": name, "tasks": tasks, "resources": resources}})


def _task(name: str, resource: str) -> dict[str, Any]:
    return {"name": name, "image": "any", "command": ["true"], "resource": resource}
