"""Subpools as people use them: a server as a process, driven through the command line (subpools.md; laws P3, R7, S1-S6)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import until
from tests.worlds.command_line import Up, lines, runrig, up
from tests.worlds.workflow_files import one_task

CLUSTER = """
backend: {type: simulated}
nodes: [{name: big, resources: {gpu: 128}}]
pools: [{name: team, quota: 100}]
"""
TABLE = [
    "Pool            Status         Subpool State  GPU Quota        Used  Available",
    "--------------  -------------  -------------  ---------------  ----  ---------",
    "team            ONLINE         -              10 (Total: 100)  50    -40",
    "├─ team--a      ONLINE         ACTIVE         30               5     25",
    "├─ team--b      ONLINE         ACTIVE         40               10    30",
    "└─ team--c      ONLINE         ACTIVE         20               0     20",
]


def cluster(folder: Path, text: str = CLUSTER) -> str:
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Up]:
    with up(tmp_path / "data", "--cluster", cluster(tmp_path), "--drain-sweep", "1") as server:
        yield server


def submit(server: Up, name: str, pool: str, gpus: int, *options: str) -> Any:
    text = one_task(name, gpus, duration="10h")
    return server.runrig("workflow", "submit", "-", "--pool", pool, *options, stdin=text)


def runs(server: Up, name: str, pool: str, gpus: int, *options: str) -> None:
    done = submit(server, name, pool, gpus, *options)
    assert done.code == 0, done.err
    assert server.runrig("workflow", "wait", f"{name}-1", "--for", "RUNNING", "--timeout", "30").code == 0


def sliced(server: Up) -> None:
    """The example of the specification: 50 GPUs of the parent are in use before it is cut."""
    runs(server, "older", "team", 50)
    for short, gpus in (("a", 30), ("b", 40), ("c", 20)):
        assert server.runrig("pool", "subpool", "create", "team", short, "--quota", str(gpus)).code == 0
    runs(server, "wa", "team--a", 5)
    runs(server, "wb", "team--b", 10)


def table(server: Up, *args: str) -> list[str]:
    done = server.runrig("pool", "list", *args)
    assert (done.code, done.err) == (0, "")
    return list(lines(done.out))


def test_the_example_of_the_specification_prints_its_table(team: Up) -> None:
    """R7, S2."""
    sliced(team)
    assert table(team) == TABLE
    assert table(team, "--pool", "team") == TABLE
    assert team.runrig("workflow", "query", "older-1").out.count("RUNNING") > 0

    refused = submit(team, "more", "team", 15, "--priority", "HIGH")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "Error: more needs 15 GPUs, but pool team has 10 unallocated (3 subpools have 90 of its 100 GPUs). "
        "Request less, submit with priority LOW to borrow, or submit to team--b, which has 30 GPUs of quota left "
        "(Gate, rule P3)\n"
    )
    runs(team, "low", "team", 15, "--priority", "LOW")
    assert table(team) == TABLE
    assert submit(team, "fits", "team", 10).code == 0
    assert "fits-1 is waiting" in team.runrig("workflow", "why", "fits-1").out


def test_draining_subpool_shows_its_progress_and_returns_its_quota(team: Up) -> None:
    """S3."""
    sliced(team)
    assert submit(team, "late", "team--b", 40).code == 0
    done = team.runrig("pool", "subpool", "delete", "team", "b", "--dry-run")
    assert lines(done.out)[0].startswith("pool team--b would be DELETING: 1 workflow with 10 GPUs still runs there")
    assert table(team) == TABLE
    done = team.runrig("pool", "subpool", "delete", "team", "b")
    assert lines(done.out) == [
        "pool team--b is DELETING: 1 workflow with 10 GPUs still runs there, and it keeps 40 GPUs of team until it has ended",
        "cancelled, as they had not started: late-1",
    ]
    assert table(team)[4] == "├─ team--b      DELETING       DELETING       0 (Held: 40)     10    -10"
    assert "was deleted before it started" in " ".join(team.runrig("workflow", "why", "late-1").out.split())
    assert (
        "pool team--b is DELETING and does not accept submissions"
        in submit(team, "no", "team--b", 1, "--priority", "LOW").err
    )
    for command in (
        ("update", "team", "b", "--quota", "1"),
        ("delete", "team", "b"),
        ("create", "team", "b", "--quota", "1"),
    ):
        done = team.runrig("pool", "subpool", *command)
        assert (done.code, "1 workflow with 10 GPUs is running in it" in done.err) == (1, True)
    assert team.runrig("pool", "subpool", "delete", "team", "c").out == (
        "pool team--c is ARCHIVED: nothing runs there, and its quota is unallocated in team again\n"
    )
    assert [line.split()[0:2] for line in table(team)[2:]] == [["team", "ONLINE"], ["├─", "team--a"], ["└─", "team--b"]]
    team.runrig("workflow", "cancel", "wb-1")
    assert team.runrig("workflow", "wait", "wb-1", "--timeout", "30").code in (0, 125)
    until(lambda: not any("team--b" in line for line in table(team)))  # archived later in the same cycle
    assert table(team)[2:] == [
        "team            ONLINE         -              70 (Total: 100)  50    20",
        "└─ team--a      ONLINE         ACTIVE         30               5     25",
    ]
    assert [line.split()[3] for line in table(team, "--all")[4:]] == ["ARCHIVED", "ARCHIVED"]
    assert team.runrig("pool", "subpool", "create", "team", "b", "--quota", "33.3%").out == (
        "subpool team--b: created with quota 33\npool team has 37 of its 100 GPUs unallocated\n"
    )


def test_cluster_file_creates_subpools_and_a_restart_keeps_them(tmp_path: Path) -> None:
    """S1, W2."""
    text = CLUSTER.replace("quota: 100", "quota: 100, subpools: [{name: a, quota: '30%'}, {name: b, quota: 40}]")
    with up(tmp_path / "data", "--cluster", cluster(tmp_path, text)) as first:
        before = table(first)
        assert before[2].split()[3:6] == ["30", "(Total:", "100)"]
        assert first.runrig("pool", "subpool", "delete", "team", "b").code == 0
    with up(tmp_path / "data", "--backend", "simulated", "--cluster", cluster(tmp_path)) as second:
        assert table(second)[2:] == [
            "team            ONLINE         -              70 (Total: 100)  0     70",
            "└─ team--a      ONLINE         ACTIVE         30               0     30",
        ]
        done = second.runrig("apply", "-f", cluster(tmp_path, text))
        assert done.code == 0, done.err
        assert table(second) == before


BAD = [
    (["create", "team", "x", "--quota", "71"], 1, "but team has only 100. Give x at most 70"),
    (["create", "team", "x", "--quota", "9223372036854775808"], 2, "too large"),
    (["create", "team", "x", "--quota", "101%"], 2, "at most 100%"),
    (["create", "team", "x", "--quota=-1%"], 2, "is not a percentage"),
    (["create", "team", "x", "--quota", "%"], 2, "is not a percentage"),
    (["create", "team", "x", "--quota", "h100=1"], 2, "unknown flavor 'h100'"),
    (["create", "team", "x--y", "--quota", "1"], 2, "contains '--'"),
    (["create", "team", "_x", "--quota", "1"], 2, "is reserved"),
    (["create", "team", "а", "--quota", "1"], 2, "must be lower-case letters"),
    (["create", "team", "x" * 300, "--quota", "1"], 2, "too long (300 characters, maximum 63)"),
    (["create", "team", "x" * 60, "--quota", "1"], 2, "so NAME can have up to 57"),
    (["create", "team", "'; DROP TABLE pools", "--quota", "1"], 2, "must be lower-case letters"),
    (["create", "team", "a", "--quota", "1"], 1, "already exists"),
    (["create", "team--a", "x", "--quota", "1"], 1, "a subpool cannot have subpools"),
    (["create", "nowhere", "x", "--quota", "1"], 2, "unknown pool 'nowhere'"),
    (["update", "team", "nowhere", "--quota", "1"], 2, "has no subpool 'nowhere'"),
    (["delete", "team", "nowhere"], 2, "has no subpool 'nowhere'"),
    (["list", "nowhere"], 2, "unknown pool 'nowhere'"),
]


def test_impossible_commands_are_reported_with_their_exit_code_and_change_nothing(tmp_path: Path) -> None:
    text = CLUSTER.replace("quota: 100", "quota: 100, subpools: [{name: a, quota: 30}]")
    with up(tmp_path / "data", "--cluster", cluster(tmp_path, text)) as server:
        before = server.json("pool", "list", "--all"), server.json("pool", "history", "team")
        for args, code, says in BAD:
            done = server.runrig("pool", "subpool", *args)
            assert (done.code, done.out, says in done.err) == (code, "", True), (args, done)
            assert "Traceback" not in done.err
        assert before == (server.json("pool", "list", "--all"), server.json("pool", "history", "team"))
        done = server.runrig("pool", "update", "team", "--quota", "29")
        assert (done.code, "its subpools have 30 (a 30)" in done.err) == (1, True)
        done = server.runrig("pool", "delete", "team")
        assert (done.code, "pool team has subpools (team--a): delete them first" in done.err) == (1, True)


def test_sweep_interval_is_an_option_of_up(team: Up, tmp_path: Path) -> None:
    """S3."""
    team.runrig("pool", "subpool", "create", "team", "a", "--quota", "1")
    runs(team, "w", "team--a", 1)
    team.runrig("pool", "subpool", "delete", "team", "a")
    assert team.runrig("workflow", "wait", "w-1", "--timeout", "2").code == 75
    assert "event=drain_sweep pools=team--a" in (team.data / "server.log").read_text(encoding="utf-8")
    done = runrig("up", "--drain-sweep", "0", "--data", str(tmp_path / "d"))
    assert (done.code, "--drain-sweep" in done.err, (tmp_path / "d").exists()) == (2, True, False)
