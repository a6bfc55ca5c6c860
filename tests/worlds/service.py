"""A service on a real store and a simulated cluster, driven by hand: its clock stands still unless it is put on."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Priority
from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, TaskFact
from runrig.domain.plan import Action
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired, Output
from runrig.service.commands.submission import Submission
from runrig.service.runtime.writing import Command
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore
from tests.stores import with_tables
from tests.worlds.lawful import judge
from tests.worlds.sums import check_sums

T0 = 1_800_000_000.0
"""2027-01-15 08:00:00 UTC."""

TWO_POOLS = """
pools:
- {name: pool1, quota: 2}
- {name: pool2, quota: 2}
"""


R = TypeVar("R")


class Backend(SimulatedBackend):
    """*failure*: raised by `sync` while it is set.  *desired*: what it was told last.  *answers*: `observe` waits until it is set.

    *facts*, *refused*: seen of attempts and gangs, whatever becomes of them here.  *gpus*: what it measures; None: nothing.
    *minutes*: of any of its GPUs.
    """

    failure: Exception | None = None
    desired = Desired()
    answers: threading.Event | None = None
    facts: Mapping[TaskKey, TaskFact] = MappingProxyType({})
    refused: Mapping[str, str] = MappingProxyType({})
    written: Mapping[TaskKey, Output] = MappingProxyType({})
    gpus: Mapping[str, Sequence[GpuUse]] | None = None
    minutes: tuple[GpuMinute, ...] = ()

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse]] | str:
        return super().gpu_use() if self.gpus is None else self.gpus

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:
        return tuple(each for each in self.minutes if since <= each.at.timestamp() < until)

    def output(self, key: TaskKey) -> Output | None:
        return self.written.get(key) or super().output(key)

    def observe(self) -> Observation:
        if self.answers is not None:
            self.answers.wait()
        seen = super().observe()
        running = frozenset(seen.running).difference(self.facts)
        return replace(seen, tasks={**seen.tasks, **self.facts}, refused=self.refused, running=running)

    def show(self, *nodes: Node) -> None:
        """These are its nodes from now on."""
        self._nodes, self._nodes_told = nodes, False

    def sync(self, desired: Desired) -> None:
        if self.failure is not None:
            raise self.failure
        self.desired = desired
        super().sync(desired)


@dataclass
class Desk:
    service: Service
    store: SqlStore
    backend: Backend
    time: list[float]

    def submit(
        self,
        name: str,
        pool: str = "pool1",
        priority: Priority = Priority.NORMAL,
        *,
        gpus: int = 1,
        duration: float = 100.0,
        text: str | None = None,
    ) -> str:
        self.time[0] += 1
        text = text or one_task(name, gpus=gpus, duration=duration)
        return submit(self.service, text, pool, "ann", priority)

    def status(self, id: str) -> str:
        return self.service.workflow_queries.status(id).value

    def later(self, seconds: float) -> None:
        """Time passes, and the loop turns until it rests."""
        self.time[0] += seconds
        self.service.settle()

    def actions(self, after: int = 0) -> list[Action]:
        return [event.action for event in self.store.log.events(after=after)]

    @property
    def revision(self) -> int:
        return self.store.load().revision


def do(service: Service, command: Command[R]) -> R:
    """Carries out *command*, as the server does with one that arrives alone."""
    (outcome,) = service._transactor.carry_out_all([command])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def submit(service: Service, text: str, pool: str, user: str, priority: Priority | None = None) -> str:
    """Returns the id."""
    return do(service, service.submissions.submitting(Submission(text, pool, user, priority=priority))).id


def one_task(name: str, *, gpus: int = 1, duration: float = 100.0, extra: str = "") -> str:
    return f"""
workflow:
  name: {name}
  tasks:
  - name: main
    image: any
    command: [sleep, '1']
    duration: {duration}
    resource: one
{extra}
  resources:
    one: {{gpu: {gpus}}}
"""


KEYS = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
"""A key file of credentials."""


@contextmanager
def desk(
    folder: Path,
    *,
    gpus: int = 4,
    nodes: tuple[Node, ...] = (),
    cluster: str | None = TWO_POOLS,
    time: float = T0,
    database: str | None = None,
    judged: bool = True,
) -> Iterator[Desk]:
    """A server in *folder* with *nodes*, or one of *gpus* GPUs; a second one there goes on where the first one stopped.

    *database*: its URL, if it is not SQLite in that folder. *judged*: at the end, its log must be lawful.
    """
    moments = [time]
    clock = SimulatedClock(1.0, folder, real_time=lambda: moments[0])
    backend = Backend(nodes or (Node("n0", {"gpu": gpus}),), clock, folder)
    store = SqlStore.open(database or with_tables(folder / "runrig.db"), exclusive=database is not None)
    (folder / "credential.key").write_text(KEYS)
    (folder / "credential.key").chmod(0o600)
    service = Service(store, backend, clock, credential_key=folder / "credential.key")
    try:
        service.prepare(None if cluster is None else read_cluster(cluster), user="ann")
        service.settle()
        yield Desk(service, store, backend, moments)
        check_sums(store)
    finally:
        service.close()
    if judged:
        judge(database or folder / "runrig.db")


def second_server(folder: Path, time: float) -> Service:
    """A server on the store in *folder* that did not look who else writes there; its clock stands at *time*."""
    clock = SimulatedClock(1.0, folder, real_time=lambda: time)
    return Service(SqlStore.open(folder / "runrig.db"), Backend((), clock, folder), clock)
