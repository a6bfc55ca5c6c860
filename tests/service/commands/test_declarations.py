"""Pools and cohorts one by one, and whole files: what changes, what an apply may prune (law Q7)."""

from pathlib import Path
from typing import Any

import pytest

from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused
from runrig.domain.gangs import Priority
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import FlavorResource
from runrig.domain.shown.pools import NodeShare
from runrig.service.commands.edits import CohortEdit, PoolEdit
from tests.worlds.edits import amounts
from tests.worlds.service import Desk, desk
from tests.worlds.sql import plans, statements

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


def test_prune_removes_only_what_an_apply_created(tmp_path: Path) -> None:
    with desk(tmp_path) as it:  # its pools were declared by the file at startup
        it.service.declarations.create_pool("byhand", PoolEdit(amounts(quota=0)), user="ann")
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
        assert [view.name for view in it.service.queries.cohorts()] == ["alsobyhand"]


def test_cohort_recreated_by_hand_is_not_pruned(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        _told(it, "cohorts: [{name: org}, {name: lab}]")
        it.service.declarations.delete_cohort("org", user="ann")
        it.service.declarations.create_cohort("org", CohortEdit(), user="ann")
        assert _told(it, "{}", prune=True, dry_run=True)[-1] == ("delete", "cohort", "lab")
        assert ("delete", "cohort", "org") not in _told(it, "{}", prune=True, dry_run=True)


def test_cost_of_pruning_depends_on_the_changes_of_the_cluster_and_not_on_the_log(tmp_path: Path) -> None:
    """The creator of a cohort is found among the events that belong to no workflow."""
    with desk(tmp_path) as it:
        _told(it, "cohorts: [{name: org}]")
        with statements() as seen:
            _told(it, "pools: [{name: pool1, quota: 2}]", prune=True, dry_run=True)
        found = plans(it.store, [each for each in seen if "FROM events" in each[0]])
    assert [steps[0] for steps in found] == [
        "SEARCH events USING INDEX ix_events_pool_revision_seq (pool=? AND revision>?)",
        "SEARCH events USING INDEX ix_events_workflow_revision_seq (workflow=? AND revision>?)",
    ]


def test_pool_recreated_by_hand_is_not_pruned(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.service.declarations.delete_pool("pool2", user="ann")
        it.service.declarations.create_pool("pool2", PoolEdit(amounts(quota=1)), user="ann")
        assert _told(it, "pools: [{name: pool1, quota: 2}]", prune=True) == [("unchanged", "pool", "pool1")]


def test_backend_and_nodes_are_fixed_after_start(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before = it.revision
        with pytest.raises(Conflict, match="the file sets backend local, but this server was started with simulated"):
            _told(it, "backend: {type: local}\npools: [{name: pool1, quota: 1}]")
        with pytest.raises(Conflict, match="but these differ: n0, n1"):
            _told(it, "nodes: [{name: 'n{0..1}', resources: {gpu: 8}}]\npools: [{name: pool1, quota: 1}]")
        assert _told(it, "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: pool1, quota: 2}]") == [
            ("unchanged", "pool", "pool1")
        ]
        assert it.revision == before


def test_a_plain_quota_keeps_the_limits(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        declarations = it.service.declarations
        declarations.create_pool("p", PoolEdit(amounts(quota=1, borrowing_limit=3, lending_limit=0)), user="ann")
        declarations.update_pool("p", PoolEdit(amounts(quota=2), settings={"description": "ours"}), user="ann")
        assert _pool(it, "p") == Pool("p", {GPU: Quota(2, 3, 0)}, description="ours")
        declarations.update_pool("p", PoolEdit(amounts(borrowing_limit=None)), user="ann")
        assert _pool(it, "p") == Pool("p", {GPU: Quota(2, None, 0)}, description="ours")


def test_with_several_flavors_a_plain_limit_is_refused(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=KINDS) as it:
        with pytest.raises(
            InvalidInput, match=r"there are 2 flavors, b200, h100. Give an amount for each: b200=8,h100=8$"
        ):
            it.service.declarations.update_pool("mixed", PoolEdit(amounts(borrowing_limit=3)), user="ann")
        it.service.declarations.update_pool("mixed", PoolEdit(amounts(quota="h100=1,b200=0")), user="ann")
        assert _pool(it, "mixed").quotas == {
            FlavorResource("h100", "gpu"): Quota(1, 1),
            FlavorResource("b200", "gpu"): Quota(0),
        }


def test_unknown_objects_cannot_be_changed(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        with pytest.raises(NotFound, match=r"unknown pool 'nope' \(pools: pool1, pool2\)"):
            it.service.declarations.update_pool("nope", PoolEdit(amounts(quota=1)), user="ann")
        with pytest.raises(NotFound, match="cohort 'nope' not found"):
            it.service.declarations.update_cohort("nope", CohortEdit(settings={"weight": 2}), user="ann")


def test_unknown_cohort_is_not_found_and_nothing_is_stored(tmp_path: Path) -> None:
    """Q6: a file may name one in passing, a command may not; one that is only named is there."""
    with desk(tmp_path) as it:
        declarations = it.service.declarations
        _told(it, "cohorts: [{name: research, parent: org}]")
        before = it.revision
        for wrong in (
            lambda name: declarations.create_pool("new", PoolEdit(settings={"cohort": name}), user="ann"),
            lambda name: declarations.update_pool("pool1", PoolEdit(settings={"cohort": name}), user="ann"),
            lambda name: declarations.create_cohort("new", CohortEdit(settings={"parent": name}), user="ann"),
            lambda name: declarations.update_cohort("research", CohortEdit(settings={"parent": name}), user="ann"),
        ):
            with pytest.raises(
                NotFound,
                match=r"unknown cohort 'reserch'\. Did you mean 'research'\? To create it: `runrig cohort create reserch`",
            ):
                wrong("reserch")
            with pytest.raises(
                NotFound,
                match=r"unknown cohort 'zz' \(cohorts: org, research\)\. To create it: `runrig cohort create zz`",
            ):
                wrong("zz")
        with pytest.raises(Refused, match="cycle"):
            declarations.create_cohort("new", CohortEdit(settings={"parent": "new"}), user="ann")
        assert it.revision == before
        declarations.update_pool("pool1", PoolEdit(settings={"cohort": "org"}), user="ann")
        assert it.revision == before + 1


def test_pools_that_share_nodes_form_one_set_and_each_node_counts_once(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        it.later(0)
        shares = [view.now.nodes for view in it.service.queries.pools()]
        assert shares == [NodeShare("pool1", 4, 3), NodeShare("pool1", 4, 3)]


def test_pools_without_common_nodes_form_their_own_sets(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=APART) as it:
        assert [view.now.nodes for view in it.service.queries.pools()] == [NodeShare("x", 4, 4), NodeShare("y", 0, 0)]


# ---------------------------------------------------------------- cohorts


def _tree(it: Desk) -> dict[str, tuple[str | None, bool, bool, int, int]]:
    """Name → (parent, declared, active, total, over), of the GPUs."""
    views = it.service.queries.quota_tree().nodes
    return {
        view.name: (
            view.parent,
            view.declared,
            view.active,
            view.balances[str(GPU)].total,
            view.balances[str(GPU)].over,
        )
        for view in views
    }


def test_a_pool_and_a_cohort_are_moved_with_their_running_work(tmp_path: Path) -> None:
    """R7, Q4: what is beyond a limit afterwards is shown, goes on, and lets nobody in until it has ended."""
    with desk(tmp_path) as it:
        declarations = it.service.declarations
        low = it.submit("low", "pool2", Priority.LOW, gpus=4, duration=50)
        it.later(1)
        declarations.create_cohort("lab", CohortEdit(amounts(borrowing_limit=0)), user="ann")
        declarations.update_pool("pool2", PoolEdit(settings={"cohort": "lab"}), user="ann")
        assert _tree(it) == {
            "lab": (None, True, True, 4, 2),
            "pool1": (None, True, True, 0, 0),
            "pool2": ("lab", True, True, 4, 0),
        }
        late = it.submit("late", "pool2", Priority.LOW)
        declarations.create_cohort("org", CohortEdit(amounts(quota=1)), user="bob")
        declarations.update_cohort("lab", CohortEdit(settings={"parent": "org"}), user="ann")
        it.later(1)
        assert (it.status(low), it.status(late)) == ("RUNNING", "PENDING")
        declarations.update_cohort("lab", CohortEdit(amounts(borrowing_limit=None, lending_limit=1)), user="ann")
        assert _tree(it)["lab"] == ("org", True, True, 4, 0)
        it.later(60)
        assert (it.status(low), it.status(late)) == ("COMPLETED", "RUNNING")


def test_edit_that_would_create_a_cycle_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    """Q5, Q7."""
    with desk(tmp_path) as it:
        declarations = it.service.declarations
        _told(it, "cohorts: [{name: a, parent: b}, {name: b, parent: c}]")  # c is only named
        before = it.revision
        with pytest.raises(Refused, match=r"the parents of cohort c would form a cycle \(c -> a -> b -> c\)"):
            declarations.create_cohort("c", CohortEdit(settings={"parent": "a"}), user="ann")
        with pytest.raises(InvalidInput, match="form a cycle: c → a → b → c"):
            _told(it, "cohorts: [{name: c, parent: a}, {name: a, parent: b}, {name: b, parent: c}]")
        with pytest.raises(Refused, match="would form a cycle"):
            _told(it, "cohorts: [{name: c, parent: a}]")
        assert it.revision == before


def test_quota_and_limits_are_set_and_removed_per_flavor_and_resource(tmp_path: Path) -> None:
    """Q2."""
    with desk(tmp_path, cluster=KINDS) as it:
        declarations = it.service.declarations
        h100, b200, cpu = (FlavorResource(*key.split("/")) for key in ("h100/gpu", "b200/gpu", "b200/cpu"))

        def edited(**settings: Any) -> dict[FlavorResource, Quota]:
            declarations.update_cohort("lab", CohortEdit(amounts(**settings)), user="ann")
            found = it.service.queries.cohort("lab").quotas
            return {FlavorResource(flavor, each): of[each] for flavor, of in found.items() for each in of}

        first = CohortEdit(
            amounts(quota="h100=2,b200/cpu=4", borrowing_limit="h100=1,b200=3", lending_limit="b200/cpu=500m")
        )
        declarations.create_cohort("lab", first, user="ann")
        assert edited(quota="b200=1") == {h100: Quota(2, 1), b200: Quota(1, 3), cpu: Quota(4000, None, 500)}
        assert edited(borrowing_limit="h100=none,b200=2", lending_limit="b200/cpu=none") == {
            h100: Quota(2), b200: Quota(1, 2), cpu: Quota(4000)
        }  # fmt: skip
        assert edited(quota="b200/cpu=none,h100=0") == {h100: Quota(0), b200: Quota(1, 2)}
        assert edited(quota="b200=none", borrowing_limit="b200=none", lending_limit="b200=none") == {h100: Quota(0)}
        with pytest.raises(InvalidInput, match="unknown flavor 'a100'"):
            edited(lending_limit="a100=2")
        with pytest.raises(InvalidInput, match="'disk' is neither a resource nor a flavor"):
            edited(quota="h100/disk=2")
        with pytest.raises(InvalidInput, match="'-1' is negative: amounts of cpu must be at least 0"):
            edited(quota="b200/cpu=-1")


def test_deleted_cohort_leaves_its_children_under_its_name_on_request(tmp_path: Path) -> None:
    """Q6."""
    with desk(tmp_path) as it:
        declarations = it.service.declarations
        _told(it, "cohorts: [{name: lab, parent: org, quota: 1}]")  # org is only named
        declarations.update_pool("pool1", PoolEdit(settings={"cohort": "lab"}), user="ann")
        with pytest.raises(Conflict, match="cohort lab has children: pool1"):
            declarations.delete_cohort("lab", user="ann")
        declarations.delete_cohort("lab", user="ann", leave_children=True)
        assert _tree(it)["lab"] == (None, False, True, 0, 0)
        with pytest.raises(
            NotFound, match="cohort 'lab' is not declared: it exists only as long as others refer to it"
        ):
            declarations.delete_cohort("lab", user="ann")
        declarations.update_pool("pool1", PoolEdit(settings={"cohort": None}), user="ann")
        assert sorted(_tree(it)) == ["pool1", "pool2"]


def test_prune_keeps_and_reports_a_cohort_with_a_pool_created_by_hand(tmp_path: Path) -> None:
    """Q6."""
    with desk(tmp_path) as it:
        pools = "pools: [{name: pool1, quota: 2}, {name: pool2, quota: 2}]"
        _told(it, "cohorts: [{name: org}, {name: lab, parent: org}]\n" + pools)
        it.service.declarations.create_pool(
            "byhand", PoolEdit(amounts(quota=0), settings={"cohort": "lab"}), user="ann"
        )
        kept = [("keep", "cohort", "lab"), ("keep", "cohort", "org")]
        same = [("unchanged", "pool", "pool1"), ("unchanged", "pool", "pool2")]
        assert _told(it, pools, prune=True, dry_run=True) == kept + same
        assert _told(it, pools, prune=True) == kept + same
        it.service.declarations.update_pool("byhand", PoolEdit(settings={"cohort": None}), user="ann")
        gone = [("delete", "cohort", "lab"), ("delete", "cohort", "org")]
        assert _told(it, pools, prune=True) == gone + same


def test_file_without_flavors_uses_the_existing_ones(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=KINDS) as it:
        assert _told(it, "pools: [{name: more, quota: {h100: 1}, flavors: [h100]}]") == [("create", "pool", "more")]
        assert _pool(it, "more").quotas == {FlavorResource("h100", "gpu"): Quota(1)}
        assert [each.name for each in it.service.queries.pool("mixed").flavors] == ["h100", "b200"]
        with pytest.raises(InvalidInput, match=r"there are 2 flavors, h100, b200. Give an amount for each"):
            _told(it, "pools: [{name: plain, quota: 1}]")
        with pytest.raises(InvalidInput, match="unknown flavor 'default'"):
            _told(it, "pools: [{name: plain, quota: {default: {gpu: 1}}}]")
