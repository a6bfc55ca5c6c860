"""A cycle costs what it changes, and is split only where everything begun is complete."""

from collections import Counter
from itertools import islice

import pytest

from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.engine.cycle import STEP, CycleInParts
from runrig.engine.scheduling.admission import DRAWN_PER_STEP, EFFORT_PER_STEP, decide
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, NORMAL, World, task, workflow


def test_the_end_of_a_gang_is_processed_in_one_pass_over_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, asked = State.current_tasks, []

    def counted(*these: object) -> object:
        asked.append(these)
        return plain(*these)  # type: ignore[arg-type]

    monkeypatch.setattr(State, "current_tasks", counted)
    counts = []
    for pods in (2, 60):
        world = World({"a": pods}, {"n0": pods})
        world.submit("w", "a", NORMAL, spec=workflow("w", task("t", count=pods)))
        world.cycle()
        asked.clear()
        world.finish("w-1")
        world.cycle()
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0


def test_unchanged_running_tasks_cost_no_steps() -> None:
    """So a cycle is one part however many tasks run, if nothing about them is new."""
    world = World({"a": 8}, {"n0": 8})
    for at in range(8):
        world.submit(f"w{at}", "a", NORMAL)
    world.cycle()
    world.cycle()
    running = CycleInParts(world.state, world.observe(), world.now)
    assert (running.part(1).actions, running.ended) == ((), True)


def test_tasks_that_end_together_share_parts_and_a_large_gang_is_released_in_its_own() -> None:
    """Each part is a transaction. A hundred of them for the tasks of one gang would keep its resources from all others."""
    pods, budget = 10 * STEP, 2 * STEP
    world = World({"a": pods}, {"n0": pods})
    world.submit("w", "a", NORMAL, spec=workflow("w", task("t", count=pods)))
    world.cycle()
    world.finish("w-1")
    running, parts = CycleInParts(world.state, world.observe(), world.now), []
    while not running.ended:
        parts.append(Counter(type(action).__name__ for action in running.part(budget).actions))
    parts = [part for part in parts if part]
    (released,) = (part for part in parts if part["Release"])
    assert released == {"MoveTask": 1, "Release": 1, "MoveGroup": 1, "MoveWorkflow": 1}
    assert max(part["MoveTask"] for part in parts) == budget
    assert len(parts) <= pods // budget + 2


def test_no_part_ends_between_a_nomination_and_its_preemptions() -> None:
    world = World({"a": 4, "b": 0}, {"n0": 4})
    for at in range(4):
        world.submit(f"low{at}", "b", LOW)
    world.cycle()
    world.submit("w", "a", NORMAL, spec=workflow("w", task("t", gpus=4)))
    facts = {key: TaskFact(Phase.RUNNING) for key in world.state.active}
    running, parts = CycleInParts(world.state, Observation(facts), world.now), []
    while not running.ended:
        parts.append([type(action).__name__ for action in running.part(1).actions])
    assert [part for part in parts if "Nominate" in part] == [["Nominate"] + ["Preempt"] * 4]


def test_a_longer_search_for_targets_counts_more_steps() -> None:
    steps = []
    for many in (1, 40):
        world = World({"a": many, "b": 0}, {"n0": many})
        for at in range(many):
            world.submit(f"low{at:02}", "b", LOW)
        world.cycle()
        world.submit("w", "a", NORMAL, spec=workflow("w", task("t", gpus=many)))
        steps.append(sum(decision is None for decision in decide(world.state.ledger)))
    assert steps[0] <= 4
    assert steps[1] > 40


def test_gangs_that_are_only_set_aside_count_as_steps_too() -> None:
    """LOW that borrows is drawn twice: otherwise a thousand pools with such work would be one step, however long it
    took.
    """
    many = 4 * DRAWN_PER_STEP
    world = World({"full": 1, **{f"p{at:02}": 0 for at in range(many)}}, {"n0": 1})
    world.submit("runs", "full", NORMAL)
    assert world.cycle() == ["admit runs"]
    for at in range(many):
        world.submit(f"low{at:02}", f"p{at:02}", LOW)
    first = list(islice(decide(world.state.ledger), 4))
    assert first == [None] * 4
    assert all(bucket.asleep is None for bucket in world.state.ledger.pending.values())
    assert list(decide(world.state.ledger)) == [None] * (2 * many // DRAWN_PER_STEP + many)


def test_the_first_use_of_a_topology_counts_as_many_steps_as_it_costs() -> None:
    world = World({"a": 400}, {f"n{at:03}": 1 for at in range(400)})
    for name in ("low1", "low2"):
        world.submit(name, "a", LOW)
        ledger, before = world.state.ledger, world.state.ledger.nodes.indexed
        found = list(decide(ledger))
        assert len(found) == 2 + (ledger.nodes.indexed - before) // EFFORT_PER_STEP
    assert ledger.nodes.indexed == 400
    assert len(found) == 2
