"""The worked example of docs/usage.md: two pools share eight GPUs for two hours.

`vision` has 6 GPUs, `speech` 2. 10:00 sam starts 4 LOW in speech. 10:15 ann starts 4 NORMAL in vision. 10:45 ann asks for 2 more:
sam's gang stops, is gone at 10:46, and waits. 11:30 ann's first gang ends, and sam's starts again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, PutNode, PutPool, SetFlavors, Submit
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource, requests_of
from runrig.domain.records import Event, RowChange
from runrig.domain.workflows import GroupSpec, TaskKey, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.lifecycle import submission_gate
from runrig.engine.state.state import State
from runrig.ports.store import SpecText
from runrig.service.service import Service
from runrig.store import SqlStore
from tests.stores import with_tables
from tests.worlds.service import Desk

TEN = 1790244000
"""2026-09-24 10:00 UTC."""
DAY = 24 * 3600

SUBMITTERS = {"rnn-1": "sam", "cnn-1": "ann", "vit-1": "ann"}


class Example:
    """*log*: all actions with their times. *commits*: the same as a server commits them, with the rows that they change."""

    def __init__(self) -> None:
        self.state = State()
        self.log: list[tuple[Action, float]] = []
        self.commits: list[tuple[list[Event], tuple[RowChange, ...], list[SpecText]]] = []
        self.facts: dict[TaskKey, TaskFact] = {}
        quota = [("vision", 6), ("speech", 2)]
        pools = [PutPool(Pool(name, {FlavorResource("h100", GPU): Quota(gpus)})) for name, gpus in quota]
        self._do(0, SetFlavors((Flavor("h100"),)), PutNode(Node("n0", {GPU: 8}, flavor="h100")), *pools)

    def run(self) -> None:
        self._start(0, "rnn", 4, "speech", Priority.LOW)
        self._start(15, "cnn", 4, "vision", Priority.NORMAL)
        self._start(45, "vit", 2, "vision", Priority.NORMAL)
        self.facts = {key: fact for key, fact in self.facts.items() if key.workflow != "rnn-1"}
        self.facts[TaskKey("rnn-1", "main", 0)] = TaskFact(Phase.ENDED, 143)
        self._cycle(46)
        self.facts[TaskKey("cnn-1", "main", 0)] = TaskFact(Phase.ENDED, 0)
        self._cycle(90)

    def _start(self, minute: int, name: str, gpus: int, pool: str, priority: Priority) -> None:
        task = TaskSpec("main", "image", ("true",), requests=requests_of({GPU: gpus}), lead=True)
        spec = self.state.specs[name] = WorkflowSpec(name, (GroupSpec("main", (task,)),))
        user, now = SUBMITTERS[f"{name}-1"], TEN + 60 * minute
        plan = submission_gate.submit(
            self.state, spec, spec_hash=name, pool=pool, priority=priority, user=user, uuid=name, now=now
        )
        self._do(minute, *plan.actions)
        self._cycle(minute)

    def _do(self, minute: int, *actions: Action) -> None:
        self.state.apply_all(actions, TEN + 60 * minute)
        self._note(minute, actions)

    def _cycle(self, minute: int) -> None:
        for key in self.state.active:
            self.facts.setdefault(key, TaskFact(Phase.RUNNING))
        plan = cycle.run(self.state, Observation(self.facts), TEN + 60 * minute)
        self._note(minute, plan.actions)

    def _note(self, minute: int, actions: Sequence[Action]) -> None:
        time = TEN + 60.0 * minute
        self.log += [(action, time) for action in actions]
        specs = [
            SpecText(each.workflow.spec_hash, "", "", self.state.specs[each.workflow.spec_hash])
            for each in actions
            if isinstance(each, Submit)
        ]
        if actions:
            revision = len(self.commits) + 1
            events = [Event(revision, seq, time, "runrig", action) for seq, action in enumerate(actions)]
            self.commits.append((events, self.state.take_changes(), specs))


def the_example() -> list[Event]:
    """The log, with a revision for each action."""
    example = Example()
    example.run()
    return [Event(at, 0, time, "runrig", action) for at, (action, time) in enumerate(example.log, 1)]


@contextmanager
def example_service(folder: Path, *, clock_at: float = TEN + 7200.0) -> Iterator[Service]:
    """A server at *clock_at*, with all of the example in its log, that decides nothing more."""
    example = Example()
    example.run()
    clock = SimulatedClock(1.0, folder, real_time=lambda: clock_at)
    store = SqlStore.open(with_tables(folder / "runrig.db"))
    for events, changes, specs in example.commits:
        store.commit(events[0].revision, events, changes, specs)
    service = Service(store, SimulatedBackend((), clock, folder), clock)
    while service.usage.step():
        pass
    try:
        yield service
    finally:
        service.close()


def busy_days(there: Desk, after_each: Callable[[], None]) -> None:
    """Two and a half days with borrowing, a preemption, a queue, and work that runs through the night."""
    steps = [
        ("low", "pool2", Priority.LOW, 4, 3.0 * DAY, 5000.0),
        ("mine", "pool1", Priority.NORMAL, 2, 40_000.0, 3000.0),
        ("more", "pool1", Priority.NORMAL, 2, 900.0, 60_000.0),
        ("night", "pool2", Priority.NORMAL, 1, 70_000.0, 90_000.0),
        ("last", "pool2", Priority.NORMAL, 1, 10.0, 50_000.0),
        ("end", "pool1", Priority.HIGH, 1, 10.0, 4000.0),
    ]
    for name, pool, priority, gpus, duration, seconds in steps:
        there.submit(name, pool, priority, gpus=gpus, duration=duration)
        there.service.settle()
        after_each()
        there.later(seconds)
        after_each()
