"""`runrig export` of a server as a process: what it prints is applied without a change, there and by an empty one."""

from pathlib import Path

import pytest

from tests.worlds.command_line import Up, up

pytestmark = pytest.mark.slow

FILE = """
flavors: [{name: big}, {name: small, node_labels: {size: small}}]
cohorts: [{name: org, quota: {big: {gpu: 2}}}, {name: research, parent: org, weight: 3}]
pools:
- name: team
  cohort: research
  description: "08: of old"
  quota: {big: {gpu: {nominal: 2, lending_limit: 1}, memory: 1536Mi, cpu: 500m}, small: {gpu: 4}}
  queueing: STRICT_FIFO
  default_exit_actions: {RESCHEDULE: "3006,100-110"}
  subpools: [{name: a, quota: "big=0,small=2"}, {name: b, quota: "50%"}]
- {name: idle, flavors: [small], quota: 0}
roles: [{user: ann, role: admin}, {user: bob, role: user, pool: team}]
"""


def exported(server: Up) -> str:
    done = server.runrig("export")
    assert (done.code, done.err) == (0, "")
    assert server.json("export") == {"file": done.out}
    return done.out


def applied(server: Up, text: str, folder: Path, *options: str) -> list[tuple[str, str]]:
    file = folder / "cluster.yaml"
    file.write_text(text)
    answer = server.json("apply", "-f", str(file), *options)
    assert "changes" in answer, answer
    return [(each["kind"], each["name"]) for each in answer["changes"] if each["action"] != "unchanged"]


def test_export_applies_without_changes_and_recreates_the_same_elsewhere(tmp_path: Path) -> None:
    with up(tmp_path / "one", "--gpus", "0") as server:
        server.runrig("pool", "delete", "default", "--yes")
        assert applied(server, FILE, tmp_path)
        assert server.runrig("pool", "subpool", "update", "team", "b", "--quota", "big=0,small=0").code == 0
        text = exported(server)
        assert applied(server, text, tmp_path, "--dry-run") == []
        assert applied(server, text, tmp_path) == []
        assert exported(server) == text
    with up(tmp_path / "two", "--gpus", "0") as server:
        server.runrig("pool", "delete", "default", "--yes")
        assert ("pool", "team--b") in applied(server, text, tmp_path)
        assert exported(server) == text
