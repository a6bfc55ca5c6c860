"""A lost node: its pods end with 3001. With RESCHEDULE they restart elsewhere in their domain, or the whole gang is
requeued once.
"""

from dataclasses import replace

import pytest

from runrig.domain.gangs import GangState
from runrig.domain.nodes import Node
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.plan import Preempt
from runrig.domain.quantities import GPU
from runrig.domain.workflows import ExitAction, ExitRule, Status, TaskKey
from runrig.engine.lifecycle.exit_codes import MOST_MOVES
from runrig.engine.state.state import State
from tests.properties.ledgers import portrait
from tests.properties.losses import come_back, ends, running, standing, submit, told, turn
from tests.worlds.engine import HIGH, LOW, NORMAL
from tests.worlds.placement import PLENTY, change, city, hold, one_by_one, pods, stand

NOWHERE = "lost: {} is gone; no other node has room for it"
RELABELLED = {"zone": "a", "rack": "r9"}


# ---------------------------------------------------------------- in the same domain


def test_pods_of_a_lost_node_move_inside_their_rack_and_the_others_keep_nodes_and_gpus() -> None:
    """T1."""
    world = running("a/r0: 2 2 2 2 2 | a/r1: 2 2 2", pods("t", 8, 1, "rack"))
    assert one_by_one(world, "w") == {"t": ["n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3"]}
    before = standing(world)
    actions = turn(world, "n1")
    assert told(world, actions) == ["replace w"]
    moved = {"t-2": (1, "n4", (0,)), "t-3": (1, "n4", (1,))}
    assert standing(world) == {**before, **moved}
    assert world.state.tasks[TaskKey("w-1", "t-2", 0)].status is Status.RESCHEDULED
    assert world.state.tasks[TaskKey("w-1", "t-2", 0)].exit_code == 3001
    assert world.state.tasks[TaskKey("w-1", "t-2", 0)].node == "n1"


def test_a_lead_that_moves_restarts_its_siblings_in_place() -> None:
    world = running("a/r0: 1 1 1", pods("t", 1, 1, "rack"), pods("u", 1, 1, "rack"))
    assert one_by_one(world, "w") == {"t": ["n0"], "u": ["n1"]}
    turn(world, "n0")
    assert standing(world) == {"t-0": (1, "n2", (0,)), "u-0": (0, "n1", (0,))}
    turn(world)
    assert standing(world) == {"t-0": (1, "n2", (0,)), "u-0": (1, "n1", (0,))}


@pytest.mark.parametrize(
    ("drawn", "then"),
    [
        ("a/r0: 1 1 1 | a/r1: 1 | b/r0: 1", "n2"),  # its rack
        ("a/r0: 1 1 | a/r1: 2 | b/r0: 1", "n2"),  # its zone
        ("a/r0: 1 1 | b/r0: 9", "n2"),  # anywhere
    ],
)
def test_a_preference_is_first_tried_near_the_remaining_pods(drawn: str, then: str) -> None:
    """T2."""
    world = city(drawn, team=PLENTY)
    submit(world, "w", pods("t", 2, 1, "zone?", "rack?"))
    stand(world, "w", {"t": {"n0": 1, "n1": 1}})
    turn(world)
    turn(world, "n0")
    assert one_by_one(world, "w") == {"t": [then, "n1"]}


def test_a_preference_is_first_tried_where_most_pods_remain() -> None:
    """T2."""
    world = city("a/r0: 1 1 | a/r1: 2 1 | a/r2: 1", team=PLENTY)
    submit(world, "w", pods("t", 4, 1, "zone", "rack?"))
    stand(world, "w", {"t": {"n0": 1, "n2": 2, "n4": 1}})
    turn(world)
    turn(world, "n4")
    assert one_by_one(world, "w") == {"t": ["n0", "n2", "n2", "n3"]}


def test_a_group_split_by_a_new_label_is_requeued() -> None:
    """T1: no domain contains all its pods."""
    world = running("a/r0: 1 1 1 1", pods("t", 3, 1, "rack"))
    where = one_by_one(world, "w")["t"]
    change(world, where[0], labels=RELABELLED)
    assert told(world, turn(world, where[1])) == ["stop w"]


def test_pods_without_requirements_stay_near_the_others_and_keep_free_racks_whole() -> None:
    """T2."""
    world = city("a/r0: 2 | a/r1: 4 4 | a/r2: 4 4", team=PLENTY)
    submit(world, "w", pods("t", 2, 2))
    stand(world, "w", {"t": {"n0": 1, "n3": 1}})
    turn(world)
    turn(world, "n0")
    assert one_by_one(world, "w") == {"t": ["n3", "n3"]}


def test_a_smaller_gang_keeps_its_size() -> None:
    """A3."""
    world = running("a/r0: 1 1 1", pods("t", 4, 1, "rack", least=2))
    assert one_by_one(world, "w") == {"t": ["n0", "n1", "n2"]}
    come_back(world, Node("n3", {GPU: 1}, labels={"zone": "a", "rack": "r0"}))
    turn(world, "n0")
    assert one_by_one(world, "w") == {"t": ["n3", "n1", "n2"]}


# ---------------------------------------------------------------- lost nodes


def test_a_pod_lost_on_a_node_that_accepts_no_new_pods_moves() -> None:
    world = running("a/r0: 1 1 1", pods("t", 2, 1, "rack"))
    change(world, "n0", ready=False)
    turn(world)
    assert standing(world) == {"t-0": (0, "n0", (0,)), "t-1": (0, "n1", (0,))}
    turn(world, facts={TaskKey("w-1", "t-0", 0): TaskFact(Phase.ENDED, 3001, "lost")})
    assert standing(world)["t-0"] == (1, "n2", (0,))
    assert world.state.ledger.nodes.by_name["n0"].gpus == [0]


def test_a_pod_lost_on_a_ready_node_restarts_in_place() -> None:
    world = running("a/r0: 1 1 1", pods("t", 2, 1, "rack"))
    turn(world, facts={TaskKey("w-1", "t-0", 0): TaskFact(Phase.ENDED, 3001, "lost")})
    assert standing(world)["t-0"] == (1, "n0", (0,))


def test_a_node_replaced_between_observations_has_lost_only_its_pods() -> None:
    """Its replacement is smaller: pods elsewhere keep running, and its own restart in place."""
    world = running("a/r0: 2 1 2", pods("t", 3, 1, "rack"))
    where = one_by_one(world, "w")
    key = TaskKey("w-1", "t-0", 0)
    back = replace(world.state.nodes[where["t"][0]], labels={"zone": "a", "rack": "r0", "new": "yes"})
    world.facts[key] = TaskFact(Phase.ENDED, 3001, "lost")
    come_back(world, back)
    assert one_by_one(world, "w") == where
    assert standing(world)["t-0"][:2] == (1, where["t"][0])


def test_a_node_that_returns_later_is_free() -> None:
    world = running("a/r0: 1 1", pods("t", 1, 1, "rack"))
    node = world.state.nodes["n0"]
    turn(world, "n0")
    come_back(world, node)
    assert world.state.ledger.nodes.by_name["n0"].gpus == [0]
    assert world.state.ledger.nodes.by_name["n0"].free[0] == {GPU: 1}
    assert portrait(world.state) == portrait(State.load(world.state.rows()))


def test_a_pod_on_a_removed_node_is_lost_even_if_the_backend_still_reports_it() -> None:
    world = running("a/r0: 1", pods("t", 1, 1), rules=())
    turn(world, "n0", facts={TaskKey("w-1", "t-0", 0): TaskFact(Phase.RUNNING)})
    assert world.state.workflows["w-1"].failure_message == "lost: n0 is gone"
    assert world.state.tasks[TaskKey("w-1", "t-0", 0)].exit_code == 3001


def test_an_exit_code_reported_with_the_loss_counts() -> None:
    world = running("a/r0: 1 1", pods("t", 1, 1), rules=(ExitRule(ExitAction.RESCHEDULE, 3001, 3001),))
    turn(world, "n0", facts={TaskKey("w-1", "t-0", 0): TaskFact(Phase.ENDED, 0)})
    assert ends(world) == {"t-0": ("COMPLETED", 0, "")}


# ---------------------------------------------------------------- no free node in the domain


def test_without_room_in_the_rack_the_whole_gang_is_requeued_and_starts_in_another() -> None:
    world = running("a/r0: 2 2 | a/r1: 3 3", pods("t", 4, 1, "rack"))
    queued = world.state.ledger.entries["w-1/g"].order
    assert told(world, turn(world, "n0")) == ["stop w"]
    assert ends(world)["t-0"] == ("FAILED_BACKEND_ERROR", 3001, NOWHERE.format("n0"))
    assert world.state.groups["w-1", "g"].stopping is Status.FAILED_BACKEND_ERROR
    assert told(world, turn(world)) == ["release w", "queue w", "admit w"]
    assert {task.status for task in world.state.tasks.values() if task.retry_id == 0} == {Status.FAILED_BACKEND_ERROR}
    assert {task.exit_code for task in world.state.tasks.values() if task.retry_id == 0} == {3001}
    assert world.state.ledger.entries["w-1/g"].order == queued
    assert one_by_one(world, "w") == {"t": ["n2", "n2", "n2", "n3"]}
    group = world.state.groups["w-1", "g"]
    assert (group.attempt, group.preemptions, group.stopping) == (1, 0, None)
    world.finish("w-1")
    turn(world)
    assert (world.status("w-1"), world.state.workflows["w-1"].failure_message) == ([Status.COMPLETED], "")


def test_a_gang_whose_last_pods_are_lost_is_requeued_immediately() -> None:
    world = running("a/r0: 2 | a/r1: 1", pods("t", 2, 1, "rack"))
    assert told(world, turn(world, "n0")) == ["stop w", "release w", "queue w"]
    assert world.state.workflows["w-1"].status.value == "PENDING"
    assert world.state.workflows["w-1"].failure_message == f"{NOWHERE.format('n0')}, queued again"


@pytest.mark.parametrize("restarted", [False, True])
def test_the_second_time_it_ends(restarted: bool) -> None:
    """Also after a restart of the server in between."""
    world = running("a/r0: 2 | a/r1: 2 | a/r2: 1", pods("t", 2, 1, "rack"))
    hold(world, "low", n1=1)
    turn(world, "n0")
    assert world.status("w-1") == [Status.SCHEDULING]
    world.cancel("low-1")
    turn(world)
    turn(world)
    if restarted:
        world.state = State.load(world.state.rows())
    assert one_by_one(world, "w") == {"t": ["n1", "n1"]}
    turn(world, "n1")
    message = f"{NOWHERE.format('n1')}, and its group had already been requeued once"
    assert ends(world)["t-0"] == ("FAILED_BACKEND_ERROR", 3001, message)
    assert world.state.workflows["w-1"].status.value == "FAILED"
    assert world.state.workflows["w-1"].failure_message == message
    assert "w-1/g" not in world.state.ledger.entries


def test_an_earlier_preemption_does_not_count_as_the_one_time() -> None:
    """R6."""
    world = running("a/r0: 2 | a/r1: 2 | a/r2: 1 | a/r3: 1", pods("t", 2, 1, "rack"), priority=LOW)
    submit(world, "high", pods("t", 2, 1, "rack"), priority=HIGH)
    submit(world, "more", pods("t", 2, 1, "rack"), priority=HIGH)
    for _ in range(3):
        turn(world)
    assert world.state.groups["w-1", "g"].preemptions == 1
    world.finish("high-1")
    turn(world)
    turn(world)
    (node,) = set(one_by_one(world, "w")["t"])
    assert told(world, turn(world, node)) == ["stop w", "release w", "queue w"]
    group = world.state.groups["w-1", "g"]
    assert (group.attempt, group.preemptions, group.status) == (2, 1, Status.SCHEDULING)


def test_without_reschedule_it_ends() -> None:
    world = running("a/r0: 2 2 2", pods("t", 2, 2, "rack"), rules=())
    assert told(world, turn(world, "n0")) == ["stop w"]
    assert ends(world)["t-0"] == ("FAILED_BACKEND_ERROR", 3001, "lost: n0 is gone")
    turn(world)
    assert world.status("w-1") == [Status.FAILED]
    assert world.state.workflows["w-1"].status.value == "FAILED"


def test_moves_count_as_retries() -> None:
    world = running("a/r0: 1 1", pods("t", 1, 1, "rack"))
    for _ in range(MOST_MOVES):
        (node,) = one_by_one(world, "w")["t"]
        back = world.state.nodes[node]
        turn(world, node)
        come_back(world, back)
    assert standing(world)["t-0"][0] == MOST_MOVES
    (node,) = one_by_one(world, "w")["t"]
    turn(world, node)
    limit = f"lost: {node} is gone exit code 3001: not restarted, because {MOST_MOVES} of its nodes were lost"
    assert ends(world) == {"t-0": ("FAILED_BACKEND_ERROR", 3001, limit)}


def test_a_stopping_gang_is_not_placed_again() -> None:
    world = running("a/r0: 1 1 1", pods("t", 2, 1, "rack"))
    world.cancel("w-1")
    assert told(world, turn(world, "n0")) == ["release w"]
    assert world.status("w-1") == [Status.FAILED_CANCELED]


def test_a_gang_that_stops_for_lack_of_room_can_be_cancelled_and_is_not_requeued() -> None:
    world = running("a/r0: 1 1", pods("t", 2, 1, "rack"))
    turn(world, "n0")
    world.cancel("w-1")
    turn(world)
    assert world.status("w-1") == [Status.FAILED_CANCELED]
    assert world.state.ledger.entries == {}


# ---------------------------------------------------------------- beside others


def test_the_first_of_two_gangs_in_the_queue_gets_the_last_gpus() -> None:
    """P4."""
    world = city("a/r0: 1 1 1", team=PLENTY)
    submit(world, "a", pods("t", 1, 1, "rack"), priority=LOW)
    submit(world, "b", pods("t", 1, 1, "rack"), priority=NORMAL)
    turn(world)
    turn(world)
    gone = {one_by_one(world, "a")["t"][0], one_by_one(world, "b")["t"][0]}
    assert told(world, turn(world, *gone)) == ["replace b", "stop a", "release a", "queue a"]
    assert set(one_by_one(world, "b")["t"]) == set(world.state.nodes)


LINGERS = {TaskKey("low-1", "on-n0-0", 0): TaskFact(Phase.RUNNING)}


@pytest.mark.parametrize(
    ("drawn", "low", "wanted"),
    [
        ("a/r0: 2 1 1", 1, 3),  # free GPUs are reserved for it
        ("a/r0: 2 1", 2, 1),  # the GPUs that its target still uses are not free yet
    ],
)
def test_reserved_or_occupied_room_is_not_taken(drawn: str, low: int, wanted: int) -> None:
    """R4."""
    world = city(drawn, team=PLENTY)
    submit(world, "w", pods("t", 1, 1, "rack"))
    stand(world, "w", {"t": {"n1": 1}})
    hold(world, "low", n0=low)
    submit(world, "high", pods("t", wanted, 1, "rack"), priority=HIGH)
    turn(world)
    assert world.state.ledger.entries["high-1/g"].state is GangState.NOMINATED
    assert told(world, turn(world, "n1", facts=LINGERS)) == ["stop w", "release w", "queue w"]
    assert world.state.ledger.entries["high-1/g"].state is GangState.NOMINATED


def test_nothing_is_preempted_before_the_gang_is_requeued() -> None:
    """R1."""
    world = city("a/r0: 1 1", team=PLENTY)
    submit(world, "w", pods("t", 1, 1, "rack"), priority=HIGH)
    stand(world, "w", {"t": {"n1": 1}})
    hold(world, "low", n0=1)
    turn(world)
    actions = turn(world, "n1")
    assert told(world, actions) == ["stop w", "release w", "queue w"]
    assert [each.by for each in actions if isinstance(each, Preempt)] == ["w-1/g"]
