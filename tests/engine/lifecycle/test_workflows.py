"""How workflows change: exit codes, exit actions, groups, DAGs, timeouts, cancellation, preemption, smaller sizes (W1,
A1, A3, R6).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.errors import Conflict, NotFound
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool
from runrig.domain.quantities import GPU
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import (
    USUAL_RETRIES,
    ExitAction,
    ExitRule,
    GroupSpec,
    Status,
    TaskKey,
    TaskSpec,
    Workflow,
    WorkflowSpec,
)
from runrig.engine import cycle
from runrig.engine.lifecycle.exit_codes import MOST_MOVES, MOST_PREEMPTIONS
from runrig.engine.lifecycle.outcomes import workflow_status
from runrig.engine.lifecycle.workflows import next_deadline
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, NORMAL, World, gpu_quota, task, workflow

COMPLETE, FAIL, RESCHEDULE = ExitAction.COMPLETE, ExitAction.FAIL, ExitAction.RESCHEDULE


def group(*tasks: TaskSpec, name: str = "g", upstream: tuple[str, ...] = (), ignore: bool = True) -> GroupSpec:
    """The first task leads."""
    mates = tuple(replace(each, lead=at == 0) for at, each in enumerate(tasks))
    return GroupSpec(name, mates, upstream, ignore_nonlead_status=ignore)


def running(*groups: GroupSpec, pool: Pool | int = 8, **timeouts: Any) -> World:
    """The workflow w-1 in pool a, as far as it can run."""
    world = World({"a": pool}, {"n0": 8})
    world.submit("w", "a", NORMAL, spec=WorkflowSpec("w", groups, **timeouts))
    world.cycle()
    world.cycle()
    return world


def end(world: World, *codes: tuple[str, int]) -> None:
    """The latest attempts of these pods end, and a cycle observes that."""
    for name, code in codes:
        world.facts[TaskKey("w-1", name, len(world.state.attempts("w-1", name)) - 1)] = TaskFact(Phase.ENDED, code)
    world.cycle()


def statuses(world: World) -> dict[str, str]:
    """The status of each pod's latest attempt, of each group and of the workflow."""
    found: dict[str, str] = {}
    for each in world.state.groups_of("w-1"):
        found |= {one.name: one.status.value for one in world.state.current_tasks((each.workflow, each.name))}
        found[each.name] = each.status.value
    return {**found, "w": world.state.workflows["w-1"].status.value}


# ---------------------------------------------------------------- exit codes of a single task


@pytest.mark.parametrize(
    ("code", "task_status", "group_status"),
    [
        (0, "COMPLETED", "COMPLETED"),
        (1, "FAILED", "FAILED"),
        (143, "FAILED", "FAILED"),
        (3001, "FAILED_BACKEND_ERROR", "FAILED"),
        (3002, "FAILED_SERVER_ERROR", "FAILED_SERVER_ERROR"),
        (3003, "FAILED_START_ERROR", "FAILED"),
        (3004, "FAILED_EVICTED", "FAILED_EVICTED"),
        (3005, "FAILED_START_TIMEOUT", "FAILED"),
    ],
)
def test_an_exit_code_decides_about_task_group_and_workflow(code: int, task_status: str, group_status: str) -> None:
    world = running(group(task("t")))
    end(world, ("t", code))
    assert statuses(world) == {"t": task_status, "g": group_status, "w": group_status}
    assert world.state.tasks[TaskKey("w-1", "t", 0)].exit_code == code
    assert world.state.ledger.entries == {}


def test_a_task_that_the_backend_lost_has_failed() -> None:
    world = running(group(task("t")))
    world.now += 1
    cycle.run(world.state, Observation({}), world.now)
    assert statuses(world) == {"t": "FAILED_BACKEND_ERROR", "g": "FAILED", "w": "FAILED"}
    assert world.state.tasks[TaskKey("w-1", "t", 0)].exit_code == 3001


def test_a_task_that_never_started_is_awaited_unless_its_node_is_gone() -> None:
    world = World({"a": 1}, {"n0": 1, "n1": 1})
    world.submit("w", "a", NORMAL)
    world.cycle()
    nothing = Observation({}, (Node("n0", {GPU: 1}), Node("n1", {GPU: 1})))
    cycle.run(world.state, nothing, 9)
    assert statuses(world)["t"] == "INITIALIZING"
    cycle.run(world.state, Observation({}, (Node("n1", {GPU: 1}),)), 10)
    assert statuses(world)["t"] == "FAILED_BACKEND_ERROR"


# ---------------------------------------------------------------- exit actions


def test_the_first_matching_rule_applies_and_the_pools_rules_come_last() -> None:
    own = (ExitRule(COMPLETE, 3, 5), ExitRule(FAIL, 0, 4))
    pool = Pool("a", gpu_quota(8), default_exit_actions=(("COMPLETE", 1, 9),))
    for code, status in ((4, "COMPLETED"), (0, "FAILED"), (7, "COMPLETED"), (10, "FAILED")):
        world = running(group(task("t", exit_rules=own)), pool=pool)
        end(world, ("t", code))
        assert statuses(world)["w"] == status, code


def test_a_rescheduled_task_restarts_in_place_and_keeps_its_gpus() -> None:
    world = running(group(task("t", 2, exit_rules=(ExitRule(RESCHEDULE, 7, 7),))))
    end(world, ("t", 7))
    first, second = world.state.attempts("w-1", "t")
    assert (first.status, first.exit_code) == (Status.RESCHEDULED, 7)
    assert (second.status, second.node, second.gpus) == (Status.INITIALIZING, "n0", (0, 1))
    assert statuses(world) == {"t": "INITIALIZING", "g": "RUNNING", "w": "RUNNING"}
    world.cycle()
    end(world, ("t", 0))
    assert statuses(world) == {"t": "COMPLETED", "g": "COMPLETED", "w": "COMPLETED"}


def test_a_task_is_rescheduled_up_to_a_limit_and_then_fails() -> None:
    world = running(group(task("t", exit_rules=(ExitRule(RESCHEDULE, 7, 7),))))
    for _ in range(USUAL_RETRIES):
        end(world, ("t", 7))
        assert statuses(world)["w"] == "RUNNING"
    end(world, ("t", 7))
    assert statuses(world) == {"t": "FAILED", "g": "FAILED", "w": "FAILED"}
    last = world.state.attempts("w-1", "t")[-1]
    assert (last.retry_id, last.failure_message) == (
        USUAL_RETRIES,
        f"exit code 7: not restarted, because the limit of {USUAL_RETRIES} retries is reached",
    )


@pytest.mark.parametrize(
    ("retries", "says"), [(0, "limit of 0 retries"), (1, "limit of 1 retry"), (3, "limit of 3 retries")]
)
def test_the_file_sets_how_often_a_task_restarts(retries: int, says: str) -> None:
    world = running(group(task("t", exit_rules=(ExitRule(RESCHEDULE, 7, 7),), retries=retries)))
    for _ in range(retries):
        end(world, ("t", 7))
        assert statuses(world)["w"] == "RUNNING"
    end(world, ("t", 7))
    last = world.state.attempts("w-1", "t")[-1]
    assert (statuses(world)["w"], last.retry_id) == ("FAILED", retries)
    assert last.failure_message == f"exit code 7: not restarted, because the {says} is reached"


def test_restarts_after_lost_nodes_have_a_limit_of_their_own() -> None:
    world = running(group(task("t", exit_rules=(ExitRule(RESCHEDULE, 1, 3001),), retries=1)))
    for code in (3001, 3001, 7, 3001):
        end(world, ("t", code))
        assert statuses(world)["w"] == "RUNNING", code
    end(world, ("t", 7))
    assert statuses(world) == {"t": "FAILED", "g": "FAILED", "w": "FAILED"}
    world = running(group(task("t", exit_rules=(ExitRule(RESCHEDULE, 3001, 3001),), retries=0)))
    for _ in range(MOST_MOVES):
        end(world, ("t", 3001))
    assert statuses(world)["w"] == "RUNNING"
    end(world, ("t", 3001))
    last = world.state.attempts("w-1", "t")[-1]
    assert (statuses(world)["w"], last.failure_message) == (
        "FAILED",
        f"exit code 3001: not restarted, because {MOST_MOVES} of its nodes were lost",
    )


def test_a_restarting_lead_restarts_its_siblings() -> None:
    lead = task("lead", exit_rules=(ExitRule(RESCHEDULE, 7, 7),))
    world = running(group(lead, task("mate")))
    end(world, ("lead", 7))
    assert world.state.tasks[TaskKey("w-1", "mate", 0)].restarting
    world.cycle()
    world.cycle()
    assert [each.status for each in world.state.attempts("w-1", "mate")] == [Status.RESCHEDULED, Status.RUNNING]
    assert statuses(world) == {"lead": "RUNNING", "mate": "RUNNING", "g": "RUNNING", "w": "RUNNING"}


def test_a_restart_for_the_lead_does_not_use_a_siblings_retries() -> None:
    rules = (ExitRule(RESCHEDULE, 7, 7),)
    world = running(group(task("lead", exit_rules=rules), task("mate", exit_rules=rules)))
    for _ in range(USUAL_RETRIES):
        end(world, ("lead", 7))
        world.cycle()
        world.cycle()
    end(world, ("mate", 7))
    assert statuses(world)["mate"] == "INITIALIZING"


@pytest.mark.parametrize(("ignore", "restarts"), [(True, False), (False, True)])
def test_a_restarting_sibling_restarts_the_others_only_if_siblings_count(ignore: bool, restarts: bool) -> None:
    world = running(group(task("lead"), task("mate", exit_rules=(ExitRule(RESCHEDULE, 7, 7),)), ignore=ignore))
    end(world, ("mate", 7))
    assert world.state.tasks[TaskKey("w-1", "lead", 0)].restarting is restarts


# ---------------------------------------------------------------- leads and siblings


@pytest.mark.parametrize(("code", "status"), [(0, "COMPLETED"), (1, "FAILED")])
def test_when_the_lead_ends_its_siblings_stop_with_its_status(code: int, status: str) -> None:
    world = running(group(task("lead"), task("mate")))
    end(world, ("lead", code))
    assert statuses(world) == {"lead": status, "mate": "RUNNING", "g": "RUNNING", "w": "RUNNING"}
    assert world.state.groups["w-1", "g"].stopping is Status(status)
    world.cycle()
    assert statuses(world) == {"lead": status, "mate": status, "g": status, "w": status}


def test_a_group_has_the_result_of_its_lead_even_if_siblings_were_running() -> None:
    alone, with_mate = running(group(task("lead"))), running(group(task("lead"), task("mate")))
    for world in (alone, with_mate):
        end(world, ("lead", 3004))
        world.cycle()
    assert (statuses(alone)["w"], statuses(with_mate)["w"]) == ("FAILED_EVICTED", "FAILED_EVICTED")


def test_a_failed_sibling_is_ignored_by_default() -> None:
    world = running(group(task("lead"), task("mate")))
    end(world, ("mate", 1))
    assert statuses(world) == {"lead": "RUNNING", "mate": "FAILED", "g": "RUNNING", "w": "RUNNING"}
    end(world, ("lead", 0))
    assert statuses(world) == {"lead": "COMPLETED", "mate": "FAILED", "g": "COMPLETED", "w": "COMPLETED"}


def test_a_failed_sibling_stops_the_group_if_siblings_count() -> None:
    world = running(group(task("lead"), task("mate"), ignore=False))
    end(world, ("mate", 1))
    world.cycle()
    assert statuses(world) == {"lead": "FAILED", "mate": "FAILED", "g": "FAILED", "w": "FAILED"}


def test_a_group_is_finished_only_when_all_of_its_tasks_are() -> None:
    world = running(group(task("lead"), task("mate")))
    end(world, ("mate", 0))
    assert statuses(world)["g"] == "RUNNING"
    assert world.state.ledger.entries["w-1/g"].held


# ---------------------------------------------------------------- DAGs


def diamond(**kinds: int) -> WorkflowSpec:
    """top → left, right → bottom."""
    return workflow(
        "w",
        *(task(name) for name in ("top", "left", "right", "bottom")),
        upstream={"left": ("top",), "right": ("top",), "bottom": ("left", "right")},
    )


def started(spec: WorkflowSpec, pools: Mapping[str, int]) -> World:
    world = World(pools, {"n0": 8})
    world.submit("w", "a", NORMAL, spec=spec)
    world.cycle()
    world.cycle()
    return world


def test_a_group_starts_when_all_groups_before_it_have_completed() -> None:
    world = started(diamond(), {"a": 8})
    assert world.running() == {"w-1"}
    shown = []
    for name in ("top", "left", "right", "bottom"):
        shown.append(sorted(key.task for key in world.state.active))
        end(world, (name, 0))
        world.cycle()
    assert shown == [["top"], ["left", "right"], ["right"], ["bottom"]]
    assert statuses(world)["w"] == "COMPLETED"


def test_all_groups_downstream_of_a_failed_one_fail() -> None:
    world = started(diamond(), {"a": 8})
    end(world, ("top", 0))
    world.cycle()
    end(world, ("left", 1))
    assert statuses(world) == {
        "top": "COMPLETED",
        "top-group": "COMPLETED",
        "left": "FAILED",
        "left-group": "FAILED",
        "right": "RUNNING",
        "right-group": "RUNNING",
        "bottom": "FAILED_UPSTREAM",
        "bottom-group": "FAILED_UPSTREAM",
        "w": "RUNNING",
    }
    assert world.state.tasks[TaskKey("w-1", "bottom", 0)].exit_code == 3000
    end(world, ("right", 0))
    assert statuses(world)["w"] == "FAILED"


@pytest.mark.parametrize(
    ("groups", "status"),
    [
        (("COMPLETED", "COMPLETED"), "COMPLETED"),
        (("FAILED_CANCELED", "FAILED_SERVER_ERROR"), "FAILED_CANCELED"),
        (("FAILED_SERVER_ERROR", "FAILED_EXEC_TIMEOUT"), "FAILED_SERVER_ERROR"),
        (("FAILED_EXEC_TIMEOUT", "FAILED_QUEUE_TIMEOUT"), "FAILED_EXEC_TIMEOUT"),
        (("FAILED_QUEUE_TIMEOUT", "FAILED"), "FAILED_QUEUE_TIMEOUT"),
        (("FAILED_EVICTED", "FAILED_UPSTREAM"), "FAILED_EVICTED"),
        (("FAILED_EVICTED", "FAILED_PREEMPTED"), "FAILED"),
        (("FAILED_PREEMPTED", "COMPLETED"), "FAILED_PREEMPTED"),
        (("FAILED_UPSTREAM",), "FAILED"),
    ],
)
def test_a_workflow_has_the_worst_result_of_its_groups(groups: tuple[str, ...], status: str) -> None:
    assert workflow_status([Status(each) for each in groups]) is WorkflowStatus(status)


# ---------------------------------------------------------------- timeouts


def test_a_group_that_waits_too_long_ends_and_leaves_the_queue() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("first", "a", NORMAL)
    world.submit("w", "a", NORMAL, spec=WorkflowSpec("w", (group(task("t")),), queue_timeout_s=5))
    assert world.cycle() == ["admit first"]
    assert next_deadline(world.state) == 7
    world.now = 5.9
    world.cycle()
    assert statuses(world)["w"] == "PENDING"
    world.cycle()
    assert statuses(world) == dict.fromkeys(("t", "g", "w"), "FAILED_QUEUE_TIMEOUT")
    assert "w-1/g" not in world.state.ledger.entries


def test_a_group_that_runs_too_long_stops_and_its_time_starts_with_its_first_task() -> None:
    world = running(group(task("t")), exec_timeout_s=5)
    assert next_deadline(world.state) == 8
    world.now = 7
    world.cycle()
    assert statuses(world)["t"] == "RUNNING"
    assert world.state.groups["w-1", "g"].stopping is Status.FAILED_EXEC_TIMEOUT
    world.cycle()
    assert statuses(world) == dict.fromkeys(("t", "g", "w"), "FAILED_EXEC_TIMEOUT")
    said = "ran longer than its time limit of 5s (--time, or exec_timeout)"
    assert world.state.workflows["w-1"].failure_message == said


def test_a_stopping_group_keeps_its_cause_when_its_time_is_up() -> None:
    world = running(group(task("lead"), task("mate")), exec_timeout_s=5)
    world.now = 6
    end(world, ("lead", 0))
    world.now = 20
    alive = Observation({key: TaskFact(Phase.RUNNING) for key in world.state.active})
    cycle.run(world.state, alive, world.now)
    assert world.state.groups["w-1", "g"].stopping is Status.COMPLETED
    world.cycle()
    assert statuses(world)["w"] == "COMPLETED"


def test_queue_time_starts_again_after_a_preemption() -> None:
    world = World({"a": 1, "b": 0}, {"n0": 1})
    world.submit("w", "b", LOW, spec=WorkflowSpec("w", (group(task("t")),), queue_timeout_s=3))
    world.cycle()
    world.now = 50
    world.cycle()
    world.submit("in", "a", NORMAL)
    world.cycle()
    world.cycle()
    assert statuses(world)["g"] == "SCHEDULING"
    world.now += 3
    world.cycle()
    assert statuses(world)["w"] == "FAILED_QUEUE_TIMEOUT"


# ---------------------------------------------------------------- cancel


def test_a_waiting_workflow_is_cancelled_immediately() -> None:
    world = World({"a": 1}, {"n0": 1})
    world.submit("w", "a", NORMAL, spec=diamond())
    world.cancel("w-1")
    assert set(statuses(world).values()) == {"FAILED_CANCELED"}
    assert world.state.ledger.entries == {}
    with pytest.raises(Conflict, match="w-1 is already FAILED_CANCELED"):
        world.cancel("w-1")
    with pytest.raises(NotFound, match="unknown workflow 'x-1', or it has ended"):
        world.cancel("x-1")


def test_a_running_workflow_is_cancelled_when_its_tasks_have_stopped() -> None:
    world = started(diamond(), {"a": 8})
    end(world, ("top", 0))
    world.cycle()
    world.cancel("w-1")
    assert {name: statuses(world)[name] for name in ("left", "bottom", "w")} == {
        "left": "RUNNING",
        "bottom": "FAILED_CANCELED",
        "w": "RUNNING",
    }
    world.cancel("w-1")
    world.cycle()
    assert statuses(world)["top-group"] == "COMPLETED"
    assert statuses(world)["w"] == "FAILED_CANCELED"
    assert world.state.workflows["w-1"].cancelled_by == "u"
    assert world.state.ledger.entries == {}


def test_a_nominated_workflow_is_cancelled_immediately_and_its_targets_still_stop() -> None:
    world = World({"a": 1, "b": 0}, {"n0": 1})
    world.submit("low", "b", LOW)
    world.cycle()
    world.submit("w", "a", NORMAL)
    assert world.cycle() == ["nominate w", "preempt low for w (RECLAIM)"]
    world.cancel("w-1")
    assert statuses(world)["w"] == "FAILED_CANCELED"
    assert world.cycle() == ["admit low"]
    assert len(world.state.attempts("low-1", "t")) == 2


def test_a_workflow_cancelled_during_preemption_is_not_requeued() -> None:
    world = World({"a": 1, "b": 0}, {"n0": 1})
    world.submit("w", "b", LOW)
    world.cycle()
    world.submit("in", "a", NORMAL)
    world.cycle()
    world.cancel("w-1")
    assert world.cycle() == ["admit in"]
    assert statuses(world)["w"] == "FAILED_CANCELED"


# ---------------------------------------------------------------- preempted


def preempted(*rules: ExitRule) -> World:
    world = World({"a": 1, "b": 0}, {"n0": 1})
    world.submit("w", "b", LOW, spec=WorkflowSpec("w", (group(task("t", exit_rules=rules)),)))
    world.cycle()
    world.cycle()
    world.submit("in", "a", NORMAL)
    world.cycle()
    world.cycle()
    return world


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ((), "PENDING"),
        ((ExitRule(RESCHEDULE, 3006, 3006),), "PENDING"),
        ((ExitRule(FAIL, 3000, 3999),), "FAILED_PREEMPTED"),
        ((ExitRule(COMPLETE, 3006, 3006),), "COMPLETED"),
        ((ExitRule(FAIL, 143, 143),), "PENDING"),
    ],
)
def test_a_preempted_workflow_is_requeued_unless_its_exit_actions_prevent_it(
    rules: tuple[ExitRule, ...], status: str
) -> None:
    """R6."""
    world = preempted(*rules)
    assert statuses(world)["w"] == status
    assert world.state.attempts("w-1", "t")[0].exit_code == 3006


def test_preemptions_have_their_own_budget() -> None:
    """R6: not the one for retries."""
    world = preempted()
    key = ("w-1", "g")
    world.state.groups[key] = replace(world.state.groups[key], preemptions=MOST_PREEMPTIONS)
    world.finish("in-1")
    world.cycle()
    world.submit("again", "a", NORMAL)
    world.cycle()
    world.cycle()
    assert statuses(world)["w"] == "FAILED_PREEMPTED"


# ---------------------------------------------------------------- smaller sizes


def three_kinds() -> GroupSpec:
    return group(task("a"), task("b", count=4, minimum=2), task("c", count=20, minimum=10))


def counts(world: World) -> dict[str, int]:
    entry = world.state.ledger.entries["w-1/g"]
    return {each.pod_set: each.count for each in entry.placement}


def test_pods_are_dropped_in_proportion_and_the_full_size_returns_when_it_is_requeued() -> None:
    """A1, A3."""
    world = World({"a": 25, "b": 0}, {"n0": 19, "n1": 6})
    world.do(PutPool(Pool("a", gpu_quota(19)), world.state.pools["a"]), PutPool(Pool("b", gpu_quota(0, 19))))
    world.submit("w", "b", LOW, spec=WorkflowSpec("w", (three_kinds(),)))
    world.submit("firm", "a", NORMAL, 6)
    assert world.cycle() == ["admit firm", "admit w"]
    assert counts(world) == {"a": 1, "b": 3, "c": 15}
    assert sorted(key.task for key in world.state.active if key.workflow == "w-1") == sorted(
        ["a", "b-0", "b-1", "b-2", *(f"c-{at}" for at in range(15))]
    )
    world.submit("in", "a", NORMAL, 13)
    assert world.cycle() == ["nominate in", "preempt w for in (RECLAIM)"]
    world.cycle()
    assert world.status("w-1") == [Status.SCHEDULING]
    assert [each.count for each in world.state.ledger.entries["w-1/g"].gang.pod_sets] == [1, 4, 20]
    assert len(world.state.current_tasks(("w-1", "g"))) == 25


def test_a_pod_left_out_of_a_smaller_attempt_never_reuses_a_key() -> None:
    """W2: an attempt that a backend has seen end is not the one that starts now. It does not count in the smaller gang
    either.
    """
    spec = WorkflowSpec("w", (group(task("t", count=3, minimum=1), ignore=False),))
    world = World({"a": 3, "b": 0}, {"n0": 3})
    world.submit("w", "b", LOW, spec=spec)
    assert world.cycle() == ["admit w"]
    world.cycle()
    world.submit("in", "a", NORMAL, 2)
    world.cycle()
    assert world.cycle() == ["admit in", "admit w"]
    assert counts(world) == {"t": 1}
    rows = world.state.rows()
    again = State.load(rows)
    assert again.current == world.state.current == {**world.state.current, ("w-1", "g"): {"t-0": 1}}
    world.cycle()
    world.finish("in-1")
    world.submit("last", "a", NORMAL, 3)
    world.cycle()
    world.cycle()
    world.cycle()
    world.finish("last-1")
    assert world.cycle() == ["admit w"]
    assert sorted(key for key in world.state.active if key.workflow == "w-1") == [
        ("w-1", "t-0", 2),
        ("w-1", "t-1", 1),
        ("w-1", "t-2", 1),
    ]


def test_a_gang_that_became_smaller_completes_after_a_restart_of_the_server() -> None:
    spec = WorkflowSpec("w", (group(task("t", count=2, minimum=1), ignore=False),))
    world = World({"a": 2, "b": 0}, {"n0": 2})
    world.submit("w", "b", LOW, spec=spec)
    world.cycle()
    world.cycle()
    world.submit("in", "a", NORMAL, 1)
    world.cycle()
    assert world.cycle() == ["admit in", "admit w"]
    world.cycle()
    world.state = State.load(world.state.rows())
    end(world, ("t-0", 0))
    assert world.state.workflows["w-1"].status is WorkflowStatus.COMPLETED


# ---------------------------------------------------------------- rows


def test_a_finished_workflow_leaves_memory_with_the_commit_that_stores_it() -> None:
    world = running(group(task("t")))
    end(world, ("t", 0))
    changes = {(change.kind, change.key): change.record for change in world.state.take_changes()}
    ended = changes["Workflow", ("w-1",)]
    assert isinstance(ended, Workflow)
    assert ended.status is WorkflowStatus.COMPLETED
    assert changes["GangRow", ("w-1/g",)] is None
    assert (world.state.workflows, {**world.state.groups}, {**world.state.tasks}, world.state.specs) == ({}, {}, {}, {})
    assert world.state.take_changes() == ()


def test_a_completed_workflow_that_was_preempted_once_reports_no_failure() -> None:
    world = preempted()
    world.finish("in-1")
    assert world.cycle() == ["admit w"]
    world.cycle()
    world.finish("w-1")
    world.cycle()
    done = world.state.workflows["w-1"]
    assert (done.status, done.failure_message) == (WorkflowStatus.COMPLETED, "")
    assert world.state.groups["w-1", "g"].failure_message == ""
