"""A group fails in a graph of several: all groups downstream end, once, over whichever path; other workflows are
unaffected (rule W1).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import PutNode
from runrig.domain.quantities import GPU
from runrig.domain.workflows import USUAL_RETRIES, ExitAction, ExitRule, TaskKey, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.lifecycle.contradictions import contradiction
from runrig.engine.lifecycle.holds import end_hold, put_on_hold
from runrig.engine.lifecycle.workflows import cancel
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, NORMAL, World, task, workflow

Graph = Mapping[str, tuple[str, ...]]
"""Task → the tasks that it reads from."""

TRIANGLE: Graph = {"x": (), "y": ("x",), "z": ("x", "y")}
FROM_THE_END: Graph = {"z": ("x", "y"), "y": ("x",), "x": ()}
TWO_PARENTS: Graph = {"x": (), "x2": (), "y": ("x", "x2"), "z": ("x", "y")}
SKIPPING: Graph = {name: tuple("xabcd"[:at]) for at, name in enumerate("xabcd")}
DIAMOND: Graph = {"x": (), "left": ("x",), "right": ("x",), "end": ("left", "right", "x")}
LADDER: Graph = {"x": (), "a": ("x",), "b": ("x", "a"), "c": ("a", "b"), "d": ("b", "c", "x"), "e": ("d", "a")}
LONG: Graph = {"x": (), **{f"t{at}": (f"t{at - 1}" if at else "x", "x") for at in range(999)}}


def graph(shape: Graph, *, x: Mapping[str, Any] | None = None, **timeouts: Any) -> WorkflowSpec:
    """*x*: fields of the task that fails."""
    spec = workflow("w", *(task(name, **((x or {}) if name == "x" else {})) for name in shape), upstream=shape)
    return replace(spec, **timeouts)


def running(spec: WorkflowSpec, priority: Priority = NORMAL, *, busy: bool = False) -> World:
    """w-1 has started on n0 and fills it, unless it is *busy*; other-1, also a graph, has started on n1."""
    world = World({"a": 8}, {"n0": sum(group.tasks[0].pods for group in spec.groups if not group.upstream)})
    if busy:
        world.submit("busy", "a")
        world.cycle()
    world.submit("w", "a", priority, spec=spec)
    world.cycle()
    world.do(PutNode(Node("n1", {GPU: 1}, flavor="default")))
    world.submit("other", "a", spec=workflow("other", task("p"), task("q"), upstream={"q": ("p",)}))
    if busy:
        world.do(*put_on_hold(world.state, "w-1", user="u").actions)
        world.cycle()
        world.do(*end_hold(world.state, "w-1").actions)
    world.cycle()
    world.cycle()
    return world


def ends(code: int) -> Callable[[World], None]:
    def act(world: World) -> None:
        world.finish("w-1", code)

    return act


def loses_its_node(world: World) -> None:
    world.now += 1
    cycle.run(world.state, Observation(world.observe().tasks, (Node("n1", {GPU: 1}),)), world.now)


def waits(world: World) -> None:
    world.now += 100


def is_cancelled(world: World) -> None:
    world.do(*cancel(world.state, "w-1", user="u").actions)


def is_cancelled_half_way(world: World) -> None:
    world.facts[TaskKey("w-1", "x", 0)] = TaskFact(Phase.ENDED, 0)
    world.cycle()
    world.cycle()
    is_cancelled(world)


def fails_on_hold(world: World) -> None:
    world.do(*put_on_hold(world.state, "w-1", user="u").actions)
    world.finish("w-1", 1)
    world.cycle()


def fails_once_released(world: World) -> None:
    world.do(*put_on_hold(world.state, "w-1", user="u").actions)
    world.cycle()
    world.do(*end_hold(world.state, "w-1").actions)
    world.finish("w-1", 1)


def fails_each_time(world: World) -> None:
    for _ in range(USUAL_RETRIES + 1):
        world.finish("w-1", 7)
        world.cycle()
        world.cycle()


def is_preempted(world: World) -> None:
    world.submit("high", "a")


def loses_one_pod(world: World) -> None:
    world.facts[TaskKey("w-1", "x-1", 0)] = TaskFact(Phase.ENDED, 1)


RESCHEDULED = {"exit_rules": (ExitRule(ExitAction.RESCHEDULE, 7, 7),)}
FAILS_IF_PREEMPTED = {"exit_rules": (ExitRule(ExitAction.FAIL, 3006, 3006),)}


def upstream(shape: Graph, first: str, end: str, *, also: tuple[str, ...] = ()) -> dict[str, str]:
    """All groups behind x are FAILED_UPSTREAM; x and *also* are *first*; the workflow is *end*."""
    own = {name: first if name == "x" or name in also else "FAILED_UPSTREAM" for name in shape}
    return {**own, "w": end}


@pytest.mark.parametrize(
    ("spec", "act", "expected"),
    [
        pytest.param(graph(TRIANGLE), ends(1), upstream(TRIANGLE, "FAILED", "FAILED"), id="exit code"),
        pytest.param(graph(FROM_THE_END), ends(1), upstream(TRIANGLE, "FAILED", "FAILED"), id="written backwards"),
        pytest.param(graph(TRIANGLE), ends(302), upstream(TRIANGLE, "FAILED", "FAILED"), id="image pull"),
        pytest.param(graph(TRIANGLE), ends(3003), upstream(TRIANGLE, "FAILED", "FAILED"), id="start error"),
        pytest.param(graph(TRIANGLE), ends(3004), upstream(TRIANGLE, "FAILED_EVICTED", "FAILED_EVICTED"), id="evicted"),
        pytest.param(
            graph(TRIANGLE, exec_timeout_s=50),
            waits,
            upstream(TRIANGLE, "FAILED_EXEC_TIMEOUT", "FAILED_EXEC_TIMEOUT"),
            id="exec_timeout",
        ),
        pytest.param(graph(TRIANGLE), loses_its_node, upstream(TRIANGLE, "FAILED", "FAILED"), id="lost node"),
        pytest.param(graph(TRIANGLE, x={"count": 2}), ends(1), upstream(TRIANGLE, "FAILED", "FAILED"), id="count"),
        pytest.param(
            replace(
                graph(TRIANGLE, x={"count": 2}),
                groups=(
                    replace(graph(TRIANGLE, x={"count": 2}).groups[0], ignore_nonlead_status=False),
                    *graph(TRIANGLE).groups[1:],
                ),
            ),
            loses_one_pod,
            upstream(TRIANGLE, "FAILED", "FAILED"),
            id="one pod of several",
        ),
        pytest.param(
            graph(TWO_PARENTS),
            ends(1),
            upstream(TWO_PARENTS, "FAILED", "FAILED", also=("x2",)),
            id="two failing parents",
        ),
        pytest.param(graph(SKIPPING), ends(1), upstream(SKIPPING, "FAILED", "FAILED"), id="chain that skips"),
        pytest.param(graph(DIAMOND), ends(1), upstream(DIAMOND, "FAILED", "FAILED"), id="diamond"),
        pytest.param(graph(LADDER), ends(1), upstream(LADDER, "FAILED", "FAILED"), id="six groups"),
        pytest.param(graph(LONG), ends(1), upstream(LONG, "FAILED", "FAILED"), id="a thousand groups"),
        pytest.param(graph(TRIANGLE), is_cancelled, dict.fromkeys((*TRIANGLE, "w"), "FAILED_CANCELED"), id="cancel"),
        pytest.param(
            graph(DIAMOND),
            is_cancelled_half_way,
            {**dict.fromkeys((*DIAMOND, "w"), "FAILED_CANCELED"), "x": "COMPLETED"},
            id="cancel half-way",
        ),
        pytest.param(graph(TRIANGLE), fails_on_hold, upstream(TRIANGLE, "FAILED", "FAILED"), id="on hold"),
        pytest.param(graph(TRIANGLE), fails_once_released, upstream(TRIANGLE, "FAILED", "FAILED"), id="released"),
        pytest.param(
            graph(TRIANGLE, x=RESCHEDULED),
            fails_each_time,
            upstream(TRIANGLE, "FAILED", "FAILED"),
            id="retries used up",
        ),
    ],
)
def test_groups_behind_a_failed_one_end_once_and_others_continue(
    spec: WorkflowSpec, act: Callable[[World], None], expected: Mapping[str, str]
) -> None:
    _check(running(spec), act, expected)


def test_a_graph_whose_first_group_waits_too_long_ends_and_others_continue() -> None:
    world = running(graph(TRIANGLE, queue_timeout_s=50), busy=True)
    expected = upstream(TRIANGLE, "FAILED_QUEUE_TIMEOUT", "FAILED_QUEUE_TIMEOUT")
    _check(world, waits, expected)


def test_a_graph_whose_first_group_is_preempted_too_often_ends_and_others_continue() -> None:
    world = running(graph(TRIANGLE, x=FAILS_IF_PREEMPTED), LOW)
    expected = upstream(TRIANGLE, "FAILED_PREEMPTED", "FAILED_PREEMPTED")
    _check(world, is_preempted, expected)


def _check(world: World, act: Callable[[World], None], expected: Mapping[str, str]) -> None:
    """After *act* the graph ends as *expected*, also after a restart; the other workflow is unchanged and continues."""
    others = _rows(world.state, "other-1")
    act(world)
    for _ in range(4):
        world.cycle()
    seen = {each.name.removesuffix("-group"): each.status.value for each in world.state.groups_of("w-1")}
    assert {**seen, "w": world.state.workflows["w-1"].status.value} == dict(expected)
    assert _rows(world.state, "other-1") == others
    world.state.take_changes()  # finished workflows are dropped from memory
    assert contradiction(world.state.rows()) is None
    assert State.load(world.state.rows()).rows() == world.state.rows()
    world.finish("other-1")
    world.cycle()
    assert [status.value for status in world.status("other-1")] == ["COMPLETED", "INITIALIZING"]


def _rows(state: State, id: str) -> list[object]:
    tasks = [each for each in state.rows().tasks if each.workflow == id]
    return [state.workflows[id], *state.groups_of(id), *tasks]
