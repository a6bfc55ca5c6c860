"""Cordoning and draining of nodes (rules N1, N2)."""

from dataclasses import replace

import pytest

from runrig.domain.errors import NotFound
from runrig.domain.gangs import GangState
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation
from runrig.domain.plan import MoveGroup, Plan, PutNode, Stop
from runrig.domain.quantities import GPU
from runrig.domain.workflows import ExitAction, ExitRule, Status, TaskKey
from runrig.engine import cycle
from runrig.engine.lifecycle.nodes import cordon, drain
from runrig.engine.state.state import State
from tests.worlds.engine import HIGH, LOW, NORMAL, World, task, workflow

EVICTED = Status.FAILED_EVICTED


def world(**nodes: int) -> World:
    return World(pools={"p": 8}, nodes=nodes or {"n0": 2, "n1": 2})


def drained(it: World, *names: str, force: bool = False) -> None:
    it.do(*drain(it.state, names, user="ann", force=force).plan.actions)


def nodes_of(it: World, id: str) -> set[str | None]:
    return {it.state.tasks[key].node for key in it.state.active if key.workflow == id}


def test_a_cordoned_node_keeps_its_work_and_accepts_no_more_until_uncordoned() -> None:
    """N1."""
    it = world(n0=2)
    first = it.submit("first", "p")
    it.cycle()
    it.do(*cordon(it.state, ["n0"], cordoned=True).actions)
    it.submit("second", "p")
    assert (it.cycle(), it.running()) == ([], {first})
    it.do(*cordon(it.state, ["n0"], cordoned=False).actions)
    assert it.cycle() == ["admit second"]


def test_a_cordon_stays_whatever_the_cluster_reports() -> None:
    """N1: the backend does not report it. A node that left the cluster returns without it."""
    it = world(n0=2)
    it.do(*cordon(it.state, ["n0"], cordoned=True).actions)
    larger = Node("n0", {GPU: 4}, labels={"rack": "r1"})
    for seen in (larger, replace(larger, ready=False), larger):
        cycle.run(it.state, Observation({}, (seen,)), it.now)
        assert it.state.nodes["n0"] == replace(seen, cordoned=True)
    assert State.load(it.state.rows()).nodes == it.state.nodes
    cycle.run(it.state, Observation({}, ()), it.now)
    cycle.run(it.state, Observation({}, (larger,)), it.now)
    assert it.state.nodes["n0"] == larger


def test_repeated_cordons_change_nothing_and_an_unknown_node_rejects_all() -> None:
    it = world()
    assert cordon(it.state, ["n0"], cordoned=False) == Plan()
    with pytest.raises(NotFound, match="node 'ghost' not found"):
        cordon(it.state, ["n0", "ghost"], cordoned=True)
    with pytest.raises(NotFound, match="ghost"):
        drain(it.state, ["n0", "ghost"], user="ann")


def test_a_drain_stops_low_work_and_lets_the_rest_finish() -> None:
    """N2."""
    it = world(n0=3, n1=1)
    low, normal, high = (it.submit(name, "p", each) for name, each in (("l", LOW), ("n", NORMAL), ("h", HIGH)))
    it.do(*cordon(it.state, ["n1"], cordoned=True).actions)
    it.cycle()
    it.do(*cordon(it.state, ["n1"], cordoned=False).actions)
    found = drain(it.state, ["n0"], user="ann")
    assert found.plan.actions == (
        PutNode(Node("n0", {GPU: 3}, cordoned=True)),
        MoveGroup("l-1", "t-group", Status.INITIALIZING, "ann drained node n0", EVICTED),
        Stop("l-1/t-group", EVICTED),
    )
    assert [each.gang.workflow for each in found.stays] == [high, normal]
    it.do(*found.plan.actions)
    assert it.cycle() == ["admit l"]
    assert (nodes_of(it, low), nodes_of(it, normal), nodes_of(it, high)) == ({"n1"}, {"n0"}, {"n0"})
    assert drain(it.state, ["n0"], user="ann").plan == Plan()


def test_a_forced_drain_stops_everything_and_keeps_queue_positions() -> None:
    """N2: exit rules do not apply, and the preemption budget is not used (R6)."""
    it = world(n0=2)
    rules = (ExitRule(ExitAction.FAIL, 3004, 3006),)
    first = it.submit("first", "p", HIGH, spec=workflow("first", task("t", exit_rules=rules)))
    it.submit("low", "p", LOW)
    it.cycle()
    later = it.submit("later", "p", HIGH)
    drained(it, "n0", force=True)
    it.cycle()
    group = it.state.groups[first, "t-group"]
    assert (group.status, group.attempt, group.preemptions, group.drains) == (Status.SCHEDULING, 1, 0, 1)
    ended = it.state.tasks[TaskKey(first, "t", 0)]
    assert (ended.status, ended.exit_code, ended.failure_message) == (EVICTED, 3004, "ann drained node n0")
    waiting = sorted((each for each in it.state.ledger.entries.values()), key=lambda each: each.order)
    assert [each.gang.workflow for each in waiting] == [first, later, "low-1"]
    it.do(*cordon(it.state, ["n0"], cordoned=False).actions)
    assert it.cycle() == ["admit first", "admit later"]


def test_a_gang_stops_as_a_whole_and_only_once() -> None:
    it = world()
    it.submit("wide", "p", LOW, spec=workflow("wide", task("t", 2, count=2)))
    it.cycle()
    assert nodes_of(it, "wide-1") == {"n0", "n1"}
    drained(it, "n1", "n0")
    assert it.state.ledger.entries["wide-1/t-group"].state is GangState.STOPPING
    again = drain(it.state, ["n0", "n1"], user="ann", force=True)
    assert (again.plan, again.stops, again.stays) == (Plan(), (), ())
    it.cancel("wide-1")
    it.cycle()
    assert "wide-1" not in it.running()
    assert not it.state.ledger.entries


def test_a_drained_gang_may_still_lose_a_node_once() -> None:
    """T1: a gang is requeued once for a lost node; an earlier drain does not count."""
    rules = (ExitRule(ExitAction.RESCHEDULE, 3001, 3001),)
    it = world(n0=1, n1=1, n2=1)
    id = it.submit("w", "p", LOW, spec=workflow("w", task("t", exit_rules=rules)))
    it.cycle()
    (node,) = nodes_of(it, id)
    drained(it, str(node))
    it.cycle()
    it.cycle()
    (node,) = nodes_of(it, id)
    it.do(*cordon(it.state, it.state.nodes, cordoned=True).actions)
    it.finish(id, 3001)
    it.cycle()
    assert it.status(id) == [Status.SCHEDULING]


def test_a_gang_nominated_on_a_drained_node_loses_its_reservation() -> None:
    """R4: the reserved node accepts no pods."""
    it = World(pools={"p": 4}, nodes={"n0": 2})
    it.submit("low", "p", LOW, gpus=2)
    it.cycle()
    it.submit("firm", "p", NORMAL, gpus=2)
    assert it.cycle() == ["nominate firm", "preempt low for firm (PRIORITY)"]
    it.do(*cordon(it.state, ["n0"], cordoned=True).actions)
    assert it.cycle() == ["withdraw firm"]
    assert it.running() == set()
