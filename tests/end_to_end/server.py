"""A whole server without its HTTP: store, engine, service and a backend, driven by hand.

On `local`, tasks are processes that run until their flag file appears; on `simulated`, they run until the clock is put on.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runrig.backends.clock import ServerClock
from runrig.backends.local import LocalBackend
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.domain.plan import Admit
from runrig.ports.backend import Backend
from runrig.ports.clock import Clock
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore
from tests.backends.local.launches import end_all
from tests.patience import until
from tests.worlds.lawful import judge
from tests.worlds.service import submit

DURATION_S = 1000.0

HOLD = """
workflow:
  name: {name}
  tasks:
  - name: work
    image: any
    command: [sh, -c, 'while [ ! -e "{flag}" ]; do sleep 0.02; done']
    resource: one
    duration: {duration}
  resources:
    one: {{gpu: 1}}
"""


class Server:
    """*finish* lets one workflow end; *until* turns the loop until something holds."""

    def __init__(self, folder: Path, service: Service, store: SqlStore, real_time: list[float] | None) -> None:
        self.folder = folder
        self.service = service
        self.store = store
        self._real_time = real_time
        self._names: list[str] = []

    def submit(self, name: str, pool: str, priority: Priority) -> str:
        text = HOLD.format(name=name, flag=self.folder / name, duration=DURATION_S + len(self._names) * 10)
        self._names.append(name)
        if self._real_time is not None:
            self._real_time[0] += 1
        return submit(self.service, text, pool, "tester", priority)

    def run(self, text: str, pool: str) -> str:
        return submit(self.service, text, pool, "tester")

    def until(self, holds: Callable[[], bool]) -> None:
        self.service.settle()
        until(holds, pause=self._turn)

    def _turn(self) -> None:
        if self._real_time is not None:
            self._real_time[0] += 0.1
        else:
            time.sleep(0.02)
        self.service.settle()

    def status(self, workflow: str) -> str:
        return self.store.workflow(workflow).workflow.status.value

    def attempts(self, workflow: str) -> list[str]:
        return [task.status.value for task in sorted(self.store.workflow(workflow).tasks, key=lambda task: task.key)]

    def wait_for(self, workflow: str, status: str) -> None:
        self.until(lambda: self.status(workflow) == status)

    def finish(self, workflow: str) -> None:
        """The workflow that runs ends; on the simulated backend, so do those that started before it."""
        (self.folder / workflow.rpartition("-")[0]).touch()
        if self._real_time is not None:
            task = self.store.workflow(workflow).tasks[-1]
            assert task.start_time is not None
            wanted = task.start_time + DURATION_S + 10 * self._names.index(workflow.rpartition("-")[0])
            self._real_time[0] = max(self._real_time[0], wanted + 1)
        self.wait_for(workflow, "COMPLETED")

    def started(self) -> list[str]:
        """Names of the workflows in the order in which they were admitted, each time that they were."""
        actions = [event.action for event in self.store.log.events()]
        return [action.gang.partition("/")[0].rpartition("-")[0] for action in actions if isinstance(action, Admit)]


@contextmanager
def server(folder: Path, backend: str, *, gpus: int, cluster: str) -> Iterator[Server]:
    """A server in *folder* with one node of *gpus* GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    real_time: list[float] | None = None
    clock: Clock
    kind: Backend
    if backend == "local":
        clock, kind = ServerClock(), LocalBackend(folder, gpus)
    else:
        real_time = moments = [time.time()]
        clock = virtual = SimulatedClock(real_time=lambda: moments[0])
        kind = SimulatedBackend((Node("n0", {"gpu": gpus}),), virtual, folder)
    store = SqlStore.open(str(folder / "runrig.db"))
    service = Service(store, kind, clock)
    try:
        service.prepare(read_cluster(cluster), user="tester")
        yield Server(folder, service, store, real_time)
    finally:
        if isinstance(kind, LocalBackend):
            end_all(kind)
        service.close()
    judge(folder / "runrig.db")
