"""The arithmetic of the quota tree: known numbers, and properties of every tree (rules Q1-Q5)."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.pools import Cohort, Pool, PoolState, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.quota.limits import ceilings, promises
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import (
    CHARGED,
    REAL,
    NodeKind,
    QuotaLeaf,
    Request,
    add,
    fits,
    headroom,
    potential,
    take,
    within_promise,
)
from tests.worlds.engine import GPUS, gpu_quota

CASES = yaml.load((Path(__file__).parent / "data" / "trees.yaml").read_text(), yaml.CSafeLoader)
FACTS = [(case, name) for case in CASES for name in case["facts"]]


def key(text: str) -> FlavorResource:
    return FlavorResource(*text.split("/", 1))


def grown(case: Mapping[str, Any]) -> QuotaTree:
    """The tree of a case, with the usage of its leaves. A pool represents a plain leaf: its low leaf has no limit of
    its own. An object without a parent neither lends nor borrows: in the case there is nothing above it, and the
    implicit root must not connect the trees.
    """
    keys = {key(each) for node in case["nodes"].values() for each in node.get("quota", {})}
    cohorts, pools = [], []
    for name, node in case["nodes"].items():
        above = node.get("under")
        quotas = {key(each): Quota(*amounts) for each, amounts in node.get("quota", {}).items()}
        if above is None:
            quotas = {each: Quota(quotas.get(each, Quota()).nominal, 0, 0) for each in keys}
        if is_leaf(name):
            pools.append(Pool(name, quotas, cohort=above))
        else:
            cohorts.append(Cohort(name, above, quotas))
    tree = QuotaTree(cohorts, pools, {})
    for name, node in case["nodes"].items():
        if "holds" in node:
            for layer in (CHARGED, REAL):
                add(tree.low[name], request(tree, node["holds"]), layer)
    return tree


def is_leaf(name: str) -> bool:
    return name.startswith("leaf")


def request(tree: QuotaTree, amounts: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    return tuple((tree.index_of[key(each)], amount) for each, amount in amounts.items() if amount)


@pytest.mark.parametrize(("case", "name"), FACTS, ids=[f"{case['id']}-{name}" for case, name in FACTS])
def test_a_node_has_the_expected_numbers(case: dict[str, Any], name: str) -> None:
    """Q3, Q4."""
    tree = grown(case)
    node = (tree.pools if is_leaf(name) else tree.cohorts)[name]
    found = {}
    for each in case["facts"][name]:
        at = tree.index_of[key(each)]
        found[each] = [
            node.subtree[at],
            node.usage[REAL][at],
            node.balance(at),
            headroom(node, at),
            potential(node, at),
        ]
    assert found == case["facts"][name]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_request_fits_in_known_cases(case: dict[str, Any]) -> None:
    """Q4: to the last unit."""
    tree = grown(case)
    answers = [[leaf, amounts, fits(tree.low[leaf], request(tree, amounts))] for leaf, amounts, _ in case["fits"]]
    assert answers == case["fits"]


# ---------------------------------------------------------------- for any tree

limits = st.none() | st.integers(0, 6)
quota_maps = st.fixed_dictionaries(
    {
        key("f/gpu"): st.builds(Quota, st.integers(0, 6), limits, limits),
        key("f/cpu"): st.builds(Quota, st.integers(0, 6), limits, limits),
    }
)


Trees = tuple[QuotaTree, list[QuotaLeaf]]


@st.composite
def trees(draw: st.DrawFn) -> Trees:
    """Up to five cohorts, up to three pools with up to two subpools each, and the leaves that work is charged to."""
    cohorts = [
        Cohort(f"k{at}", draw(st.sampled_from([None, *(f"k{up}" for up in range(at))])), draw(quota_maps))
        for at in range(draw(st.integers(0, 5)))
    ]
    pools = []
    for at in range(draw(st.integers(1, 3))):
        quotas = draw(quota_maps)
        pools.append(Pool(f"p{at}", quotas, cohort=draw(st.sampled_from([None, *(each.name for each in cohorts)]))))
        left = {each: quota.nominal for each, quota in quotas.items()}
        for short in "ab"[: draw(st.integers(0, 2))]:
            part = {each: draw(st.integers(0, most)) for each, most in left.items()}
            left = {each: left[each] - part[each] for each in left}
            share = {each: Quota(amount) for each, amount in part.items()}
            pools.append(Pool(f"p{at}--{short}", share, parent=f"p{at}", subpool_name=short))
    capacity = {key("f/gpu"): draw(st.integers(0, 20)), key("f/cpu"): draw(st.integers(0, 20))}
    tree = QuotaTree(cohorts, pools, capacity)
    return tree, [*tree.firm.values(), *tree.low.values()]


amounts = st.integers(1, 9)
requests = st.one_of(
    st.tuples(st.tuples(st.just(0), amounts)),
    st.tuples(st.tuples(st.just(1), amounts)),
    st.tuples(st.tuples(st.just(0), amounts), st.tuples(st.just(1), amounts)),
)
Load = list[tuple[int, Request]]
loads = st.lists(st.tuples(st.integers(0, 30), requests), max_size=8)
several = settings(max_examples=150, deadline=None, derandomize=True, database=None)


def loaded(tree: QuotaTree, leaves: list[QuotaLeaf], load: Load) -> None:
    for at, asked in load:
        for layer in (CHARGED, REAL):
            add(leaves[at % len(leaves)], asked, layer)


def numbers(tree: QuotaTree) -> list[object]:
    nodes = [*tree.nodes(), *(node.guarantee for node in tree.nodes() if node.guarantee)]
    return [(each.usage, each.used, each.pools_over_nominal) for each in nodes]


@several
@given(trees(), loads, st.integers(0, 30), requests)
def test_a_request_fits_exactly_if_it_is_within_headroom_and_guarantees(
    grown_tree: Trees, load: Load, at: int, asked: Request
) -> None:
    """Q4, P2; over-committed trees too, since loading checks nothing."""
    tree, leaves = grown_tree
    loaded(tree, leaves, load)
    leaf = leaves[at % len(leaves)]
    within = all(amount <= headroom(leaf, index) for index, amount in asked)
    caps = leaf.kind is NodeKind.LOW or all(
        amount <= left for index, amount in asked for _, left in promises(leaf, index)
    )
    assert fits(leaf, asked) == (within and caps)
    assert leaf.kind is NodeKind.LOW or within_promise(leaf, asked) == caps


@several
@given(trees(), loads, st.integers(0, 1))
def test_everything_left_fits_and_one_unit_more_does_not(grown_tree: Trees, load: Load, index: int) -> None:
    """Q4, P2, at the bound of each leaf, which random amounts seldom reach."""
    tree, leaves = grown_tree
    loaded(tree, leaves, load)
    for leaf in leaves:
        most = headroom(leaf, index)
        if leaf.kind is not NodeKind.LOW:
            most = min(most, *(left for _, left in promises(leaf, index)))
        assert fits(leaf, ((index, most),)), (leaf, most)
        assert not fits(leaf, ((index, most + 1),)), (leaf, most)


@several
@given(trees(), loads, st.integers(0, 30), st.integers(0, 1), amounts)
def test_ceilings_name_the_nodes_whose_limits_refuse(
    grown_tree: Trees, load: Load, at: int, index: int, amount: int
) -> None:
    """None is named exactly if it fits; without the first limit the others refuse as before."""
    tree, leaves = grown_tree
    loaded(tree, leaves, load)
    leaf = leaves[at % len(leaves)]
    named = [each for each in ceilings(leaf, index) if each[1] < amount]
    assert (not named) == (amount <= headroom(leaf, index))
    if not named or named[0][0] is tree.root:
        return
    (first, _), *others = named
    first.room[index] = None
    assert [each for each in ceilings(leaf, index) if each[1] < amount] == others
    assert (not others) == (amount <= headroom(leaf, index))


@several
@given(trees(), loads, st.randoms(use_true_random=False))
def test_removing_in_any_order_undoes_adding(grown_tree: Trees, load: Load, mix: Random) -> None:
    tree, leaves = grown_tree
    before = repr(numbers(tree))
    loaded(tree, leaves, load)
    mix.shuffle(load)
    for at, asked in load:
        for layer in (CHARGED, REAL):
            take(leaves[at % len(leaves)], asked, layer)
    assert repr(numbers(tree)) == before


@several
@given(trees(), loads, st.randoms(use_true_random=False))
def test_the_order_of_additions_leaves_no_trace(grown_tree: Trees, load: Load, mix: Random) -> None:
    tree, leaves = grown_tree
    loaded(tree, leaves, load)
    once = repr(numbers(tree))
    for at, asked in load:
        for layer in (CHARGED, REAL):
            take(leaves[at % len(leaves)], asked, layer)
    mix.shuffle(load)
    loaded(tree, leaves, load)
    assert repr(numbers(tree)) == once


@several
@given(trees(), loads)
def test_over_counts_the_outermost_pools_above_their_nominal(grown_tree: Trees, load: Load) -> None:
    tree, leaves = grown_tree
    loaded(tree, leaves, load)
    tops = [node for node in tree.pools.values() if node.pool and node.pool.parent is None]
    for node in [tree.root, *tree.cohorts.values()]:
        below = [top for top in tops if node in top.path]
        counted = [sum(top.usage[CHARGED][at] > top.subtree[at] for top in below) for at in range(len(tree.keys))]
        assert node.pools_over_nominal == counted, node


@several
@given(trees())
def test_the_headroom_of_an_empty_tree_is_its_potential(grown_tree: Trees) -> None:
    tree, _ = grown_tree
    for node in tree.nodes():
        for index in range(len(tree.keys)):
            assert headroom(node, index) == potential(node, index)


# ---------------------------------------------------------------- the shape of the tree


def test_a_pool_is_a_small_cohort_with_a_firm_and_a_low_leaf() -> None:
    """Q1: the firm leaf has what the subpools leave."""
    team = Pool("team", gpu_quota(10))
    slices = [
        Pool(f"team--{short}", gpu_quota(gpus), parent="team", subpool_name=short)
        for short, gpus in (("a", 3), ("b", 4))
    ]
    tree = QuotaTree((), [team, *slices], {GPUS: 12})
    at = tree.index_of[GPUS]
    assert {name: node.subtree[at] for name, node in tree.firm.items()} == {"team": 3, "team--a": 3, "team--b": 4}
    assert {name: node.subtree[at] for name, node in tree.pools.items()} == {"team": 10, "team--a": 3, "team--b": 4}
    assert tree.root.nominal[at] == 2
    assert repr(tree.firm["team--a"].path) == repr(
        (tree.firm["team--a"], tree.firm["team--a"].parent, tree.pools["team--a"], tree.pools["team"], tree.root)
    )


def test_a_cohort_that_is_only_named_has_no_quota_and_is_below_the_root() -> None:
    """Q6."""
    tree = QuotaTree([Cohort("inner", "outer", gpu_quota(2))], [Pool("p", gpu_quota(1), cohort="other")], {})
    assert {name: (node.parent, node.nominal[0]) for name, node in tree.cohorts.items()} == {
        "inner": (tree.cohorts["outer"], 2),
        "outer": (tree.root, 0),
        "other": (tree.root, 0),
    }


def test_a_cycle_of_cohorts_closes_only_its_own_tree() -> None:
    """Q5."""
    cohorts = [Cohort("x", "y"), Cohort("y", "x"), Cohort("z")]
    tree = QuotaTree(cohorts, [Pool("p", gpu_quota(1), cohort="x"), Pool("q", gpu_quota(1), cohort="z")], {})
    assert {name: node.active for name, node in tree.pools.items()} == {"p": False, "q": True}
    add(tree.firm["p"], ((0, 1),), REAL)
    take(tree.firm["p"], ((0, 1),), REAL)


def test_an_archived_pool_is_not_in_the_tree_but_a_deleting_one_is() -> None:
    """S1: quota in use by a DELETING subpool is not given away."""
    team = Pool("team", gpu_quota(10))
    going = Pool("team--a", gpu_quota(3), parent="team", subpool_name="a", state=PoolState.DELETING)
    gone = Pool("team--b", gpu_quota(4), parent="team", subpool_name="b", state=PoolState.ARCHIVED)
    tree = QuotaTree((), [team, going, gone], {GPUS: 10})
    assert {name: node.subtree[0] for name, node in tree.firm.items()} == {"team": 7, "team--a": 3}


def test_capacity_without_guarantee_can_be_borrowed_and_quota_beyond_capacity_is_useless() -> None:
    """Q8."""
    pools = [Pool("p", gpu_quota(3)), Pool("q", gpu_quota(2))]
    roomy, tight = QuotaTree((), pools, {GPUS: 9}), QuotaTree((), pools, {GPUS: 4})
    assert (headroom(roomy.low["p"], 0), headroom(tight.low["p"], 0)) == (9, 5)


def test_a_pool_counts_resources_with_quota_at_the_pool_or_above() -> None:
    cpu = FlavorResource("default", "cpu")
    tree = QuotaTree(
        [Cohort("k", None, {cpu: Quota(4)})], [Pool("p", gpu_quota(1), cohort="k"), Pool("q", gpu_quota(1))], {}
    )
    assert {name: sorted(leaf.counted) for name, leaf in tree.low.items()} == {"p": ["cpu", GPU], "q": [GPU]}
