"""`runrig events`, against a real server."""

from pathlib import Path

import pytest

from tests.cli.test_end_to_end import submitted
from tests.worlds.command_line import lines, up, written
from tests.worlds.service import one_task

pytestmark = pytest.mark.slow

CLUSTER = """
backend: {name: lab, type: simulated}
nodes: [{name: n0, resources: {gpu: 3}}]
pools: [{name: team, quota: 2}, {name: sim, quota: 1}]
"""


def test_who_was_preempted_and_what_was_resized(tmp_path: Path) -> None:
    cluster = written(tmp_path, CLUSTER, "cluster.yaml")
    with up(tmp_path / "data", "--cluster", cluster) as server:
        low = submitted(server, one_task("low", gpus=2, duration=3600), "--priority", "LOW", "--pool", "team")
        assert server.runrig("workflow", "wait", low, "--for", "RUNNING", "--timeout", "60").code == 0
        firm = submitted(server, one_task("firm", gpus=2, duration=3600), "--pool", "team")
        assert server.runrig("workflow", "wait", firm, "--for", "RUNNING", "--timeout", "60").code == 0
        (told,) = lines(server.runrig("events", "--since", "1h", "--kind", "preempted").out)
        words = "was preempted by firm-1/main-group, which has higher priority in the same pool (Preempt by priority, rule R1)"
        assert told.endswith(f"low-1/main-group {words}")
        whole = server.json("events")
        assert [each["kind"] for each in server.json("events", "--kind", "preempted", "--kind", "submitted")] == [
            each["kind"] for each in whole if each["kind"] in ("Preempt", "Submit")
        ]
        assert server.json("events", "--pool", "team") == [each for each in whole if each["pool"] == "team"]
        assert server.json("events", "--pool", "sim", "--kind", "started") == []
        middle = whole[len(whole) // 2]["time"]
        assert server.json("events", "--since", middle + "Z") == [each for each in whole if each["time"] >= middle]
        assert server.json("events", "--until", middle + "Z") == [each for each in whole if each["time"] <= middle]
        assert server.runrig("pool", "update", "sim", "--quota", "0").code == 0
        (resized,) = lines(server.runrig("events", "--kind", "resized").out)
        assert "resized pool sim: " in resized
        ghost = server.runrig("events", "--pool", "ghost")
        assert (ghost.code, "unknown pool 'ghost' (pools: sim, team)" in ghost.err) == (2, True)
        assert server.runrig("events", "--until", "1h").out == "nothing happened of that kind, there and then\n"
        assert server.runrig("events", "--kind", "eaten").code == 2
