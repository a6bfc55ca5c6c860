"""The life of pools and cohorts: allowed and forbidden changes, and their effects on work (subpools.md; Q5-Q7, R7,
S1-S6).
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused, RunrigError
from runrig.domain.nodes import NO_FLAVOR, Flavor, Node
from runrig.domain.plan import DropCohort, Plan, PutCohort, PutNode, PutPool, SetFlavors
from runrig.domain.pools import TRANSITIONS, Cohort, Pool, PoolEvent, PoolState, Queueing, Quota, TopologyKey
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status
from runrig.engine.explain.report import gpu_holders, pool_balance
from runrig.engine.lifecycle import pools
from tests.worlds.engine import GPUS, LOW, NORMAL, World, gpu_quota, pools_put, subpool, task, workflow

ACTIVE, DELETING, ARCHIVED = PoolState.ACTIVE, PoolState.DELETING, PoolState.ARCHIVED


def team(gpus: int = 10, **subpools: int) -> World:
    slices = {f"team--{short}": subpool("team", short, part) for short, part in subpools.items()}
    return World({"team": gpus, **slices}, {"n0": 16})


def refused(
    world: World, kind: type[RunrigError], plan_of: Callable[..., Plan], *args: object, **options: object
) -> str:
    """The message of the error; nothing has changed."""
    before = world.state.rows()
    with pytest.raises(kind) as caught:
        plan_of(world.state, *args, **options)
    assert world.state.rows() == before
    return str(caught.value)


# ---------------------------------------------------------------- states


@pytest.mark.parametrize("event", PoolEvent)
@pytest.mark.parametrize("state", PoolState)
def test_every_state_accepts_exactly_the_events_of_the_table(state: PoolState, event: PoolEvent) -> None:
    legal = {
        (ACTIVE, PoolEvent.RESIZE): ACTIVE,
        (ACTIVE, PoolEvent.DELETE_IDLE): ARCHIVED,
        (ACTIVE, PoolEvent.DELETE_BUSY): DELETING,
        (DELETING, PoolEvent.DRAINED): ARCHIVED,
        (ARCHIVED, PoolEvent.CREATE): ACTIVE,
    }
    assert TRANSITIONS.get((state, event)) is legal.get((state, event))


def attempts(world: World, name: str) -> dict[str, str]:
    """The results of creating, resizing and deleting the pool: its next state or the kind of error."""
    pool = world.state.pools[name]
    commands: dict[str, Callable[[], Plan]] = {
        "create": lambda: pools.put_pool(world.state, pool, create=True),
        "resize": lambda: pools.put_pool(world.state, replace(pool, quotas=gpu_quota(1)), create=False),
        "delete": lambda: pools.delete_pool(world.state, name),
    }
    found: dict[str, str] = {}
    for command, plan_of in commands.items():
        try:
            (*_, last) = pools_put(plan_of().actions)
            found[command] = last.state.value
        except RunrigError as error:
            found[command] = type(error).__name__
    return found


@pytest.mark.parametrize(
    ("state", "outcomes"),
    [
        (ACTIVE, {"create": "Conflict", "resize": "ACTIVE", "delete": "ARCHIVED"}),
        (DELETING, {"create": "Conflict", "resize": "Conflict", "delete": "Conflict"}),
        (ARCHIVED, {"create": "ACTIVE", "resize": "Conflict", "delete": "Conflict"}),
    ],
)
@pytest.mark.parametrize("name", ["solo", "team--a"])
def test_commands_on_pools_in_each_state(name: str, state: PoolState, outcomes: dict[str, str]) -> None:
    world = World({"solo": 4, "team": 4, "team--a": subpool("team", "a", 2)}, {"n0": 8})
    world.do(PutPool(replace(world.state.pools[name], state=state), world.state.pools[name]))
    assert attempts(world, name) == outcomes


def test_a_plan_contains_the_previous_values() -> None:
    """S6."""
    world = team(a=4)
    before = world.state.pools["team--a"]
    assert pools.put_pool(world.state, replace(before, quotas=gpu_quota(5)), create=False) == Plan(
        (PutPool(replace(before, quotas=gpu_quota(5)), before),)
    )
    assert pools.delete_pool(world.state, "team--a") == Plan((PutPool(replace(before, state=ARCHIVED), before),))


# ---------------------------------------------------------------- deleting


def test_an_idle_subpool_is_archived_immediately_and_returns_its_quota() -> None:
    world = team(a=4)
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    assert world.state.pools["team--a"].state is ARCHIVED
    assert pool_balance(world.state, "team").unallocated == 10


def test_a_busy_subpool_keeps_its_quota_until_its_last_work_ends() -> None:
    """S3."""
    world = team(a=4)
    world.submit("w", "team--a", NORMAL, spec=workflow("w", task("x", 2), task("y", 2), upstream={"y": ("x",)}))
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    going = pool_balance(world.state, "team--a")
    assert (going.quota, going.used, going.available, going.held) == (0, 2, -2, 4)
    assert pool_balance(world.state, "team").unallocated == 6
    world.finish("w-1")
    assert world.cycle() == ["admit w"], "a later group of what has started goes on"
    world.finish("w-1")
    world.cycle()
    assert world.state.workflows["w-1"].status is WorkflowStatus.COMPLETED
    assert world.state.pools["team--a"].state is ARCHIVED
    assert pool_balance(world.state, "team").unallocated == 10


def test_a_preempted_workflow_of_a_deleting_pool_is_requeued_there() -> None:
    """S3."""
    world = World({"a": 2, "b": 1}, {"n0": 2})
    world.submit("low", "b", LOW, 2)
    world.cycle()
    world.do(*pools.delete_pool(world.state, "b").actions)
    world.submit("in", "a", NORMAL, 2)
    assert world.cycle() == ["nominate in", "preempt low for in (RECLAIM)"]
    assert world.cycle() == ["admit in"]
    assert world.state.pools["b"].state is DELETING
    world.finish("in-1")
    assert world.cycle() == ["admit low"]
    world.finish("low-1")
    world.cycle()
    assert world.state.pools["b"].state is ARCHIVED


def test_deleting_cancels_work_that_never_started_and_informs_its_owner() -> None:
    """S3."""
    world = team(a=4)
    for name in ("runs", "waits", "later"):
        world.submit(name, "team--a", NORMAL, 3)
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    waits = world.state.workflows["waits-1"]
    assert (waits.status, waits.failure_message) == (
        WorkflowStatus.FAILED_CANCELED,
        "cancelled by runrig: pool team--a was deleted before it started",
    )
    assert world.state.pools["team--a"].state is DELETING
    assert world.running() == {"runs-1"}


def test_a_nominated_workflow_has_not_started() -> None:
    world = World({"a": 1, "b": 1}, {"n0": 2})
    world.submit("low", "b", LOW, 2)
    world.cycle()
    world.submit("w", "a", NORMAL)
    assert world.cycle() == ["nominate w", "preempt low for w (RECLAIM)"]
    world.do(*pools.delete_pool(world.state, "a").actions)
    assert world.state.pools["a"].state is ARCHIVED
    assert world.status("w-1") == [Status.FAILED_CANCELED]
    assert world.cycle() == ["admit low"]


def test_a_pool_cannot_be_deleted_before_its_subpools() -> None:
    world = team(a=4, b=4)
    assert (
        refused(world, Conflict, pools.delete_pool, "team")
        == "pool team has subpools (team--a, team--b): delete them first"
    )
    for short in "ab":
        world.do(*pools.delete_pool(world.state, f"team--{short}").actions)
    world.do(*pools.delete_pool(world.state, "team").actions)
    assert world.state.pools["team"].state is ARCHIVED


def test_an_archived_name_is_reused_with_the_new_settings() -> None:
    world = team(a=4)
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    world.do(*pools.put_pool(world.state, subpool("team", "a", 7), create=True).actions)
    assert world.state.pools["team--a"] == subpool("team", "a", 7)
    world.submit("w", "team--a", NORMAL, 7)
    assert world.cycle() == ["admit w"]


@pytest.mark.parametrize("state", [DELETING, ARCHIVED])
def test_a_parent_that_is_being_deleted_accepts_no_subpools(state: PoolState) -> None:
    world = team()
    world.do(PutPool(replace(world.state.pools["team"], state=state), world.state.pools["team"]))
    message = refused(world, Conflict, pools.put_pool, subpool("team", "a", 1), create=True)
    assert message.startswith(f"pool team is {state.value}")


# ---------------------------------------------------------------- promises


def test_subpools_together_have_at_most_their_parents_quota() -> None:
    """S1."""
    world = team(a=4, b=4)
    refused(world, Refused, pools.put_pool, subpool("team", "c", 3), create=True)
    refused(world, Refused, pools.put_pool, subpool("team", "a", 7), create=False)
    refused(world, Refused, pools.put_pool, Pool("team", gpu_quota(7)), create=False)
    pools.put_pool(world.state, subpool("team", "c", 2), create=True)
    pools.put_pool(world.state, Pool("team", gpu_quota(8)), create=False)


def test_quota_in_use_by_a_deleting_subpool_is_not_given_away() -> None:
    """S1."""
    world = team(a=8)
    world.submit("w", "team--a", NORMAL, 1)
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    refused(world, Refused, pools.put_pool, subpool("team", "b", 3), create=True)
    world.finish("w-1")
    world.cycle()
    pools.put_pool(world.state, subpool("team", "b", 10), create=True)


def test_no_change_of_a_pool_stops_running_work() -> None:
    """R7, S2: available is negative until it has drained."""
    world = team()
    world.submit("w", "team", NORMAL, 8)
    world.cycle()
    world.do(*pools.put_pool(world.state, subpool("team", "a", 6), create=True).actions)
    assert world.cycle() == []
    balance = pool_balance(world.state, "team")
    assert (balance.unallocated, balance.used, balance.available) == (4, 8, -4)
    world.do(*pools.put_pool(world.state, Pool("team", gpu_quota(6)), create=False).actions)
    assert world.cycle() == []
    assert world.running() == {"w-1"}


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        (Pool("a--b"), "contains '--'"),
        (Pool("_a"), "starts with '_'"),
        (Pool("Big"), "must be lower-case letters"),
        (Pool("a" * 64), "maximum 63"),
        (Pool("a", cohort="x--y"), "cohort name 'x--y' contains '--'"),
        (Pool("team--a", parent="team", subpool_name="b"), "must be called team--b"),
        (Pool("a", flavors=("h100",)), "unknown flavor 'h100' (flavors: default)"),
        (Pool("a", default_platform="h100"), "default_platform 'h100' is not a flavor of the pool"),
        (Pool("a", {FlavorResource("h100", GPU): Quota(1)}), "unknown flavor 'h100'"),
        (Pool("a", gpu_quota(-1)), "nominal -1 of default/gpu is out of range"),
        (Pool("a", gpu_quota(1, borrowing=-1)), "borrowing_limit -1"),
        (Pool("a", gpu_quota(1, lending=2**63)), "lending_limit 9223372036854775808"),
        (Pool("a", topology_keys=(TopologyKey("rack", "x"), TopologyKey("rack", "y"))), "must be unique"),
    ],
)
def test_an_invalid_pool_is_rejected_with_the_problem(pool: Pool, problem: str) -> None:
    assert problem in refused(team(), InvalidInput, pools.put_pool, pool, create=True)


def test_topology_keys_need_a_backend_with_topology() -> None:
    """T6."""
    world = team()
    world.state.topology = False
    keyed = Pool("a", topology_keys=(TopologyKey("rack", "r"),))
    assert "does not support topology" in refused(world, InvalidInput, pools.put_pool, keyed, create=True)


@pytest.mark.parametrize("weight", [0, -1, 1_000_001])
def test_an_invalid_weight_is_rejected(weight: int) -> None:
    """Q2: for pools and cohorts."""
    problem = f"weight {weight} is out of range: use a whole number from 1 to 1000000"
    world = World({"a": 1}, {"n0": 1}, (Cohort("c"),))
    assert problem in refused(world, InvalidInput, pools.put_pool, Pool("a", gpu_quota(1), weight=weight), create=False)
    assert problem in refused(world, InvalidInput, pools.put_cohort, Cohort("c", weight=weight), create=False)


def test_updates_of_unknown_pools_and_subpools_of_unknown_parents_are_not_found() -> None:
    world = team()
    assert "unknown pool 'x'" in refused(world, NotFound, pools.put_pool, Pool("x"), create=False)
    assert "unknown pool 'x'" in refused(world, NotFound, pools.delete_pool, "x")
    assert "unknown pool 'x', so it cannot have a subpool" in refused(
        world, NotFound, pools.put_pool, subpool("x", "a", 1), create=True
    )


# ---------------------------------------------------------------- cohorts


def test_cohorts_are_created_changed_and_deleted_if_they_have_no_children() -> None:
    world = World({"p": Pool("p", gpu_quota(1), cohort="k")}, {"n0": 4}, (Cohort("inner", "outer"),))
    assert pools.put_cohort(world.state, Cohort("k"), create=True) == Plan((PutCohort(Cohort("k"), None),))
    assert "already exists" in refused(world, Conflict, pools.put_cohort, Cohort("inner"), create=True)
    assert "cohort 'k' not found" in refused(world, NotFound, pools.put_cohort, Cohort("k"), create=False)
    world.do(*pools.put_cohort(world.state, Cohort("k", "inner"), create=True).actions)
    assert refused(world, Conflict, pools.delete_cohort, "inner").startswith("cohort inner has children: k.")
    assert refused(world, Conflict, pools.delete_cohort, "k").startswith("cohort k has children: p.")
    assert "cohort 'outer' is not declared" in refused(world, NotFound, pools.delete_cohort, "outer")
    world.do(*pools.delete_pool(world.state, "p").actions)
    assert pools.delete_cohort(world.state, "k") == Plan((DropCohort(Cohort("k", "inner")),))


def test_an_existing_cycle_blocks_admissions_in_its_tree_only() -> None:
    """Q5."""
    world = World(
        {"p": Pool("p", gpu_quota(2), cohort="x"), "q": Pool("q", gpu_quota(2), cohort="z")}, {"n0": 8}, (Cohort("x"),)
    )
    world.submit("runs", "p", NORMAL)
    world.cycle()
    world.do(PutCohort(Cohort("x", "y")), PutCohort(Cohort("y", "x")))
    world.submit("w1", "p", NORMAL)
    world.submit("w2", "p", LOW)
    world.submit("w3", "q", NORMAL)
    assert world.cycle() == ["admit w3"]
    assert world.running() == {"runs-1", "w3-1"}
    world.do(PutCohort(Cohort("y")))
    assert world.cycle() == ["admit w1", "admit w2"]


# ---------------------------------------------------------------- a whole file


def declared(world: World, cluster: ClusterSpec, *prune: str) -> Plan:
    plan = pools.declare(world.state, cluster, prune=prune)
    world.do(*plan.actions)
    return plan


def test_applying_a_file_twice_changes_nothing_the_second_time() -> None:
    world = World({}, {"n0": 4})
    cluster = ClusterSpec(
        cohorts=(Cohort("k"),), pools=(Pool("team", gpu_quota(4), cohort="k"), subpool("team", "a", 2))
    )
    assert declared(world, cluster) == Plan(
        (
            PutCohort(Cohort("k")),
            PutPool(Pool("team", gpu_quota(4), cohort="k")),
            PutPool(replace(subpool("team", "a", 2), cohort="k")),
        )
    )
    assert declared(world, cluster) == Plan()


def test_objects_that_are_not_in_the_file_stay_unless_pruned() -> None:
    world = team(a=4)
    world.do(PutCohort(Cohort("k")))
    assert declared(world, ClusterSpec()) == Plan()
    plan = declared(world, ClusterSpec(), "pool/team", "pool/team--a", "cohort/k", "pool/gone")
    assert [(each.name, each.state) for each in pools_put(plan.actions[:-1])] == [
        ("team--a", ARCHIVED),
        ("team", ARCHIVED),
    ]
    assert plan.actions[-1] == DropCohort(Cohort("k"))


def test_a_parent_is_not_pruned_while_one_of_its_subpools_drains() -> None:
    world = team(a=4)
    world.submit("w", "team--a", NORMAL)
    world.cycle()
    message = refused(world, Conflict, pools.declare, ClusterSpec(), prune=("pool/team", "pool/team--a"))
    assert message == "pool team has subpools (team--a): delete them first"


def test_each_change_of_a_pool_in_a_plan_says_what_it_was_after_the_change_before() -> None:
    """S6: a subpool that is pruned while work runs there follows its parent all the same."""
    world = team(a=4)
    world.submit("w", "team--a", NORMAL)
    world.cycle()
    plan = declared(world, ClusterSpec(pools=(Pool("team", gpu_quota(10), grace_s=5.0),)), "pool/team--a")
    changes = [each for each in plan.actions if isinstance(each, PutPool) and each.pool.name == "team--a"]
    assert [(each.pool.state, each.pool.grace_s) for each in changes] == [(DELETING, 30.0), (DELETING, 5.0)]
    assert changes[1].before == changes[0].pool


def test_a_pruned_idle_subpool_makes_room_for_its_replacement() -> None:
    """S1."""
    world = team(a=8)
    cluster = ClusterSpec(pools=(Pool("team", gpu_quota(10)), subpool("team", "b", 8)))
    declared(world, cluster, "pool/team--a")
    assert {name: pool.state for name, pool in world.state.pools.items()} == {
        "team": ACTIVE,
        "team--a": ARCHIVED,
        "team--b": ACTIVE,
    }


def test_a_file_is_checked_and_rejected_as_a_whole() -> None:
    """Q7, S1: growing one subpool and shrinking another is judged by the result."""
    world = team(a=6, b=4)
    swapped = (Pool("team", gpu_quota(10)), subpool("team", "a", 4), subpool("team", "b", 6))
    declared(world, ClusterSpec(pools=swapped))
    too_much = (Pool("new", gpu_quota(1)), subpool("team", "b", 7))
    refused(world, Refused, pools.declare, ClusterSpec(pools=too_much))
    circle = ClusterSpec(cohorts=(Cohort("x", "y"), Cohort("y", "x")))
    refused(world, Refused, pools.declare, circle)
    nobody = ClusterSpec(pools=(subpool("nobody", "a", 1),))
    refused(world, NotFound, pools.declare, nobody)


def test_a_file_restores_an_archived_pool_and_ignores_a_deleting_one_without_changes() -> None:
    world = team(a=4, b=4)
    world.submit("w", "team--a", NORMAL)
    world.cycle()
    for short in "ab":
        world.do(*pools.delete_pool(world.state, f"team--{short}").actions)
    same = (Pool("team", gpu_quota(10)), subpool("team", "a", 4), subpool("team", "b", 4))
    assert declared(world, ClusterSpec(pools=same)) == Plan(
        (PutPool(subpool("team", "b", 4), subpool("team", "b", 4, state=ARCHIVED)),)
    )
    resized = (Pool("team", gpu_quota(10)), subpool("team", "a", 5))
    assert "DELETING" in refused(world, Conflict, pools.declare, ClusterSpec(pools=resized))


def test_new_flavors_reassign_the_nodes_and_a_flavor_in_use_stays() -> None:
    world = World({"a": Pool("a", gpu_quota(4))}, {"n0": Node("n0", {GPU: 4}, labels={"gpu": "h100"})})
    h100 = Flavor("h100", {"gpu": "h100"})
    both = (h100, Flavor("default", position=1))
    refused(world, Refused, pools.declare, ClusterSpec(flavors=(h100,)))
    assert declared(world, ClusterSpec(flavors=both)).actions == (
        SetFlavors(both),
        PutNode(Node("n0", {GPU: 4}, "h100", {"gpu": "h100"})),
    )


def test_a_node_that_matches_none_of_the_new_flavors_has_none() -> None:
    world = World({}, {"n0": Node("n0", {GPU: 4})})
    a100 = (Flavor("default", {"gpu": "a100"}),)
    assert declared(world, ClusterSpec(flavors=a100)).actions == (
        SetFlavors(a100),
        PutNode(Node("n0", {GPU: 4}, NO_FLAVOR)),
    )


def test_equivalent_queue_forms_are_kept_on_a_resize() -> None:
    world = World({"a": Pool("a", gpu_quota(4), queueing=Queueing.STRICT_FIFO)}, {"n0": 4})
    plan = pools.put_pool(world.state, replace(world.state.pools["a"], quotas={GPUS: Quota(5)}), create=False)
    assert [each.queueing for each in pools_put(plan.actions)] == [Queueing.STRICT_FIFO]


def test_gpu_users_are_known_even_if_the_node_has_lost_gpus() -> None:
    """A device has failed, or another program uses the task's GPU."""
    world = World({"a": 4}, {"n0": 4})
    world.submit("w", "a", gpus=3)
    world.cycle()
    told = []
    for gpus in (4, 2, 0):
        world.do(PutNode(Node("n0", {GPU: gpus})))
        state = world.state
        told.append(gpu_holders((state.tasks[key] for key in state.active), [state.nodes["n0"]])["n0"])
    mine = ("w-1", "t")
    assert told == [[mine, mine, mine, None], [mine, mine], []]
