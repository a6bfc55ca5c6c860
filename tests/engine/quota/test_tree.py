"""The quota tree: known numbers, and its shape (rules Q1-Q5); `test_tree_properties` has what is true of every tree."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.domain.pools import Cohort, Pool, PoolState, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import CHARGED, REAL, add, fits, headroom, potential, take
from tests.worlds.engine import GPUS, gpu_quota, subpool

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
    going = subpool("team", "a", 3, state=PoolState.DELETING)
    gone = subpool("team", "b", 4, state=PoolState.ARCHIVED)
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
