"""Mistakes that people make on the command line: each is refused, or told, by a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig import __version__
from tests.worlds.command_line import Up, runrig, up, written
from tests.worlds.workflow_files import one_task

CLUSTER = """
backend: {name: lab, type: simulated}
nodes:
- {name: "n{0..3}", resources: {gpu: 2}, labels: {rack: "r{n//2}"}}
cohorts:
- {name: research}
pools:
- {name: vision, cohort: research, quota: 4, topology_keys: [{key: rack, label: rack}]}
- {name: video, quota: 4}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    here = tmp_path_factory.mktemp("mistakes")
    with up(here / "data", "--cluster", written(here, CLUSTER, "cluster.yaml")) as found:
        assert found.runrig("user", "create", "anna", "--role", "vision-user").code == 0
        text = one_task("train", 1, image="any", command=["x"], duration=3600)
        assert found.runrig("workflow", "submit", "-", "--pool", "vision", stdin=text).code == 0
        yield found


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["workflow", "list", "--all", "--pool", "vison"], "there is no pool 'vison': there are video, vision"),
        (
            ["workflow", "list", "--user", "ana"],
            "no user 'ana' has submitted anything that you see: did you mean 'anna'?",
        ),
        (
            ["workflow", "list", "--user", "zoe"],
            "no user 'zoe' has submitted anything that you see: `runrig workflow list --all` shows who has",
        ),
        (["role", "list", "--user", "ana"], "there is no user 'ana': `runrig user list` lists them all"),
        (["role", "list", "--pool", "vison"], "there is no pool 'vison': there are video, vision"),
        (["user", "history", "ana"], "there is no user 'ana': `runrig user list` lists them all"),
        (
            ["pool", "history", "vision", "--by", "ana"],
            "no user 'ana' has changed pool vision: `runrig pool history vision` shows who has",
        ),
    ],
)
def test_a_filter_by_a_name_that_is_not_there_is_refused(server: Up, args: list[str], says: str) -> None:
    done = server.runrig(*args)
    assert (done.code, done.out, done.err) == (2, "", f"Error: {says}\n")


def test_a_filter_by_a_name_that_is_there_may_fit_nothing(server: Up) -> None:
    assert server.runrig("workflow", "list", "--pool", "video").out == "no workflows: --all shows those of all users\n"
    assert server.runrig("workflow", "list", "--user", "anna").code == 0
    assert server.runrig("pool", "history", "vision", "--by", "anna").code == 0
    assert server.runrig("role", "list", "--pool", "video").out == "no roles\n"


@pytest.mark.parametrize(
    "args",
    [
        ["pool", "create", "new", "--quota", "1", "--cohort", "reserch"],
        ["pool", "update", "video", "--cohort", "reserch"],
        ["cohort", "create", "new", "--parent", "reserch"],
        ["cohort", "update", "research", "--parent", "reserch"],
    ],
)
def test_a_cohort_that_is_not_there_is_refused(server: Up, args: list[str]) -> None:
    before = server.json("cohort", "list")
    done = server.runrig(*args)
    says = "Error: there is no cohort 'reserch': did you mean 'research'? `runrig cohort create reserch` makes it\n"
    assert (done.code, done.out, done.err) == (2, "", says)
    assert server.json("cohort", "list") == before


def test_one_wrong_name_among_right_ones_is_refused_too(server: Up) -> None:
    done = server.runrig("workflow", "list", "--all", "--pool", "vision", "--pool", "vison")
    assert (done.code, done.out) == (2, "")


def test_who_waits_for_running_is_told_that_it_is_over(server: Up) -> None:
    """Also of one that ran."""
    text = one_task("over", 1, image="any", command=["x"], duration=3600)
    id = server.runrig("workflow", "submit", "-", "--pool", "video", "-t", "json", stdin=text).json["name"]
    assert server.runrig("workflow", "wait", id, "--for", "RUNNING").code == 0
    assert server.runrig("workflow", "cancel", id, "--force").out == f"{id} is cancelled\n"
    assert server.runrig("workflow", "wait", id, "--for", "FAILED").code == 0
    done = server.runrig("workflow", "wait", id, "--for", "RUNNING")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{id} is FAILED_CANCELED")


def test_of_several_cancels_each_that_fails_says_why_as_if_it_were_alone(server: Up) -> None:
    text = one_task("gone", 1, image="any", command=["x"], duration=3600)
    id = server.runrig("workflow", "submit", "-", "--pool", "video", "-t", "json", stdin=text).json["name"]
    done = server.runrig("workflow", "cancel", "nope-1", id, "nope-2")
    assert (done.code, done.out) == (1, f"{id} is cancelled\n")
    assert done.err == "".join(server.runrig("workflow", "cancel", each).err for each in ("nope-1", "nope-2"))


def test_the_version_is_told_without_a_server() -> None:
    done = runrig("--version")
    assert (done.code, done.out, done.err) == (0, f"runrig {__version__}\n", "")


def test_login_at_host_and_port(server: Up, tmp_path: Path) -> None:
    url = json.loads((server.data / "server.json").read_text())["url"]
    token, home = str(server.data / "token"), {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = runrig("login", url.removeprefix("http://"), "--token-file", token, env=home)
    assert (done.code, done.out.split(" as ")[0]) == (0, f"logged in at {url}")
    far = runrig("login", "gpu.example.org:8700", "--token-file", token, env=home)
    assert far.code == 2
    assert "is not on this machine: write https://gpu.example.org:8700, or http:// without TLS" in far.err
