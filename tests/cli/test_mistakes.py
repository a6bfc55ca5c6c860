"""Mistakes that people make on the command line: each is refused, or told, by a real server."""

import getpass
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig import __version__
from tests.worlds.command_line import Up, lines, runrig, up, written
from tests.worlds.workflow_files import one_task

pytestmark = pytest.mark.slow

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
        (["workflow", "list", "--all", "--pool", "vison"], "unknown pool 'vison'. Did you mean 'vision'?"),
        (
            ["workflow", "list", "--user", "ana"],
            "user 'ana' is unknown, or has no workflows that you can see. Did you mean 'anna'?",
        ),
        (
            ["workflow", "list", "--user", "zoe"],
            "user 'zoe' is unknown, or has no workflows that you can see. List all workflows with `runrig workflow list --all`",
        ),
        (
            ["limits", "show", "--user", "ana"],
            "user 'ana' is unknown, or has no workflows that you can see. Did you mean 'anna'?",
        ),
        (["role", "list", "--user", "ana"], "user 'ana' not found. Did you mean 'anna'?"),
        (["role", "list", "--pool", "vison"], "unknown pool 'vison'. Did you mean 'vision'?"),
        (["user", "history", "ana"], "user 'ana' not found. Did you mean 'anna'?"),
        (
            ["pool", "history", "vision", "--by", "ana"],
            "user 'ana' has not changed pool vision. To see who has, use `runrig pool history vision`",
        ),
    ],
)
def test_filter_with_an_unknown_name_is_refused(server: Up, args: list[str], says: str) -> None:
    done = server.runrig(*args)
    assert (done.code, done.out, done.err) == (2, "", f"Error: {says}\n")


def test_filter_by_a_known_name_may_match_nothing(server: Up) -> None:
    assert server.runrig("workflow", "list", "--pool", "video").out == "no workflows: --all shows those of all users\n"
    assert server.runrig("workflow", "list", "--user", "anna").code == 0
    assert server.runrig("pool", "history", "vision", "--by", "anna").code == 0
    assert server.runrig("role", "list", "--pool", "video").out == "no roles\n"


def test_wait_for_running_reports_that_the_workflow_has_ended(server: Up) -> None:
    """Also of one that ran."""
    text = one_task("over", 1, image="any", command=["x"], duration=3600)
    id = server.runrig("workflow", "submit", "-", "--pool", "video", "-t", "json", stdin=text).json["name"]
    assert server.runrig("workflow", "wait", id, "--for", "RUNNING").code == 0
    assert server.runrig("workflow", "cancel", id, "--force").out == f"{id} is cancelled\n"
    assert server.runrig("workflow", "wait", id, "--for", "FAILED").code == 0
    done = server.runrig("workflow", "wait", id, "--for", "RUNNING")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{id} is FAILED_CANCELED")


def test_version_is_printed_without_a_server() -> None:
    done = runrig("--version")
    assert (done.code, done.out, done.err) == (0, f"runrig {__version__}\n", "")


def test_login_accepts_host_and_port(server: Up, tmp_path: Path) -> None:
    url = json.loads((server.data / "server.json").read_text())["url"]
    token, home = str(server.data / "token"), {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = runrig("login", url.removeprefix("http://"), "--token-file", token, env=home)
    assert (done.code, done.out.split(" as ")[0]) == (0, f"logged in to {url}")
    far = runrig("login", "gpu.example.org:8700", "--token-file", token, env=home)
    assert far.code == 2
    assert "is not on this machine. Use https://gpu.example.org:8700, or http:// without TLS" in far.err


# ---------------------------------------------------------------- files

IN_RESOURCES = "set it under workflow, as resources: {default: {gpu: 1}}. A task uses default, or the entry named by resource: NAME."
TASK, WORKFLOW = "name: main, image: x, command: [x]", "workflow:\n  name: wrong\n"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (f"{WORKFLOW}  tasks: [{{{TASK}, gpus: 1}}]", f"3:48: a task has no field 'gpus': {IN_RESOURCES}"),
        (f"{WORKFLOW}  tasks: [{{{TASK}, memory: 1Gi}}]", f"3:48: a task has no field 'memory': {IN_RESOURCES}"),
        (
            f"{WORKFLOW}  array: 3\n  tasks: [{{{TASK}}}]",
            "3:3: a workflow has no field 'array': it belongs to a group, as in groups: [{name: runs, array: "
            '{indices: "0-9"}, tasks: [...]}]',
        ),
        (
            f"{WORKFLOW}  tasks: [{{{TASK}, env: {{A: b}}}}]",
            "3:48: a task has no field 'env': use environment: {NAME: VALUE}",
        ),
        (
            f"{WORKFLOW}  tasks: [{{{TASK}, priority: LOW}}]",
            "3:48: a task has no field 'priority': it applies to the whole workflow. Set it under workflow.",
        ),
        (
            f"{WORKFLOW}  tasks:\n  - {{{TASK}}}\n  - {{{TASK}}}",
            "5:5: tasks[1]: task 'main' is defined twice; first on line 4. Choose another name.",
        ),
    ],
)
def test_misplaced_field_is_reported_with_its_right_place(server: Up, file: str, says: str) -> None:
    done = server.runrig("workflow", "submit", "-", "--pool", "vision", stdin=file)
    assert (done.code, done.out, done.err) == (2, "", f"<stdin>:{says}\n")


def test_misplaced_limit_of_a_pool_is_reported_with_its_right_place(server: Up) -> None:
    done = server.runrig("apply", "-f", "-", stdin="pools:\n- {name: new, quota: 1, borrowing_limit: 2}\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "<stdin>:2:25: a pool has no field 'borrowing_limit': set it in the quota, as in quota: {gpu:"
    )


def test_data_folder_that_is_a_file_is_reported(tmp_path: Path) -> None:
    file = written(tmp_path, CLUSTER)
    done = runrig("up", "--data", file, "--port", "0")
    says = f"data folder {file} is a file. To use a cluster file, pass --cluster; for the data, choose another with --data or RUNRIG_DATA"
    assert (done.code, done.out, lines(done.err)[1:]) == (2, "", [f"Error: {says}"])


# ---------------------------------------------------------------- what a suggestion shows


def test_workflow_that_runs_again_is_no_longer_shown_as_preempted(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--cluster", written(tmp_path, CLUSTER)) as it:
        low = one_task("low", 2, image="any", command=["x"], count=4, duration=3600)
        assert it.runrig("workflow", "submit", "-", "--pool", "vision", "--priority", "LOW", stdin=low).code == 0
        assert it.runrig("workflow", "wait", "low-1", "--for", "RUNNING", "--timeout", "60").code == 0
        firm = one_task("firm", 2, image="any", command=["x"], duration=3600)
        assert it.runrig("workflow", "submit", "-", "--pool", "video", stdin=firm).code == 0
        assert it.runrig("workflow", "wait", "firm-1", "--for", "RUNNING", "--timeout", "60").code == 0
        assert "preempted by firm-1" in it.runrig("workflow", "query", "low-1").out.partition("Task ")[0]
        assert "was preempted by firm-1" in it.runrig("why", "low-1").out
        assert it.runrig("workflow", "cancel", "firm-1").code == 0
        assert it.runrig("workflow", "wait", "low-1", "--for", "RUNNING", "--timeout", "60").out == "low-1 is RUNNING\n"
        head, _, attempts = it.runrig("workflow", "query", "low-1").out.partition("Task ")
        assert ("preempted" in head, attempts.count("preempted by firm-1")) == (False, 4)
        assert "preempted by" not in it.runrig("why", "low-1").out
        assert "preempted by firm-1" in it.runrig("workflow", "events", "low-1").out


def test_time_in_whole_seconds_is_shown_as_written(server: Up) -> None:
    early = server.runrig("pool", "show", "vision", "--at", "2020-01-01T00:00:00+00:00")
    assert early.err.startswith("Error: pool 'vision' did not exist at 2020-01-01 00:00:00 UTC: ")
    changed = server.json("pool", "history", "vision")["entries"][0]["time"]
    second = changed[:19]
    assert server.json("pool", "show", "vision", "--at", f"{second}+00:00")["at"] == second


def test_hint_about_roles_names_the_smallest_sufficient_role(server: Up, tmp_path: Path) -> None:
    """At the first attempt, also for who may change neither the pool nor what it is promised."""
    token = server.runrig("token", "create", "laptop", "--user", "anna", "-t", "json").json["token"]
    env = {"RUNRIG_DATA": str(server.data), "RUNRIG_TOKEN": token}
    for option, role in ((("--quota", "5"), "admin"), (("--description", "x"), "vision-admin")):
        done = runrig("pool", "update", "vision", *option, env=env)
        assert (done.code, done.out) == (4, "")
        assert f"Required role: {role}. An administrator can grant it: `runrig role grant anna {role}`" in done.err


def test_a_workflow_with_several_groups_on_a_node_has_one_entry_there(tmp_path: Path) -> None:
    tasks = ", ".join(f"{{name: {name}, image: x, command: [x], duration: 3600s}}" for name in ("a", "b"))
    text = f"workflow:\n  name: pair\n  resources: {{default: {{gpu: 1}}}}\n  tasks: [{tasks}]\n"
    with up(tmp_path / "data", "--cluster", written(tmp_path, CLUSTER, "cluster.yaml")) as it:
        assert it.runrig("workflow", "submit", "-", "--pool", "video", stdin=text).code == 0
        assert it.runrig("workflow", "wait", "pair-1", "--for", "RUNNING", "--timeout", "60").code == 0
        shown = it.runrig("topology", "show", "--pool", "video", "--nodes").out.splitlines()
    rows = [line for line in shown if "pair" in line]
    assert [row.count("pair-1") for row in rows] == [1] * len(rows)
    assert "pair-1 2" in rows[0]


# ---------------------------------------------------------------- cluster files


def test_apply_that_would_undo_manual_changes_requires_force(tmp_path: Path) -> None:
    """What the file says itself, or never declared, is no matter of --force."""
    me = getpass.getuser()
    with up(tmp_path / "data", "--backend", "simulated", "--gpus", "8") as it:
        file = (
            "cohorts: [{{name: org, quota: {}}}]\npools:\n- {{name: team, quota: {}, cohort: org, description: {}}}\n"
        )
        assert it.runrig("apply", "-f", "-", stdin=file.format(1, 2, "ours")).code == 0
        assert it.runrig("pool", "update", "team", "--quota", "3").code == 0
        more = it.runrig("apply", "-f", "-", stdin=file.format(1, 3, "all of ours"))  # the file contains the change
        assert (more.code, "1 changed" in more.out) == (0, True)
        assert it.runrig("pool", "update", "team", "--quota", "4").code == 0
        assert it.runrig("cohort", "update", "org", "--quota", "0").code == 0
        declared = it.runrig("export").out
        done = it.runrig("apply", "-f", "-", stdin=file.format(1, 2, "mine"))
        assert (done.code, done.out, it.runrig("export").out) == (1, "", declared)
        when = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} UTC"
        assert re.fullmatch(
            rf"Error: cohort org was changed by {me} at {when} \(quota\); pool team was changed by {me} at {when} \(quota\)\. "
            r"The file would undo this\. Add the change to the file, or apply it with --force\n",
            done.err,
        )
        shown = it.runrig("apply", "-f", "-", "--dry-run", stdin=file.format(1, 2, "mine"))
        assert (shown.code, shown.err.count("use --force to undo it")) == (0, 2)
        other = it.runrig("apply", "-f", "-", stdin=file.format(0, 4, "mine"))
        assert (other.code, "by hand" in other.err, "undone" in other.err) == (0, False, False)
        assert it.runrig("pool", "update", "team", "--quota", "5").code == 0
        assert it.runrig("apply", "-f", "-", "--force", stdin=file.format(0, 2, "mine")).code == 0
        assert it.json("pool", "show", "team")["quota"] == 2
        assert it.runrig("apply", "-f", "-", stdin=file.format(0, 3, "mine")).code == 0  # no manual change since
