"""Nodes that go and come back in tests of the engine, and what became of the pods on them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runrig.domain.gangs import Assignment, Priority
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, TaskFact
from runrig.domain.plan import Action, Admit, Queue, Release, Replace, Stop
from runrig.domain.workflows import ExitAction, ExitRule, GroupSpec, TaskKey, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.state.state import State
from tests.properties.ledgers import portrait
from tests.worlds.engine import NORMAL
from tests.worlds.placement import PLENTY, LoggedWorld, city

AGAIN = (ExitRule(ExitAction.RESCHEDULE, 3001, 3001),)


def submit(
    world: LoggedWorld,
    name: str,
    *tasks: TaskSpec,
    ignore: bool = True,
    rules: tuple[ExitRule, ...] = AGAIN,
    priority: Priority = NORMAL,
) -> None:
    """A group g whose first task leads; every task has *rules*."""
    mates = tuple(replace(each, lead=each is tasks[0], exit_rules=rules) for each in tasks)
    spec = WorkflowSpec(name, (GroupSpec("g", mates, ignore_nonlead_status=ignore),))
    world.submit(name, "team", priority, spec=spec)


def running(drawn: str, *tasks: TaskSpec, levels: tuple[str, ...] = ("zone", "rack"), **options: Any) -> LoggedWorld:
    """The gang w-1/g of *tasks* runs, on nodes as `fleet` draws them."""
    world = city(drawn, levels, team=PLENTY)
    submit(world, "w", *tasks, **options)
    turn(world)
    turn(world)
    return world


def turn(world: LoggedWorld, *gone: str, facts: Mapping[TaskKey, TaskFact] | None = None) -> list[Action]:
    """One cycle, in which the nodes *gone* are not there any more."""
    world.now += 1
    nodes = tuple(node for name, node in world.state.nodes.items() if name not in gone)
    seen = Observation({**world.observe().tasks, **(facts or {})}, nodes)
    plan = cycle.run(world.state, seen, world.now)
    world.log += [(action, world.now) for action in plan.actions]
    assert portrait(world.state) == portrait(State.load(world.state.rows()))
    return list(plan.actions)


def come_back(world: LoggedWorld, *nodes: Node) -> None:
    known = [node for name, node in world.state.nodes.items() if name not in {each.name for each in nodes}]
    world.now += 1
    plan = cycle.run(world.state, Observation(world.observe().tasks, (*known, *nodes)), world.now)
    world.log += [(action, world.now) for action in plan.actions]


def standing(world: LoggedWorld, name: str = "w") -> dict[str, tuple[int, str | None, tuple[int, ...]]]:
    """Pod → attempt, node and GPUs, of those that are on nodes."""
    return {
        task.name: (task.retry_id, task.node, task.gpus)
        for task in world.state.current_tasks((f"{name}-1", "g"))
        if task.key in world.state.active
    }


def ends(world: LoggedWorld, name: str = "w") -> dict[str, tuple[str, int | None, str]]:
    """Pod → status, exit code and message, of the latest attempts."""
    return {
        task.name: (task.status.value, task.exit_code, task.failure_message)
        for task in world.state.current_tasks((f"{name}-1", "g"))
    }


def told(world: LoggedWorld, actions: list[Action]) -> list[str]:
    """What was decided of gangs, in short."""
    words: dict[type[Action], str] = {
        Replace: "replace",
        Stop: "stop",
        Release: "release",
        Queue: "queue",
        Admit: "admit",
    }
    return [
        f"{words[type(each)]} {(each.gang.id if isinstance(each, Queue) else each.gang).removesuffix('-1/g')}"
        for each in actions
        if isinstance(each, Replace | Stop | Release | Queue | Admit)
    ]


def each_pod(assignment: Assignment) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (share.node, share.gpus[at * size : (at + 1) * size])
        for share in assignment.shares
        for size in (len(share.gpus) // share.count,)
        for at in range(share.count)
    ]
