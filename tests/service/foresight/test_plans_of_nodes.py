"""A plan tells what no node could hold any more, where the edit is about nodes, or about those that a pool may use."""

from pathlib import Path

from runrig.domain.nodes import Node
from runrig.service.foresight.questions import OfFile
from runrig.service.mirror.leaving import Leaving
from runrig.service.queries.visibility import ALL
from tests.worlds.service import desk

CLUSTER = """
flavors: [{name: big}, {name: small}]
pools: [{name: pool1, quota: {big: 2, small: 2}, flavors: [big, small]}]
"""


def test_workflow_waiting_for_nodes_that_its_pool_loses_can_never_start(tmp_path: Path) -> None:
    """The quotas stay: two GPUs of small nodes are still enough, and no small node has two."""
    nodes = (Node("n0", {"gpu": 2}, "big"), Node("n1", {"gpu": 1}, "small"), Node("n2", {"gpu": 1}, "small"))
    with desk(tmp_path, nodes=nodes, cluster=CLUSTER) as it:
        for name in ("a", "b"):
            it.submit(name, "pool1", gpus=2)
            it.later(0)
        question = OfFile(CLUSTER.replace("flavors: [big, small]", "flavors: [small]").replace("big: 2, ", ""))
        plan = it.service.plans.plan(question, user="u", visibility=ALL, leaving=Leaving())
        (never,) = plan.never
        assert (never.gang, never.gpus) == ("b-1", 2)
        assert "even on empty nodes" in never.why
