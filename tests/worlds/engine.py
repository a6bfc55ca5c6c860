"""Small worlds for engine tests: pools and nodes in a line, workflows in another, cycles by hand.

world = World(pools={"pool1": 2, "pool2": 2}, nodes={"n0": 4})
world.submit("wf1", "pool1", NORMAL)        # one task of one GPU
world.cycle()                               # -> the actions of the cycle, as short words
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runrig.domain.after import After
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, Admit, Nominate, Preempt, PutCohort, PutNode, PutPool, SetFlavors, Withdraw
from runrig.domain.pools import Cohort, Pool, Queueing, Quota
from runrig.domain.quantities import GPU, FlavorResource, requests_of
from runrig.domain.workflows import GroupSpec, Status, TaskKey, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.lifecycle import submission_gate
from runrig.engine.lifecycle.workflows import cancel
from runrig.engine.state.state import State

HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW
GPUS = FlavorResource("default", GPU)


def gpu_quota(nominal: int, borrowing: int | None = None, lending: int | None = None) -> dict[FlavorResource, Quota]:
    return {GPUS: Quota(nominal, borrowing, lending)}


def subpool(parent: str, short: str, gpus: int, **more: Any) -> Pool:
    """The pool PARENT--SHORT."""
    return Pool(f"{parent}--{short}", gpu_quota(gpus), parent=parent, subpool_name=short, **more)


def task(name: str, gpus: int = 1, *, count: int | None = None, minimum: int | None = None, **more: Any) -> TaskSpec:
    spec = TaskSpec(
        name, "image", ("true",), requests=requests_of({GPU: gpus}), count=count, min_count=minimum, lead=True
    )
    return replace(spec, **more)


def workflow(name: str, *tasks: TaskSpec, upstream: Mapping[str, tuple[str, ...]] | None = None) -> WorkflowSpec:
    """Each task a group of its own, called NAME-group; *upstream*: task → the tasks before it."""
    before = upstream or {}
    groups = [
        GroupSpec(f"{each.name}-group", (each,), tuple(f"{up}-group" for up in before.get(each.name, ())))
        for each in tasks
    ]
    return WorkflowSpec(name, tuple(groups))


def pools_put(actions: Sequence[Action]) -> list[Pool]:
    """Returns the pools that *actions* put; they do nothing else."""
    found = [action.pool for action in actions if isinstance(action, PutPool)]
    assert len(found) == len(actions)
    return found


class World:
    """A state with a backend that does what the test says: everything admitted runs until `finish`."""

    def __init__(
        self,
        pools: Mapping[str, int | Pool],
        nodes: Mapping[str, int | Node] | None = None,
        cohorts: tuple[Cohort, ...] = (),
        flavors: tuple[Flavor, ...] = (Flavor("default"),),
    ) -> None:
        self.state = State(place=nodes is not None)
        self.now = 0.0
        self.facts: dict[TaskKey, TaskFact] = {}
        self.do(SetFlavors(flavors))
        for cohort in cohorts:
            self.do(PutCohort(cohort))
        for name, gpus in (nodes or {}).items():
            self.do(PutNode(Node(name, {GPU: gpus}) if isinstance(gpus, int) else gpus))
        for name, quota in pools.items():
            self.do(PutPool(Pool(name, gpu_quota(quota)) if isinstance(quota, int) else quota))

    def do(self, *actions: Action) -> None:
        self.state.apply_all(actions, self.now)

    def submit(
        self,
        name: str,
        pool: str,
        priority: Priority = NORMAL,
        gpus: int = 1,
        spec: WorkflowSpec | None = None,
        user: str = "u",
        after: Sequence[After] = (),
        parent: str | None = None,
    ) -> str:
        """Submits one task of *gpus* GPUs, or *spec*; returns the workflow's id."""
        self.now += 1
        spec = spec or workflow(name, task("t", gpus))
        self.state.specs[f"hash of {name}"] = spec
        plan = submission_gate.submit(
            self.state,
            spec,
            spec_hash=f"hash of {name}",
            pool=pool,
            priority=priority,
            user=user,
            uuid=name,
            now=self.now,
            after=tuple(after),
            parent=parent,
        )
        self.do(*plan.actions)
        return f"{name}-{self.state.numbers[name]}"

    def cancel(self, workflow_id: str) -> None:
        self.do(*cancel(self.state, workflow_id, user="u").actions)

    def cycle(self) -> list[str]:
        """One cycle with what the backend shows; what was decided, in short words without the group's name."""
        self.now += 1
        plan = cycle.run(self.state, self.observe(), self.now)
        return [words for words in map(_words, plan.actions) if words]

    def observe(self) -> Observation:
        """Admitted tasks run; tasks of stopping gangs have ended."""
        for key in self.state.active:
            group = self.state.groups[key.workflow, self.state.tasks[key].group]
            if group.stopping is not None or self.state.tasks[key].restarting:
                self.facts[key] = TaskFact(Phase.ENDED, 143)
            else:
                self.facts.setdefault(key, TaskFact(Phase.RUNNING))
        return Observation(self.facts)

    def finish(self, workflow_id: str, code: int = 0) -> None:
        """Everything of it that is on nodes ends with *code*; the next cycle sees it."""
        for key in self.state.active:
            if key.workflow == workflow_id:
                self.facts[key] = TaskFact(Phase.ENDED, code)

    def finish_task(self, workflow_id: str, name: str, code: int = 0) -> None:
        """The latest attempt of one pod ends with *code*; the next cycle sees it."""
        self.facts[self.state.attempts(workflow_id, name)[-1].key] = TaskFact(Phase.ENDED, code)

    def status(self, workflow_id: str) -> list[Status]:
        return [group.status for group in self.state.groups_of(workflow_id)]

    def running(self) -> set[str]:
        """Ids of the workflows that hold nodes."""
        return {key.workflow for key in self.state.active}


def _words(action: Action) -> str:
    match action:
        case Admit(gang):
            return f"admit {_short(gang)}"
        case Nominate(gang):
            return f"nominate {_short(gang)}"
        case Withdraw(gang):
            return f"withdraw {_short(gang)}"
        case Preempt(gang, by, law):
            return f"preempt {_short(gang)} for {_short(by)} ({law.value})"
    return ""


def _short(gang: str) -> str:
    return gang.partition("/")[0].removesuffix("-1")


STRICT = Queueing.STRICT_FIFO
