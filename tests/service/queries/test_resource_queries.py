"""What people are told about pools and nodes: one by one as all at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.service.queries import resource_queries
from runrig.service.queries.resource_queries import PoolView
from tests.worlds.service import desk

POOLS = """
cohorts: [{name: lab, quota: 2}]
pools:
- {name: team, quota: 4, subpools: [{name: a, quota: 2}]}
- {name: in-lab, quota: 2, cohort: lab}
- {name: idle, quota: 2}
"""
GANG = """
workflow:
  name: pair
  tasks:
  - {name: main, image: any, command: [ls], duration: 100, resource: three, count: 2}
  resources:
    three: {gpu: 3}
"""


def test_page_of_nodes_and_single_pool_equal_the_complete_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = tuple(Node(f"n{at}", {"gpu": 4}, ready=at != 3) for at in range(4))
    with desk(tmp_path, cluster=POOLS, nodes=nodes) as it:
        it.submit("pair", "in-lab", Priority.LOW, text=GANG)
        it.submit("one", "team--a", gpus=2)
        it.submit("two", "in-lab", Priority.HIGH, gpus=2)
        it.later(0)
        queries = it.service.queries
        whole, more = queries.nodes()
        assert (len(whole), more) == (4, False)
        assert sum(holder is not None for view in whole for holder in view.gpus) == 10
        assert [queries.nodes(limit=1, offset=at) for at in range(4)] == [((view,), view != whole[3]) for view in whole]
        assert [queries.node(view.name) for view in whole] == list(whole)

        alone = [queries.pool(name) for name in ("idle", "in-lab", "team", "team--a")]
        monkeypatch.setattr(resource_queries, "FEW_POOLS", 0)
        own_sets = [_in_own_set(each) for each in queries.pools()]
        assert own_sets == alone


def _in_own_set(view: PoolView) -> PoolView:
    return view._replace(now=replace(view.now, nodes=replace(view.now.nodes, set=view.pool.name)))
