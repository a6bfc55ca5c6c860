"""Quota that cohorts share: known numbers, and a comparison with every way to distribute it (rule P2)."""

from collections import Counter
from collections.abc import Mapping
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.pools import Cohort, Pool, Quota
from runrig.engine.quota.guarantees import overdrawn, shared_by
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import CHARGED, LAYERS, add, left_of_promise, promise, take, within_promise
from tests.worlds.engine import GPUS, gpu_quota, subpool

RESEARCH = Cohort("research", "org", gpu_quota(4))
ORG = Cohort("org", None, gpu_quota(3))


def tree_of(*pools: Pool, cohorts: tuple[Cohort, ...] = (ORG, RESEARCH)) -> QuotaTree:
    return QuotaTree(cohorts, pools, {GPUS: 0})


def hold(tree: QuotaTree, pool: str, gpus: int) -> None:
    for layer in LAYERS:
        add(tree.firm[pool], ((0, gpus),), layer)


def test_the_nearest_cohort_shares_first_and_each_limit_on_the_way_applies() -> None:
    tree = tree_of(
        Pool("all", gpu_quota(2), cohort="research"),
        Pool("some", gpu_quota(2, borrowing=5), cohort="research"),
        Pool("none", gpu_quota(2, borrowing=0), cohort="research"),
        Pool("top", gpu_quota(1), cohort="org"),
        Pool("alone", gpu_quota(1)),
    )
    shared = {name: (promise(leaf, 0), shared_by(leaf, 0)) for name, leaf in tree.firm.items()}
    assert shared == {
        "all": (9, (("research", 4), ("org", 3))),
        "some": (7, (("research", 4), ("org", 1))),
        "none": (2, ()),
        "top": (4, (("org", 3),)),
        "alone": (1, ()),
    }


def test_own_quota_stays_available_when_more_is_drawn_than_a_cohort_still_has() -> None:
    """R7: a guarantee was cut under running work. Nothing more can be drawn; pools keep their own quota."""
    tree = tree_of(
        Pool("a", gpu_quota(0), cohort="k"),
        Pool("b", gpu_quota(3), cohort="k"),
        cohorts=(Cohort("k", None, gpu_quota(1)),),
    )
    hold(tree, "a", 4)
    assert (overdrawn(tree.pools["a"], 0), overdrawn(tree.pools["b"], 0)) == (3, 0)
    assert (left_of_promise(tree.firm["a"], 0), left_of_promise(tree.firm["b"], 0)) == (0, 3)
    assert within_promise(tree.firm["b"], ((0, 3),))
    assert not within_promise(tree.firm["b"], ((0, 4),))
    assert not within_promise(tree.firm["a"], ((0, 1),))


def test_drawn_quota_is_not_borrowed() -> None:
    """Q2, R2: LOW in the same pool is safe as long as it stays within the pool's own quota."""
    tree = tree_of(
        Pool("team", gpu_quota(4), cohort="research"),
        subpool("team", "a", 1, cohort="research"),
    )
    hold(tree, "team--a", 3)
    add(tree.low["team"], ((0, 3),), CHARGED)
    assert not tree.pools["team"].over_nominal((0,))
    add(tree.low["team"], ((0, 1),), CHARGED)
    assert tree.pools["team"].over_nominal((0,))


def test_usage_without_a_guarantee_after_a_cut_is_borrowed() -> None:
    """R2, R7: LOW of such a pool is not safe, as in cohorts that share nothing."""
    team = Pool("team", gpu_quota(4), cohort="k")
    part = subpool("team", "a", 1, cohort="k")
    for shares, borrows in ((4, False), (3, False), (2, True), (0, True)):
        tree = tree_of(team, part, cohorts=(Cohort("k", None, gpu_quota(shares)),))
        hold(tree, "team--a", 4)
        add(tree.low["team"], ((0, 3),), CHARGED)
        assert tree.pools["team"].drawn(0) == min(shares, 3)
        assert tree.pools["team"].over_nominal((0,)) == borrows


# ---------------------------------------------------------------- all ways to distribute it

limits = st.sampled_from((None, None, 0, 1, 2))
NAMES = ("k0", "k1", "k2")


@st.composite
def houses(draw: st.DrawFn) -> tuple[list[Cohort], list[Pool]]:
    cohorts = [
        Cohort(name, draw(st.sampled_from((None, *NAMES[:at]))), gpu_quota(draw(st.integers(0, 3)), draw(limits)))
        for at, name in enumerate(NAMES)
    ]
    pools = []
    for name in ("p0", "p1", "p2"):
        nominal, cohort = draw(st.integers(0, 2)), draw(st.sampled_from((None, *NAMES)))
        pools.append(Pool(name, gpu_quota(nominal, draw(limits)), cohort=cohort))
        if draw(st.booleans()):
            part = {GPUS: Quota(draw(st.integers(0, nominal)))}
            pools.append(Pool(f"{name}--a", part, cohort=cohort, parent=name, subpool_name="a"))
    return cohorts, pools


class _Dealing:
    """Tries every way to assign each GPU beyond a pool's own quota to a cohort above that has it."""

    def __init__(self, cohorts: list[Cohort], pools: list[Pool]) -> None:
        self._cohorts = {cohort.name: cohort for cohort in cohorts}
        self._pools = {pool.name: pool for pool in pools}

    def _own(self, name: str) -> int:
        below = [pool.quotas[GPUS].nominal for pool in self._pools.values() if pool.parent == name]
        return self._pools[name].quotas[GPUS].nominal - sum(below)

    def _ways(self, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """(cohort with quota, the cohorts between whose borrowing limits apply)."""
        pool = self._pools[name]
        crossed = (pool.name, pool.parent) if pool.parent else (pool.name,)
        ways: list[tuple[str, tuple[str, ...]]] = []
        above = pool.cohort
        while above is not None:
            ways.append((above, crossed))
            crossed = (*crossed, above)
            above = self._cohorts[above].parent
        return ways

    def works(self, held: Mapping[str, int]) -> bool:
        beyond = [name for name, amount in held.items() for _ in range(max(0, amount - self._own(name)))]
        return any(self._is_legal(ways) for ways in product(*(self._ways(name) for name in beyond)))

    def _is_legal(self, ways: tuple[tuple[str, tuple[str, ...]], ...]) -> bool:
        given = Counter(cohort for cohort, _ in ways)
        crossing = Counter(name for _, crossed in ways for name in crossed)
        quotas = {name: cohort.quotas[GPUS] for name, cohort in self._cohorts.items()}
        quotas |= {name: pool.quotas[GPUS] for name, pool in self._pools.items()}
        limits = {name: quota.borrowing_limit for name, quota in quotas.items()}
        return all(amount <= quotas[name].nominal for name, amount in given.items()) and all(
            limit is None or amount <= limit for name, amount in crossing.items() for limit in (limits[name],)
        )


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(houses(), st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2), st.booleans()), max_size=9))
def test_guaranteed_work_starts_exactly_if_some_distribution_covers_all_of_it(
    house: tuple[list[Cohort], list[Pool]], wishes: list[tuple[int, int, bool]]
) -> None:
    """P2: using the nearest quota first is never worse than another way, whatever started and ended before."""
    cohorts, pools = house
    tree, dealing = tree_of(*pools, cohorts=tuple(cohorts)), _Dealing(cohorts, pools)
    held: Counter[str] = Counter()
    for at, gpus, then_ends in wishes:
        name = pools[at % len(pools)].name
        allowed = dealing.works(held + Counter({name: gpus}))
        assert within_promise(tree.firm[name], ((0, gpus),)) == allowed
        assert (left_of_promise(tree.firm[name], 0) >= gpus) == allowed
        if allowed:
            hold(tree, name, gpus)
            held[name] += gpus
        if then_ends and held[name]:
            take(tree.firm[name], ((0, 1),), CHARGED)
            held[name] -= 1
