"""Pools and cohorts one by one, and whole files: what changes, what an apply may prune (law Q7)."""

from pathlib import Path

import pytest

from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import FlavorResource
from runrig.service.declarations import CohortEdit, PoolEdit
from tests.service.builders import Desk, desk

GPU = FlavorResource("default", "gpu")
KINDS = """
flavors: [{name: h100, node_labels: {gpu: h100}}, {name: b200, node_labels: {gpu: b200}}]
pools: [{name: mixed, quota: {h100: {gpu: {nominal: 2, borrowing_limit: 1}}, b200: {gpu: 1}}}]
"""
APART = """
flavors: [{name: here}, {name: gone, node_labels: {a: b}}]
pools: [{name: x, quota: 1, flavors: [here]}, {name: y, quota: 0, flavors: [gone]}]
"""


def _told(it: Desk, text: str, *, prune: bool = False, dry_run: bool = False) -> list[tuple[str, str, str]]:
    found = it.service.declarations.apply(text, user="ann", prune=prune, dry_run=dry_run)
    return [(each.action, each.kind, each.name) for each in found]


def _pool(it: Desk, name: str) -> Pool:
    return it.service.queries.pool(name).pool


def test_apply_says_what_it_creates_changes_and_leaves(tmp_path: Path) -> None:
    text = "cohorts: [{name: org}]\npools: [{name: pool1, quota: 3}, {name: pool2, quota: 2}, {name: new, cohort: org, quota: 1}]"
    with desk(tmp_path) as it:
        expected = [
            ("create", "cohort", "org"),
            ("update", "pool", "pool1"),
            ("create", "pool", "new"),
            ("unchanged", "pool", "pool2"),
        ]
        before = it.revision
        assert _told(it, text, dry_run=True) == expected
        assert it.revision == before
        assert _told(it, text) == expected
        assert _told(it, text) == [
            ("unchanged", kind, name) for _, kind, name in (expected[0], expected[1], expected[3], expected[2])
        ]


def test_prune_takes_away_only_what_an_apply_made(tmp_path: Path) -> None:
    with desk(tmp_path) as it:  # its pools were declared by the file of the start
        it.service.declarations.create_pool("byhand", PoolEdit(quota=0), user="ann")
        it.service.declarations.create_cohort("alsobyhand", CohortEdit(), user="ann")
        _told(it, "cohorts: [{name: org}]\npools: [{name: pool1, quota: 2}, {name: more, quota: 0}]")
        assert _told(it, "pools: [{name: pool1, quota: 2}]") == [("unchanged", "pool", "pool1")]
        assert _told(it, "pools: [{name: pool1, quota: 2}]", prune=True) == [
            ("delete", "pool", "pool2"),
            ("delete", "pool", "more"),
            ("delete", "cohort", "org"),
            ("unchanged", "pool", "pool1"),
        ]
        assert [view.pool.name for view in it.service.queries.pools()] == ["byhand", "pool1"]
        assert [view.row.name for view in it.service.queries.cohorts()] == ["alsobyhand", "byhand", "pool1"]


def test_a_pool_made_again_by_hand_is_not_pruned(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.service.declarations.delete_pool("pool2", user="ann")
        it.service.declarations.create_pool("pool2", PoolEdit(quota=1), user="ann")
        assert _told(it, "pools: [{name: pool1, quota: 2}]", prune=True) == [("unchanged", "pool", "pool1")]


def test_backend_and_nodes_are_fixed_after_start(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before = it.revision
        with pytest.raises(Conflict, match="the file says backend local, but this server runs with simulated"):
            _told(it, "backend: {type: local}\npools: [{name: pool1, quota: 1}]")
        with pytest.raises(Conflict, match="nodes are fixed after start, and n0, n1 differ"):
            _told(it, "nodes: [{name: 'n{0..1}', resources: {gpu: 8}}]\npools: [{name: pool1, quota: 1}]")
        assert _told(it, "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: pool1, quota: 2}]") == [
            ("unchanged", "pool", "pool1")
        ]
        assert it.revision == before


def test_a_plain_quota_keeps_the_limits(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        declarations = it.service.declarations
        declarations.create_pool("p", PoolEdit(quota=1, borrowing_limit=3, lending_limit=0), user="ann")
        declarations.update_pool("p", PoolEdit(quota=2, description="ours"), user="ann")
        assert _pool(it, "p") == Pool("p", {GPU: Quota(2, 3, 0)}, description="ours")
        declarations.update_pool("p", PoolEdit(borrowing_limit=None), user="ann")
        assert _pool(it, "p") == Pool("p", {GPU: Quota(2, None, 0)}, description="ours")


def test_with_several_kinds_of_gpus_a_plain_limit_is_refused(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=KINDS) as it:
        with pytest.raises(
            InvalidInput, match=r"there are 2 kinds of GPUs \(b200, h100\), so a plain limit is not clear"
        ):
            it.service.declarations.update_pool("mixed", PoolEdit(borrowing_limit=3), user="ann")
        it.service.declarations.update_pool("mixed", PoolEdit(quota="h100=1,b200=0"), user="ann")
        assert _pool(it, "mixed").quotas == {
            FlavorResource("h100", "gpu"): Quota(1, 1),
            FlavorResource("b200", "gpu"): Quota(0),
        }


def test_what_is_not_there_cannot_be_changed(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        with pytest.raises(NotFound, match="there is no pool 'nope': there are pool1, pool2"):
            it.service.declarations.update_pool("nope", PoolEdit(quota=1), user="ann")
        with pytest.raises(NotFound, match="there is no cohort 'nope'"):
            it.service.declarations.update_cohort("nope", CohortEdit(weight=2), user="ann")


def test_pools_that_share_nodes_are_one_set_with_each_node_counted_once(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        it.later(0)
        sets = it.service.queries.node_sets()
        assert [([view.pool.name for view in each.pools], each.totals.capacity, each.totals.free) for each in sets] == [
            (["pool1", "pool2"], 4, 3)
        ]


def test_pools_without_common_nodes_are_sets_of_their_own(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=APART) as it:
        sets = it.service.queries.node_sets()
        assert [([view.pool.name for view in each.pools], each.totals.capacity) for each in sets] == [
            (["x"], 4),
            (["y"], 0),
        ]
