"""Subpools: settings that they inherit, their share of the parent's quota, and draining (subpools.md; rules R7, S1-S5)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused, RunrigError
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Plan
from runrig.domain.pools import Cohort, Pool, PoolState, Queueing, Quota, Quotas, TopologyKey, gpus_of, share_of
from runrig.domain.quantities import CPU, GPU, MEMORY, FlavorResource
from runrig.domain.workflows import ExitAction, ExitRule
from runrig.engine.lifecycle import pools, submission_gate
from tests.worlds.engine import GPUS, LOW, NORMAL, World, gpu_quota, pools_put, subpool, task, workflow

ACTIVE, DELETING, ARCHIVED = PoolState.ACTIVE, PoolState.DELETING, PoolState.ARCHIVED
CPUS = FlavorResource("default", CPU)


def make(world: World, pool: Pool) -> None:
    before = world.state.pools.get(pool.name)
    world.do(*pools.put_pool(world.state, pool, create=before is None or before.state is ARCHIVED).actions)


def team(quota: int | Pool = 10, **subpools: int) -> World:
    world = World({"team": quota}, {"n0": 16})
    for short, gpus in subpools.items():
        make(world, subpool("team", short, gpus))
    return world


def refusal(world: World, pool: Pool, *, create: bool = True) -> RunrigError:
    """The error; nothing has changed."""
    before = world.state.rows()
    with pytest.raises(RunrigError) as caught:
        pools.put_pool(world.state, pool, create=create)
    assert world.state.rows() == before
    return caught.value


# ---------------------------------------------------------------- inherited from the parent


def test_a_subpool_inherits_everything_except_name_quota_and_state() -> None:
    """S5."""
    parent = Pool(
        "team",
        gpu_quota(10, borrowing=3, lending=2),
        cohort="research",
        weight=3,
        queueing=Queueing.STRICT_FIFO,
        grace_s=5.0,
        flavors=("default",),
        topology_keys=(TopologyKey("rack", "r"),),
        default_platform="default",
        default_exit_actions=(("RESCHEDULE", 137, 143),),
        description="all of us",
    )
    world = team(parent, a=4)
    assert world.state.pools["team--a"] == replace(
        parent, name="team--a", parent="team", subpool_name="a", quotas={GPUS: Quota(4)}
    )


def test_changes_of_the_parent_apply_to_its_subpools_in_every_live_state() -> None:
    """S5: no subpool keeps what its parent no longer has."""
    world = team(10, a=4, b=2, c=1)
    world.submit("w", "team--b", NORMAL)
    world.cycle()
    for short in "bc":
        world.do(*pools.delete_pool(world.state, f"team--{short}").actions)
    plan = pools.put_pool(
        world.state, Pool("team", gpu_quota(12), queueing=Queueing.STRICT_FIFO, grace_s=1.0), create=False
    )
    assert [(each.name, each.state, each.grace_s) for each in pools_put(plan.actions)] == [
        ("team", ACTIVE, 1.0),
        ("team--a", ACTIVE, 1.0),
        ("team--b", DELETING, 1.0),
    ]
    world.do(*plan.actions)
    make(world, subpool("team", "c", 3))
    assert world.state.pools["team--c"].queueing is Queueing.STRICT_FIFO
    assert gpus_of(world.state.pools["team--a"].quotas) == {"default": 4}


def test_a_change_without_effect_is_not_an_event() -> None:
    """S6."""
    world = team(10, a=4)
    assert pools.put_pool(world.state, subpool("team", "a", 4), create=False) == Plan()
    assert pools.put_pool(world.state, world.state.pools["team"], create=False) == Plan()


def test_other_resources_follow_the_gpus_rounded_down() -> None:
    """S5."""
    parent = Pool("team", {GPUS: Quota(8), CPUS: Quota(10_000), FlavorResource("default", MEMORY): Quota(100)})
    world = team(parent, a=3)
    assert world.state.pools["team--a"].quotas == {
        GPUS: Quota(3),
        CPUS: Quota(3_750),
        FlavorResource("default", MEMORY): Quota(37),
    }
    world.do(*pools.put_pool(world.state, Pool("team", {GPUS: Quota(6), CPUS: Quota(4_000)}), create=False).actions)
    assert world.state.pools["team--a"].quotas == {GPUS: Quota(3), CPUS: Quota(2_000)}


def test_for_a_flavor_without_gpus_the_share_of_all_gpus_counts() -> None:
    """S5."""
    quotas = {FlavorResource("h100", GPU): Quota(6), FlavorResource("b200", GPU): Quota(2)}
    parent: Quotas = {**quotas, FlavorResource("cpus", CPU): Quota(8_000), FlavorResource("b200", CPU): Quota(1_000)}
    assert share_of(parent, {"h100": 3}) == {
        FlavorResource("h100", GPU): Quota(3),
        FlavorResource("b200", GPU): Quota(0),
        FlavorResource("cpus", CPU): Quota(3_000),
        FlavorResource("b200", CPU): Quota(0),
    }


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(0, 2**63 - 1), st.integers(0, 30))
def test_derived_shares_never_exceed_the_parent(gpus: list[int], cpu: int, idle: int) -> None:
    """S1, S5."""
    parent: Quotas = {GPUS: Quota(sum(gpus) + idle), CPUS: Quota(cpu)}
    shares = [share_of(parent, {"default": each})[CPUS].nominal for each in gpus]
    assert sum(shares) <= cpu
    assert all(share >= 0 for share in shares)


def test_a_parent_keeps_a_flavor_in_which_a_subpool_has_gpus() -> None:
    """S1."""
    flavors = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}))
    h100, b200 = FlavorResource("h100", GPU), FlavorResource("b200", GPU)
    world = World({"team": Pool("team", {h100: Quota(4), b200: Quota(4)})}, {}, flavors=flavors)
    make(world, Pool("team--a", {h100: Quota(2)}, parent="team", subpool_name="a"))
    error = refusal(world, Pool("team", {b200: Quota(4)}), create=False)
    assert str(error).startswith("pool team cannot have a quota of 0 h100 GPUs: its subpools have 2 (a 2)")
    make(world, Pool("team--a", {b200: Quota(1)}, parent="team", subpool_name="a"))
    world.do(*pools.put_pool(world.state, Pool("team", {b200: Quota(4)}), create=False).actions)
    assert world.state.pools["team--a"].quotas == {b200: Quota(1)}


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "short", ["a--b", "_a", "A", "a_b", "а", "ａ", "", "-a", "a-", "1a", "a\n", "a.b", "<b>", "a'--", "x" * 300]
)
def test_invalid_names_are_rejected(short: str) -> None:
    """S4."""
    error = refusal(team(), subpool("team", short, 1))
    assert isinstance(error, InvalidInput)
    assert str(error).startswith("subpool name")


def test_a_full_name_fits_into_a_name_and_a_label_of_kubernetes() -> None:
    """S4: ``osmo-pool-NAMESPACE-team--NAME`` has at most 10 + 63 + 1 + 63 characters, of the 253 that a name may have."""
    world = team()
    make(world, subpool("team", "a" * 57, 1))
    error = refusal(world, subpool("team", "a" * 58, 1))
    assert str(error).endswith("at most 63 characters, so NAME can have up to 57")


def test_a_subpool_may_start_without_gpus_and_lose_them_all_later() -> None:
    """S1."""
    world = team(a=4)
    world.do(*pools.put_pool(world.state, subpool("team", "b", 0), create=True).actions)
    assert gpus_of(world.state.pools["team--b"].quotas) == {"default": 0}
    world.do(*pools.put_pool(world.state, subpool("team", "a", 0), create=False).actions)
    assert gpus_of(world.state.pools["team--a"].quotas) == {"default": 0}
    assert gpus_of(world.state.pools["team"].quotas) == {"default": 10}


def test_a_share_that_does_not_fit_is_rejected_with_all_numbers() -> None:
    """S1."""
    error = refusal(team(10, a=4, b=5), subpool("team", "c", 3))
    assert error.details == {
        "law": "S1",
        "pool": "team",
        "resource": "default/gpu",
        "asked": 12,
        "limit": 10,
        "subpools": {"team--b": 5, "team--a": 4, "team--c": 3},
        "unallocated": 1,
    }


def test_a_deleting_pool_rejects_changes_with_its_running_work() -> None:
    world = team(10, a=6)
    for name, gpus in (("w1", 2), ("w2", 3)):
        world.submit(name, "team--a", NORMAL, gpus)
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    sentence = (
        "pool team--a is DELETING: it cannot be changed, deleted or created again "
        "while 2 workflows with 5 GPUs are running in it"
    )
    for create in (True, False):
        error = refusal(world, subpool("team", "a", 99), create=create)
        assert (type(error), str(error)) == (Conflict, sentence)
        assert error.details == {"pool": "team--a", "state": "DELETING", "gpus": 5, "workflows": 2}
    with pytest.raises(Conflict, match="while 2 workflows with 5 GPUs are running in it"):
        pools.delete_pool(world.state, "team--a")


def test_descriptions_are_one_printable_line_of_plain_text() -> None:
    for text in ("x" * 1001, "a\nb", "a\0b", "\x1b[31m"):
        assert "description must be one line" in str(refusal(team(), Pool("p", description=text)))
    for text in ("<b>ours</b>", "<script>alert(1)</script>", "a > b"):
        assert "description must be plain text" in str(refusal(team(), Pool("p", description=text)))
    make(team(), Pool("p", description="it's ours; DROP TABLE pools"))  # harmless: values are never used as SQL


# ---------------------------------------------------------------- admission


@pytest.mark.parametrize(
    ("pool", "gpus", "ways"),
    [
        ("team", 3, "Submit with priority LOW to borrow or submit to team--b, which has 4 GPUs of quota left"),
        ("team--a", 5, "Request less or submit with priority LOW to borrow"),
        (
            "team--c",
            3,
            "Request less, submit with priority LOW to borrow, or submit to team--b, which has 4 GPUs of quota left",
        ),
        ("team--c", 200, "Request less"),
    ],
)
def test_advice_names_only_accepted_alternatives_and_a_pool_with_room(pool: str, gpus: int, ways: str) -> None:
    """P3. team--a, whose quota is as large as that of team--b, has none of it left."""
    world = team(10, a=4, b=4, c=2)
    world.submit("w", "team--a", NORMAL, 4)
    world.cycle()
    with pytest.raises(Refused) as caught:
        submission_gate.submit(
            world.state, workflow("v", task("t", gpus)), spec_hash="h", pool=pool, priority=NORMAL, user="u", uuid="", now=1
        )  # fmt: skip
    assert str(caught.value).endswith(f". {ways}")


def test_an_unknown_subpool_is_reported_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"pool team has no subpool 'x'\. Did you mean 'team--a' or 'team--b'\?"):
        team(10, a=4, b=3).submit("w", "team--x")
    with pytest.raises(NotFound, match=r"pool team has no subpool 'x' \(subpools: none\)"):
        team().submit("w", "team--x")
    with pytest.raises(NotFound, match=r"unknown pool 'sim--x' \(pools: team, team--a"):
        team(10, a=4).submit("w", "sim--x")


# ---------------------------------------------------------------- draining


def test_a_retry_by_exit_code_continues_in_a_deleting_subpool() -> None:
    """S3."""
    world = team(10, a=4)
    retried = replace(task("t", 2), exit_rules=(ExitRule(ExitAction.RESCHEDULE, 7, 7),))
    world.submit("w", "team--a", NORMAL, spec=workflow("w", retried))
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    for _ in range(3):
        world.finish("w-1", 7)
        world.cycle()
        assert world.state.pools["team--a"].state is DELETING
        assert world.running() == {"w-1"}
        world.facts.clear()
        world.cycle()
    world.finish("w-1")
    world.cycle()
    assert world.state.pools["team--a"].state is ARCHIVED


def test_a_preempted_gang_that_waits_keeps_its_subpool_deleting() -> None:
    """S3."""
    world = World({"team": 4, "sim": 4}, {"n0": 8})
    make(world, subpool("team", "a", 2))
    world.submit("low", "team--a", LOW, 8)
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    world.submit("in", "sim", NORMAL, 4)
    world.cycle()
    world.cycle()
    assert (world.running(), world.state.pools["team--a"].state) == ({"in-1"}, DELETING)
    world.cancel("low-1")
    world.cycle()
    assert world.state.pools["team--a"].state is ARCHIVED


def test_owners_of_unstarted_work_see_who_deleted_the_pool() -> None:
    """S3."""
    world = team(10, a=4)
    world.submit("runs", "team--a", NORMAL, 3)
    world.cycle()
    world.submit("waits", "team--a", NORMAL, 3)
    world.do(*pools.delete_pool(world.state, "team--a", user="ann").actions)
    waits = world.state.workflows["waits-1"]
    assert (waits.cancelled_by, waits.failure_message) == (
        "ann",
        "cancelled by ann: pool team--a was deleted before it started",
    )


# ---------------------------------------------------------------- a whole file


def file(parent: Pool, **subpools: int) -> ClusterSpec:
    made = [
        Pool(f"team--{short}", gpu_quota(gpus), parent="team", subpool_name=short) for short, gpus in subpools.items()
    ]
    return ClusterSpec(pools=(parent, *made))


def test_a_file_that_changes_a_parent_changes_its_unlisted_subpools() -> None:
    """S5."""
    world = team(10, a=4, b=2)
    plan = pools.declare(world.state, file(Pool("team", gpu_quota(10), grace_s=1.0), a=5))
    assert [(each.name, gpus_of(each.quotas), each.grace_s) for each in pools_put(plan.actions)] == [
        ("team", {"default": 10}, 1.0),
        ("team--a", {"default": 5}, 1.0),
        ("team--b", {"default": 2}, 1.0),
    ]


def test_a_deleting_subpool_in_a_file_only_follows_its_parent() -> None:
    """S3, S5."""
    world = team(10, a=4)
    world.submit("w", "team--a", NORMAL)
    world.cycle()
    world.do(*pools.delete_pool(world.state, "team--a").actions)
    parent = Pool("team", gpu_quota(10), grace_s=1.0)
    plan = pools.declare(world.state, file(parent, a=4))
    assert [(each.name, each.state, each.grace_s) for each in pools_put(plan.actions)] == [
        ("team", ACTIVE, 1.0),
        ("team--a", DELETING, 1.0),
    ]
    with pytest.raises(
        Conflict, match=r"pool team--a is DELETING: it cannot be changed.* while 1 workflow with 1 GPU is running in it"
    ):
        pools.declare(world.state, file(parent, a=5))


@pytest.mark.parametrize("before", [{}, {"a": 4}])
def test_a_file_may_declare_a_subpool_without_gpus(before: dict[str, int]) -> None:
    """S1: so that a cluster file can describe the result of an update."""
    world = team(**before)
    world.do(*pools.declare(world.state, file(Pool("team", gpu_quota(10)), a=0)).actions)
    assert gpus_of(world.state.pools["team--a"].quotas) == {"default": 0}


def test_moving_a_parent_to_another_cohort_moves_its_subpools() -> None:
    world = World({"team": 4, "sim": 1}, {"n0": Node("n0", {GPU: 8})}, (Cohort("left"), Cohort("right")))
    make(world, subpool("team", "a", 2))
    for cohort in ("left", "right", None):
        world.do(*pools.put_pool(world.state, Pool("team", gpu_quota(4), cohort=cohort), create=False).actions)
        assert world.state.pools["team--a"].cohort == cohort
    assert set(world.state.ledger.tree.cohorts) == {"left", "right"}
