"""`runrig node`, against a real server that is restarted on the way."""

from pathlib import Path

import pytest

from tests.cli.test_end_to_end import submitted
from tests.worlds.command_line import lines, up, written
from tests.worlds.service import one_task

pytestmark = pytest.mark.slow

CLUSTER = """
backend: {name: lab, type: simulated}
nodes: [{name: n0, resources: {gpu: 3}}]
pools: [{name: team, quota: 4}]
"""


def test_node_is_drained_serviced_and_uncordoned(tmp_path: Path) -> None:
    """N1, N2: the mark is there after a restart."""
    cluster, data = written(tmp_path, CLUSTER, "cluster.yaml"), tmp_path / "data"
    with up(data, "--cluster", cluster) as server:
        low = submitted(server, one_task("low", duration=3600), "--priority", "LOW")
        firm = submitted(server, one_task("firm", gpus=2, duration=3600))
        for id in (low, firm):
            assert server.runrig("workflow", "wait", id, "--for", "RUNNING", "--timeout", "60").code == 0
        planned = lines(server.runrig("node", "drain", "n0", "--dry-run").out)
        assert f"stopped         {low} (team, LOW, 1 GPU): returns to the queue" in planned
        end = "until it finishes; use --force to\n                stop it"
        assert f"keeps running   {firm} (team, NORMAL, 2 GPUs): {end}" in "\n".join(planned)
        assert planned[-1] == "Nothing was changed. To apply: runrig node drain n0"
        assert server.json("resource", "info", "n0")["resources"][0]["conditions"] == ["Ready"]
        assert lines(server.runrig("node", "drain", "n0").out) == [
            "node n0 is cordoned",
            f"stops and is requeued: {low} (team, LOW, 1 GPU)",
            f"keeps running: {firm} (team, NORMAL, 2 GPUs) (use --force to stop)",
        ]
        assert server.json("node", "cordon", "n0") == {"changed": []}
        ghost = server.runrig("node", "drain", "n0", "ghost")
        assert (ghost.code, "node 'ghost' not found. List nodes with `runrig resource list`" in ghost.err) == (2, True)
        assert server.runrig("node", "drain").code == 2
    with up(data, "--cluster", cluster) as server:
        assert server.json("resource", "info", "n0")["resources"][0]["conditions"] == ["NotReady", "Cordoned"]
        assert "is being drained (Drain, rule N2)" in server.runrig("workflow", "events", low).out
        assert lines(server.runrig("node", "uncordon", "n0", "n0").out) == ["node n0 is open"]
        assert lines(server.runrig("node", "uncordon", "n0").out) == ["node n0 was not cordoned"]
        assert server.runrig("workflow", "wait", low, "--for", "RUNNING", "--timeout", "60").code == 0
