"""Effects of edits, on worlds small enough to work out by hand."""

from dataclasses import replace

from runrig.domain import value
from runrig.domain.gangs import Law
from runrig.domain.nodes import Node
from runrig.domain.plan import PutNode, PutPool
from runrig.domain.pools import PoolState
from runrig.domain.shown.plans import Plan, PlanDrain, PlanStart
from runrig.domain.workflows import ExitAction, ExitCode, ExitRule
from runrig.engine.foresight.branch import Budget, Edit, StateBranch
from runrig.engine.foresight.consequences import concerns_nodes, consequences
from runrig.engine.foresight.outcome import Outcome
from runrig.engine.lifecycle import pools
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, World, gpu_quota, task, workflow


def is_empty(found: Plan) -> bool:
    return found == Plan(found.revision, found.rests, found.cycles)


def outcome_of(world: World, edit: Edit, *, nodes: bool = False, budget: Budget | None = None) -> Outcome:
    branch = StateBranch(State.load(world.state.rows(), fixed_nodes=True), edit, world.now, budget or Budget())
    for _ in branch.run():
        pass
    return branch.outcome(nodes=nodes)


def plan(world: World, edit: Edit, budget: Budget | None = None) -> Plan:
    nodes = concerns_nodes(edit)
    before = world.state.rows()
    without = outcome_of(world, Edit(), nodes=nodes, budget=budget)
    found = consequences(without, outcome_of(world, edit, nodes=nodes, budget=budget))
    assert world.state.rows() == before
    return found


def quota(world: World, pool: str, gpus: int) -> Edit:
    resized = replace(world.state.pools[pool], quotas=gpu_quota(gpus))
    return Edit(pools.put_pool(world.state, resized, create=False).actions)


def drain(world: World, *names: str) -> Edit:
    cordoned = (PutNode(replace(world.state.nodes[name], ready=False)) for name in names)
    return Edit(tuple(cordoned), lost=frozenset(names))


def test_a_plan_without_an_edit_is_empty_even_if_much_is_about_to_happen() -> None:
    world = World({"a": 2, "b": 2}, {"n": 4})
    world.submit("low", "a", LOW, 4)
    world.cycle()
    world.submit("wants", "b", gpus=2)
    world.submit("next", "a", gpus=2)
    assert is_empty(plan(world, Edit()))


def test_a_larger_quota_starts_waiting_gangs() -> None:
    world = World({"a": 2, "b": 6}, {"n": 8})
    world.submit("one", "a", gpus=2)
    world.submit("two", "a", gpus=2)
    world.cycle()
    found = plan(world, quota(world, "a", 4))
    assert list(found.starts) == [PlanStart("two-1/t-group", "a", "NORMAL", 2, ("n",))]
    (row,) = found.pools
    assert (row.pool, row.before.quota, row.after.quota) == ("a", 2, 4)
    assert (row.before.used, row.after.used, row.before.available, row.after.available) == (2, 4, 0, 0)
    assert (row.before.waiting, row.after.waiting) == (1, 0)
    assert found.rests
    assert is_empty(replace(found, starts=(), pools=()))


def test_a_reclaim_is_listed_with_preemptor_and_rule() -> None:
    world = World({"a": 2, "b": 2}, {"n": 4})
    world.submit("low", "a", LOW, 4)
    world.cycle()
    world.submit("big", "b", gpus=2)
    world.do(*quota(world, "b", 0).actions)
    world.cycle()
    found = plan(world, quota(world, "b", 2))
    (stops,) = found.preempted
    assert (stops.gang, stops.by, stops.law, stops.again) == ("low-1/t-group", "big-1/t-group", Law.RECLAIM, False)
    assert [each.gang for each in found.starts] == ["big-1/t-group"]


def test_a_smaller_quota_exposes_low_work_and_dooms_larger_gangs() -> None:
    world = World({"a": 4, "b": 4}, {"n": 4, "m": 4})
    world.submit("low", "a", LOW, 3)
    world.submit("firm", "b", gpus=4)
    world.cycle()
    world.submit("large", "a", gpus=4)
    world.do(PutPool(replace(world.state.pools["b"], quotas=gpu_quota(4))))
    world.cycle()
    world.submit("large2", "a", gpus=4)
    world.cycle()
    found = plan(world, quota(world, "a", 2))
    (never,) = found.never
    assert (never.gang, never.pool, never.priority, never.gpus) == ("large2-1/t-group", "a", "NORMAL", 4)
    assert "pool a has a quota of 2 GPUs" in never.why


def test_low_work_loses_its_protection_if_the_quota_falls_below_the_usage() -> None:
    world = World({"a": 4, "b": 4}, {"n": 8})
    world.submit("low", "a", LOW, 3)
    world.submit("safe", "b", LOW, 3)
    world.cycle()
    (found,) = plan(world, quota(world, "a", 2)).exposed
    assert (found.pool, found.resource, found.held, found.nominal) == ("a", "default/gpu", 3, 2)
    assert [each.gang for each in found.gangs] == ["low-1/t-group"]


def test_a_deleted_pool_drains_by_its_last_time_limit_and_cancels_waiting_work() -> None:
    world = World({"a": 2, "b": 2}, {"n": 4})
    limited = replace(workflow("runs", task("t", 2)), exec_timeout_s=50.0)
    world.submit("runs", "a", spec=limited)
    world.cycle()
    world.cycle()
    world.submit("waits", "a", gpus=2)
    started = world.state.groups["runs-1", "t-group"].start_time
    assert started is not None
    found = plan(world, Edit(pools.delete_pool(world.state, "a").actions))
    assert found.drains == (PlanDrain("a", 1, 2, value.at(started + 50)),)
    assert [each.gang for each in found.cancels] == ["waits-1/t-group"]
    assert (found.pools[0].after.state, found.waits, found.loses) == (PoolState.DELETING, (), ())


def test_without_a_time_limit_the_end_of_a_drain_is_unknown() -> None:
    world = World({"a": 2}, {"n": 4})
    world.submit("runs", "a", gpus=2)
    world.cycle()
    assert plan(world, Edit(pools.delete_pool(world.state, "a").actions)).drains == (PlanDrain("a", 1, 2, None),)


def test_work_on_a_drained_node_moves_is_requeued_or_fails_by_its_rules() -> None:
    again = (ExitRule(ExitAction.RESCHEDULE, ExitCode.BACKEND_ERROR, ExitCode.BACKEND_ERROR),)
    world = World({"a": 8}, {"n": 4, "m": 2})
    world.submit("moves", "a", spec=workflow("moves", task("t", 2, exit_rules=again)))
    world.submit("waits", "a", spec=workflow("waits", task("t", 2, exit_rules=again)))
    world.cycle()
    world.submit("fails", "a", spec=workflow("fails", task("t", 2)))
    world.cycle()
    world.cycle()
    on = {each.workflow: each.node for each in world.state.tasks.records.values()}
    assert set(on.values()) == {"n", "m"}
    found = plan(world, drain(world, "n"))
    told = {each.gang: each.then for each in found.loses} | {each.gang: "moved" for each in found.moves}
    expected = {"moves-1/t-group": "queued", "waits-1/t-group": "queued", "fails-1/t-group": "FAILED"}
    assert told == {gang: how for gang, how in expected.items() if on[gang.partition("/")[0]] == "n"}


def test_a_pod_of_a_drained_node_moves_to_free_capacity() -> None:
    again = (ExitRule(ExitAction.RESCHEDULE, ExitCode.BACKEND_ERROR, ExitCode.BACKEND_ERROR),)
    world = World({"a": 8}, {"n": 2, "m": 2})
    world.submit("moves", "a", spec=workflow("moves", task("t", 2, exit_rules=again)))
    world.cycle()
    world.cycle()
    (node,) = {each.node for each in world.state.tasks.records.values()}
    assert node is not None
    found = plan(world, drain(world, node))
    assert [each.gang for each in found.moves] == ["moves-1/t-group"]
    assert is_empty(replace(found, moves=(), pools=()))


def test_gangs_that_no_longer_fit_on_any_node_can_never_start() -> None:
    world = World({"a": 8, "b": 8}, {"n": Node("n", {"gpu": 8}), "m": Node("m", {"gpu": 4})})
    world.submit("first", "a", gpus=8)
    world.cycle()
    world.submit("later", "b", gpus=8)
    world.cycle()
    found = plan(world, Edit((PutNode(Node("n", {"gpu": 4})),)))
    assert [each.gang for each in found.never] == ["later-1/t-group"]
    assert "even on empty nodes" in found.never[0].why


def test_gangs_that_no_longer_start_next_are_listed() -> None:
    world = World({"a": 2}, {"n": 4})
    world.submit("next", "a", gpus=2)
    found = plan(world, quota(world, "a", 1))
    assert [each.gang for each in found.waits] == ["next-1/t-group"]
    assert found.starts == ()


def test_reaching_the_limit_is_reported() -> None:
    world = World({"a": 1}, {"n": 8})
    for at in range(8):
        world.submit(f"w{at}", "a")
    world.cycle()
    world.cycle()
    found = plan(world, quota(world, "a", 8), Budget(cycles=1))
    assert (found.rests, found.cycles, len(found.starts)) == (False, 1, 7)
    assert plan(world, quota(world, "a", 8)).rests
    assert not plan(world, quota(world, "a", 8), Budget(steps=1)).rests
