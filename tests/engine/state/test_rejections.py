"""Rule T7: a gang that the cluster's own scheduler does not place, or evicts, stops completely and is retried when that
can help.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.gangs import GangState
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import (
    Action,
    Admit,
    DropNode,
    MoveGroup,
    PutNode,
    PutPool,
    Queue,
    Refuse,
    TryAgain,
)
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.reasons import Code, Reason
from runrig.domain.workflows import ExitAction, ExitRule, GroupSpec, Status, Task, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.explain.why import why
from runrig.engine.lifecycle import workflows
from runrig.engine.state.state import State
from tests.properties.ledgers import portrait
from tests.worlds.engine import HIGH, LOW, NORMAL, STRICT, gpu_quota
from tests.worlds.placement import PLENTY, LoggedWorld, change, pods

SAID = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"
EVICTED = "evicted by the scheduler"
KINDS = (Flavor("a", {"kind": "a"}, position=0), Flavor("b", {"kind": "b"}, position=1))


class Doubted(LoggedWorld):
    """A world in which the cluster's scheduler does not bind the pods of the gangs in *doubts*: gang → message."""

    def __init__(self, pools: Mapping[str, int | Pool], nodes: Mapping[str, int | Node], **more: Any) -> None:
        self.doubts: dict[str, str] = {}
        self.specs: dict[str, WorkflowSpec] = {}
        super().__init__(pools, nodes, **more)

    def observe(self) -> Observation:
        for key in self.state.active:
            if f"{key.workflow}/g" in self.doubts:
                self.facts.setdefault(key, TaskFact(Phase.STARTING))
        return replace(super().observe(), refused=dict(self.doubts))

    def doubt(self, name: str, said: str = SAID) -> None:
        self.doubts[f"{name}-1/g"] = said

    def refuse(self, said: str = SAID) -> None:
        """The gang w is refused, and leaves its nodes."""
        self.doubt("w", said)
        self.turn()
        self.doubts.clear()
        self.turn()

    def turn(self, *, linger: bool = False) -> list[Action]:
        """One cycle; the same from the rows, byte for byte. *linger*: nothing has ended yet."""
        self.now += 1
        seen = self.observe()
        if linger:
            live = {key: fact for key, fact in seen.tasks.items() if fact.phase is not Phase.ENDED}
            seen = replace(seen, tasks=live)
        twin = State.load(self.state.rows())
        plan = cycle.run(self.state, seen, self.now)
        assert repr(cycle.run(twin, seen, self.now)) == repr(plan)
        self.log += [(action, self.now) for action in plan.actions]
        self.same_from_rows_and_log()
        return list(plan.actions)

    def same_from_rows_and_log(self) -> None:
        assert portrait(self.state) == portrait(State.load(self.state.rows()))
        again = State()
        again.specs = dict(self.specs)
        for action, at in self.log:
            again.apply(action, at)
        again.take_changes()
        self.state.take_changes()  # finished workflows are dropped, as after a commit
        assert replace(again.rows(), specs={}) == replace(self.state.rows(), specs={})

    def put(self, name: str, *tasks: TaskSpec, pool: str = "team", **more: Any) -> None:
        """A workflow of one group, g, whose first task leads."""
        priority = more.pop("priority", NORMAL)
        mates = tuple(replace(each, lead=each is tasks[0]) for each in tasks)
        ignore = bool(more.pop("ignore", True))
        group = GroupSpec("g", mates, ignore_nonlead_status=ignore)
        self.submit(name, pool, priority, spec=WorkflowSpec(name, (group,), **more))
        self.specs |= self.state.specs

    def waiting(self, name: str = "w") -> tuple[GangState | None, int, str]:
        """The gang: state, attempt, and the message of its refusal."""
        entry = self.state.ledger.entries[f"{name}-1/g"]
        return entry.state, entry.gang.attempt, entry.gang.refused

    def reasons(self, name: str = "w") -> tuple[Reason, ...]:
        return why(self.state, f"{name}-1")[0].reasons

    def tasks(self, name: str = "w") -> dict[str, tuple[int, str]]:
        """Pod → latest attempt, status."""
        return {each.name: (each.retry_id, each.status.value) for each in self.state.current_tasks((f"{name}-1", "g"))}

    def nodes_of(self, name: str = "w") -> dict[str, str | None]:
        return {
            each.name: each.node
            for each in self.state.current_tasks((f"{name}-1", "g"))
            if each.key in self.state.active
        }


def started(actions: list[Action]) -> list[str]:
    return [each.gang.removesuffix("-1/g") for each in actions if isinstance(each, Admit)]


def two_nodes(**pools: int | Pool) -> Doubted:
    return Doubted(pools or {"team": PLENTY}, {"n0": 2, "n1": 2})


def running(*tasks: TaskSpec, **more: Any) -> Doubted:
    """The gang w runs on two nodes."""
    world = two_nodes()
    world.put("w", *tasks, **more)
    world.turn()
    world.turn()
    return world


def refused(world: Doubted | None = None, *tasks: TaskSpec, **more: Any) -> Doubted:
    """The gang w, which was refused and has left its nodes."""
    world = world or two_nodes()
    world.put("w", *(tasks or (pods("t", 2, 2),)), **more)
    assert started(world.turn()) == ["w"]
    world.refuse()
    return world


# ---------------------------------------------------------------- undone as a whole


def test_a_refused_gang_stops_completely_and_waits_as_its_next_attempt() -> None:
    world = two_nodes()
    world.put("w", pods("t", 2, 1), pods("u", 1, 1))
    world.turn()
    world.doubt("w")
    assert [each for each in world.turn(linger=True) if isinstance(each, Refuse)] == [
        Refuse("w-1/g", SAID, Status.FAILED_BACKEND_ERROR)
    ]
    assert world.waiting() == (GangState.STOPPING, 0, SAID)
    assert set(world.nodes_of()) == {"t-0", "t-1", "u-0"}
    assert not any(isinstance(each, Refuse) for each in world.turn(linger=True)), "it is refused once"
    world.turn()
    assert world.waiting() == (GangState.PENDING, 1, SAID)
    assert world.tasks() == dict.fromkeys(("t-0", "t-1", "u-0"), (1, "SCHEDULING"))
    ends = first_attempts(world, "t-0", "t-1", "u-0")
    assert {(each.status, each.exit_code) for each in ends} == {(Status.FAILED_BACKEND_ERROR, 3001)}
    assert all(SAID in each.failure_message for each in ends)
    assert world.state.groups["w-1", "g"].status is Status.SCHEDULING
    assert SAID in world.state.groups["w-1", "g"].failure_message


def ended_as(world: Doubted) -> Status:
    """The status of the last group that moved."""
    return next(action.status for action, _ in reversed(world.log) if isinstance(action, MoveGroup))


def first_attempts(world: Doubted, *names: str) -> list[Task]:
    return [world.state.attempts("w-1", name)[0] for name in names]


def refused_and_lingering() -> Doubted:
    world = two_nodes()
    world.put("w", pods("t", 2, 2))
    world.turn()
    world.doubt("w")
    world.turn(linger=True)
    world.doubts.clear()
    return world


@pytest.mark.parametrize("gang", ["w-1/g", "nobody-1/g", "w-1/h"])
def test_a_refusal_of_a_gang_that_is_not_on_nodes_changes_nothing(gang: str) -> None:
    """It has ended, or is pending: the report of the backend may be outdated."""
    world = two_nodes()
    world.put("big", pods("t", 2, 2))
    world.turn()
    world.put("w", pods("t", 2, 2))
    world.turn()
    world.doubts[gang] = SAID
    assert world.turn() == []
    assert world.waiting() == (GangState.PENDING, 0, "")


# ---------------------------------------------------------------- retried when it may help


def test_it_is_not_retried_while_its_nodes_are_unchanged() -> None:
    world = refused()
    world.put("x", pods("t", 2, 2))  # another one arrives, and runs there
    assert started(world.turn()) == ["x"]
    assert started(world.turn()) == []
    assert world.waiting() == (GangState.PENDING, 1, SAID)


def test_it_is_retried_when_others_have_ended_on_usable_nodes() -> None:
    """The cluster's scheduler counts what is not counted here: pod slots, host ports."""
    world = refused()
    world.put("x", pods("t", 2, 2))
    world.turn()
    world.finish("x-1")
    assert started(world.turn()) == ["w"]


EDITS = {
    "a label": lambda world: change(world, "n0", labels={"x": "y"}),
    "more of something": lambda world: change(world, "n1", resources={GPU: 3}),
    "a new node": lambda world: world.do(PutNode(Node("n2", {GPU: 1}))),
    "another one goes": lambda world: world.do(DropNode("spare")),
    "its pool": lambda world: world.do(PutPool(Pool("team", gpu_quota(PLENTY - 1)))),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_it_is_retried_when_its_pool_or_a_usable_node_changes(edit: Callable[[Doubted], object]) -> None:
    world = refused(Doubted({"team": PLENTY}, {"n0": 2, "n1": 2, "spare": 1}))
    edit(world)
    world.same_from_rows_and_log()
    assert world.waiting() == (GangState.PENDING, 1, "")
    assert started(world.turn()) == ["w"]
    assert world.tasks() == {"t-0": (1, "INITIALIZING"), "t-1": (1, "INITIALIZING")}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_changes_while_its_pods_stop_count_too(edit: Callable[[Doubted], object]) -> None:
    world = Doubted({"team": PLENTY}, {"n0": 2, "n1": 2, "spare": 1})
    world.put("w", pods("t", 2, 2))
    world.turn()
    world.doubt("w")
    world.turn(linger=True)
    world.doubts.clear()
    edit(world)
    assert started(world.turn()) == ["w"]
    assert world.waiting() == (GangState.ADMITTED, 1, "")


@pytest.mark.parametrize(
    ("fields", "when"),
    [
        ({"resources": {GPU: 1}}, "before"),
        ({"resources": {GPU: 1}}, "with it"),
        ({"ready": False}, "before"),
        ({"ready": False}, "with it"),
        (None, "with it"),
    ],
)
def test_it_is_retried_immediately_if_its_nodes_are_no_longer_usable(fields: dict[str, Any] | None, when: str) -> None:
    """A foreign pod took the node: the node shrank, is not ready, or is gone, so there is nothing to wait for."""
    world = Doubted({"team": PLENTY}, {"n0": 2, "n1": 2, "n2": 2})
    world.put("w", pods("t", 2, 2))
    world.turn()
    assert sorted(str(each) for each in world.nodes_of().values()) == ["n0", "n1"]
    if when == "with it":
        world.doubt("w")
    if fields is None:
        world.do(DropNode("n1"))
    else:
        change(world, "n1", **fields)
    if when == "before":
        world.turn()
        world.doubt("w")
    world.turn()
    world.doubts.clear()
    world.turn()
    world.turn()
    assert sorted(str(each) for each in world.nodes_of().values()) == ["n0", "n2"]


def test_nodes_of_other_flavors_and_other_pools_do_not_count() -> None:
    nodes = {name: Node(name, {GPU: 2}, flavor=name[0], labels={"kind": name[0]}) for name in ("a0", "a1", "b0", "b1")}
    mine = Pool("team", {FlavorResource("a", GPU): Quota(8)}, flavors=("a",))
    world = Doubted({"team": mine, "other": 8}, nodes, flavors=KINDS)
    refused(world)
    change(world, "b0", resources={GPU: 7})
    world.do(PutNode(Node("b2", {GPU: 2}, flavor="b", labels={"kind": "b"})), DropNode("b1"))
    world.do(PutPool(Pool("other", gpu_quota(9))))
    assert started(world.turn()) == []
    assert world.waiting() == (GangState.PENDING, 1, SAID)
    change(world, "a1", flavor="b", labels={"kind": "b"})  # it could have used this node
    assert world.waiting() == (GangState.PENDING, 1, "")


def test_refusals_are_counted_and_the_last_message_is_kept() -> None:
    world = refused()
    change(world, "n0", labels={"x": "1"})
    assert started(world.turn()) == ["w"]
    world.doubt("w", "again")
    world.turn()
    world.turn()
    assert world.waiting() == (GangState.PENDING, 2, "again")
    assert world.state.groups["w-1", "g"].refusals == 2
    assert world.state.groups["w-1", "g"].preemptions == 0


def test_a_refused_gang_that_can_shrink_requests_its_full_size_again() -> None:
    world = refused(None, pods("t", 3, 2, least=1))
    assert {status for _, status in world.tasks().values()} == {"SCHEDULING"}
    assert len(world.tasks()) == 3
    world.do(PutNode(Node("n2", {GPU: 2})))
    assert started(world.turn()) == ["w"]
    assert len(world.nodes_of()) == 3


# ---------------------------------------------------------------- who else waits


def test_in_a_strict_pool_only_gangs_ahead_and_those_of_other_pools_start() -> None:
    strict = Pool("team", gpu_quota(PLENTY), queueing=STRICT)
    world = refused(two_nodes(team=strict, other=PLENTY))
    world.put("behind", pods("t", 2, 1))
    world.put("before", pods("t", 1, 1), priority=HIGH)
    world.put("elsewhere", pods("t", 1, 1), pool="other")
    assert sorted(started(world.turn())) == ["before", "elsewhere"]
    assert world.reasons("behind") == (Reason(Code.BEHIND_HEAD, "P4", where="team", holders=("w-1/g",)),)
    assert world.reasons() == (Reason(Code.KAI_NOT_PLACED, "T7", where=SAID),)


# ---------------------------------------------------------------- what else may happen to it


def test_why_shows_the_schedulers_message_and_when_it_is_retried() -> None:
    world = refused()
    assert world.reasons() == (Reason(Code.KAI_NOT_PLACED, "T7", where=SAID),)
    assert Code.KAI_NOT_PLACED.value == "KaiNotPlaced"
    sentence = str(world.reasons()[0])
    assert SAID in sentence
    assert "retried when its pool or a usable node changes" in sentence


def test_messages_with_braces_are_shown_unchanged() -> None:
    world = two_nodes()
    world.put("w", pods("t", 2, 2))
    world.turn()
    world.doubt("w", "didn't match {key: value} of {0}")
    world.turn()
    world.turn()
    assert "didn't match {key: value} of {0}" in str(world.reasons()[0])


def test_a_refusal_may_have_no_message() -> None:
    world = two_nodes()
    world.put("w", pods("t", 2, 2))
    world.turn()
    world.refuse("")
    assert world.waiting()[:2] == (GangState.PENDING, 1)
    assert started(world.turn()) == [], "it is tried again at once, for ever"


def test_its_queue_time_counts() -> None:
    world = refused(None, pods("t", 2, 2), queue_timeout_s=10)
    since = world.state.groups["w-1", "g"].queued_time
    assert since is not None
    world.now = since + 8
    world.turn()
    assert world.waiting() == (GangState.PENDING, 1, SAID)
    world.now = since + 9
    world.turn()
    assert ended_as(world) is Status.FAILED_QUEUE_TIMEOUT
    assert "w-1/g" not in world.state.ledger.entries


@pytest.mark.parametrize("stopping", [True, False])
def test_it_can_be_cancelled_while_it_stops_and_while_it_waits(stopping: bool) -> None:
    world = refused_and_lingering() if stopping else refused()
    world.now += 1
    before = len(world.log)
    world.cancel("w-1")
    assert len(world.log) > before
    world.turn()
    assert ended_as(world) is Status.FAILED_CANCELED
    assert world.state.ledger.entries == {}
    assert not any(isinstance(action, Queue) for action, _ in world.log[before:])


def test_a_task_that_had_completed_runs_again_with_its_gang() -> None:
    world = two_nodes()
    world.put("w", pods("t", 1, 1), pods("u", 1, 1))
    world.turn()
    world.facts[next(key for key in world.state.active if key.task == "u-0")] = TaskFact(Phase.ENDED, 0)
    world.turn()
    world.doubt("w")
    world.turn()
    world.turn()
    assert world.tasks() == {"t-0": (1, "SCHEDULING"), "u-0": (1, "SCHEDULING")}


AGAIN = (ExitRule(ExitAction.RESCHEDULE, 3001, 3001),)


def test_a_refusal_does_not_count_as_the_one_requeue_for_a_lost_node() -> None:
    world = refused(None, replace(pods("t", 2, 2), exit_rules=AGAIN), ignore=False)
    change(world, "n0", labels={"x": "1"})
    assert started(world.turn()) == ["w"]
    world.turn()
    world.do(DropNode("n1"))
    world.turn()
    world.turn()
    assert world.waiting() == (GangState.PENDING, 2, "")
    world.do(PutNode(Node("n1", {GPU: 2})))
    assert started(world.turn()) == ["w"]
    world.turn()
    world.do(DropNode("n1"))
    world.turn()
    world.turn()
    assert ended_as(world) is Status.FAILED, "that was the second time"


# ---------------------------------------------------------------- evicted by the cluster's scheduler (exit code 3006)


def throw_out(world: Doubted, name: str = "w", task: str = "t-0") -> None:
    key = next(key for key in world.state.active if (key.workflow, key.task) == (f"{name}-1", task))
    world.facts[key] = TaskFact(Phase.ENDED, 3006, EVICTED)


@pytest.mark.parametrize("task", ["t-0", "u-0"])
@pytest.mark.parametrize("ignore", [True, False])
def test_a_gang_with_an_evicted_pod_stops_completely_and_waits(task: str, ignore: bool) -> None:
    world = running(pods("t", 1, 1), pods("u", 2, 1), ignore=ignore)
    throw_out(world, task=task)
    assert [each for each in world.turn() if isinstance(each, Refuse)] == [
        Refuse("w-1/g", EVICTED, Status.FAILED_PREEMPTED)
    ]
    world.turn()
    assert world.waiting() == (GangState.PENDING, 1, EVICTED)
    ends = first_attempts(world, "t-0", "u-0", "u-1")
    assert {(each.status, each.exit_code) for each in ends} == {(Status.FAILED_PREEMPTED, 3006)}
    assert all(EVICTED in each.failure_message for each in ends)
    assert world.reasons() == (Reason(Code.KAI_NOT_PLACED, "T7", where=EVICTED),)
    assert started(world.turn()) == []
    change(world, "n0", labels={"x": "1"})
    assert started(world.turn()) == ["w"]


def test_an_evicted_gang_of_one_pod_waits_in_the_same_cycle() -> None:
    world = running(pods("t", 1, 1))
    throw_out(world)
    world.turn()
    assert world.waiting() == (GangState.PENDING, 1, EVICTED)


@pytest.mark.parametrize(
    ("action", "status"), [(ExitAction.FAIL, Status.FAILED_PREEMPTED), (ExitAction.COMPLETE, Status.COMPLETED)]
)
def test_rules_about_3006_apply_to_it(action: ExitAction, status: Status) -> None:
    """R6."""
    world = running(replace(pods("t", 2, 1), exit_rules=(ExitRule(action, 3006, 3006),)))
    throw_out(world)
    world.turn()
    world.turn()
    assert ended_as(world) is status
    assert world.state.ledger.entries == {}


# ---------------------------------------------------------------- evicted by its node, a drain or a taint


def evict(world: Doubted, code: int, name: str = "w", task: str = "t-0") -> list[Action]:
    """The cluster evicts the pod; what the next cycle does."""
    key = next(key for key in world.state.active if (key.workflow, key.task) == (f"{name}-1", task))
    world.facts[key] = TaskFact(Phase.ENDED, code, EVICTED, evicted=True)
    return world.turn()


@pytest.mark.parametrize("code", [3001, 3004])
@pytest.mark.parametrize("task", ["t-0", "u-0"])
def test_a_gang_with_a_pod_that_the_cluster_evicts_is_queued_again(code: int, task: str) -> None:
    world = running(pods("t", 1, 1), pods("u", 2, 1))
    assert Refuse("w-1/g", EVICTED, Status.FAILED_EVICTED) in evict(world, code, task=task)
    world.turn()
    assert world.waiting() == (GangState.PENDING, 1, EVICTED)
    ends = first_attempts(world, "t-0", "u-0", "u-1")
    assert {(each.status, each.exit_code, each.failure_message) for each in ends} == {
        (Status.FAILED_EVICTED, 3004, EVICTED)
    }
    assert started(world.turn()) == []
    change(world, "n0", labels={"x": "1"})
    assert started(world.turn()) == ["w"]


def test_a_gang_evicted_from_a_cordoned_node_starts_on_another_one() -> None:
    world = running(pods("t", 1, 2))
    change(world, str(world.nodes_of()["t-0"]), ready=False)
    evict(world, 3001)
    world.turn()
    assert (world.waiting(), world.nodes_of()) == ((GangState.ADMITTED, 1, ""), {"t-0": "n1"})


@pytest.mark.parametrize(
    ("action", "status"), [(ExitAction.FAIL, Status.FAILED), (ExitAction.COMPLETE, Status.COMPLETED)]
)
def test_rules_about_its_code_apply_to_an_evicted_task(action: ExitAction, status: Status) -> None:
    world = running(replace(pods("t", 1, 1), exit_rules=(ExitRule(action, 3001, 3001),)))
    evict(world, 3001)
    assert (ended_as(world), world.state.ledger.entries) == (status, {})


def test_an_evicted_task_restarts_by_its_rules_and_is_queued_again_when_its_retries_are_used_up() -> None:
    world = running(replace(pods("t", 1, 1), exit_rules=(ExitRule(ExitAction.RESCHEDULE, 3004, 3004),), retries=1))
    evict(world, 3004)
    assert world.tasks() == {"t-0": (1, "INITIALIZING")}
    world.turn()
    evict(world, 3004)
    assert world.waiting() == (GangState.PENDING, 1, EVICTED)


def test_a_gang_that_fits_nowhere_else_is_queued_again_each_time_it_is_drained() -> None:
    """Without an eviction, this happens once (T1)."""
    world = Doubted({"team": PLENTY}, {"n0": 2})
    world.put("w", replace(pods("t", 1, 2), exit_rules=(ExitRule(ExitAction.RESCHEDULE, 3001, 3001),)))
    world.turn()
    for attempt in range(1, 4):
        world.turn()
        change(world, "n0", ready=False)
        evict(world, 3001)
        world.turn()
        assert world.waiting() == (GangState.PENDING, attempt, "")
        change(world, "n0", ready=True)
        world.turn()
        assert world.waiting() == (GangState.ADMITTED, attempt, "")


def test_a_gang_preempted_by_runrig_is_not_refused() -> None:
    world = two_nodes(team=4)
    world.put("low", pods("t", 2, 2), priority=LOW)
    world.turn()
    world.turn()
    world.put("high", pods("t", 2, 2), priority=HIGH)
    world.turn(linger=True)
    throw_out(world, "low")
    world.turn()
    world.turn()
    assert world.waiting("low") == (GangState.PENDING, 1, "")
    assert not any(isinstance(action, Refuse) for action, _ in world.log)


# ---------------------------------------------------------------- tried again after a time


def test_after_a_delay_that_doubles_it_is_retried_even_without_changes() -> None:
    """T7: the obstacle may have disappeared without a report, such as a quota of the scheduler."""
    world = refused()
    waited = []
    for _ in range(6):
        since = world.state.groups["w-1", "g"].queued_time
        assert since is not None
        due = world.state.deadlines[0].at
        assert workflows.next_deadline(world.state) == due
        world.now = due - 1.5
        assert (world.turn(), world.waiting()[2]) == ([], SAID)
        assert started(world.turn()) == ["w"]
        waited.append(world.now - since)
        world.refuse()
    assert [round(seconds, -1) for seconds in waited] == [300, 600, 1200, 2400, 3600, 3600]


def test_its_queue_timeout_continues() -> None:
    world = refused(queue_timeout_s=450)
    world.now += 300
    assert TryAgain("w-1/g") in world.turn()
    world.refuse()
    world.now += 450
    world.turn()
    assert world.state.groups.get(("w-1", "g")) is None
    assert ended_as(world) is Status.FAILED_QUEUE_TIMEOUT


def test_a_gang_that_is_no_longer_refused_is_left_alone() -> None:
    """A node has changed, and now it waits for room like any other gang."""
    world = refused()
    change(world, "n0", resources={GPU: 0})
    world.turn()
    assert world.waiting()[::2] == (GangState.PENDING, "")
    world.now += 4000
    assert world.turn() == []
