"""`runrig simulate` as it is typed: what comes out for people and for scripts, and with which exit code it ends."""

import io
import json
import os
import signal
import subprocess
from contextlib import redirect_stderr
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from runrig.cli.commands import simulate
from tests.patience import PATIENCE_S
from tests.service.simulate.simulations import FLAVOR, LATEST, behind, job, kueue, manifests, queue, running, workload
from tests.worlds.command_line import lines, process, runrig, written
from tests.worlds.manifests import group, pod
from tests.worlds.workflow_files import one_task

CLUSTER = """
nodes: [{name: "n{0..1}", resources: {gpu: 4}}]
cohorts: [{name: lab}]
pools:
- {name: vision, cohort: lab, quota: 4}
- {name: batch, cohort: lab, quota: 4}
workflows:
- {file: low.yaml, pool: batch, priority: LOW}
- {file: low.yaml, pool: batch, priority: LOW, at: 5s}
- {file: high.yaml, pool: vision, priority: HIGH, at: 10s}
- {file: wide.yaml, pool: vision, at: 12s}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path, CLUSTER, "cluster.yaml")
    written(tmp_path, one_task("low", gpus=2, count=2, duration="100s"), "low.yaml")
    written(tmp_path, one_task("high", gpus=4, duration="30s"), "high.yaml")
    written(tmp_path, one_task("wide", count=6, minCount=2, duration="50s"), "wide.yaml")
    return tmp_path


# ---------------------------------------------------------------- for people


def test_text_output_has_the_tree_and_then_each_cycle(folder: Path) -> None:
    done = runrig("simulate", "--cycles", "4", str(folder / "cluster.yaml"))
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
cluster.yaml

Name       Kind    Resource     Nominal  Used   Available  Borrowed
---------  ------  -----------  -------  -----  ---------  --------
lab        Cohort  default/gpu  0        0 → 8  8 → 0      0
├─ batch   Pool    default/gpu  4        0 → 4  8 → 0      0
└─ vision  Pool    default/gpu  4        0 → 4  8 → 0      0

Cycle 1, at 0 s: 1 admitted

Admitted          Queue  Pods         Flavors
----------------  -----  -----------  -------
low-1/main-group  batch  2 on n0 (2)  default

Cycle 2, at 5 s: 1 admitted

Admitted          Queue  Pods         Flavors
----------------  -----  -----------  -------
low-2/main-group  batch  2 on n1 (2)  default

Cycle 3, at 10 s: 1 preempted, 1 pending

Preempted         Queue  By                 Reason
----------------  -----  -----------------  ---------------------------------------------------
low-2/main-group  batch  high-1/main-group  its pool reclaims borrowed quota (Reclaim, rule R2)

Pending            Queue   State       Reason
-----------------  ------  ----------  -------------------------------------------------
high-1/main-group  vision  considered  WaitsForTargets: low-2/main-group must stop first

Cycle 4, at 11 s: 1 admitted, 1 pending

Admitted           Queue   Pods     Flavors
-----------------  ------  -------  -------
high-1/main-group  vision  1 on n1  default

Pending           Queue  State   Reason
----------------  -----  ------  ---------------------------------------------------------------
low-2/main-group  batch  parked  NoIdleToBorrow: needs 4 GPUs, but the cluster has no idle quota
"""
    )


def test_unchanged_cycles_are_not_repeated(folder: Path) -> None:
    done = runrig("simulate", "--cycles", "0", str(folder / "cluster.yaml"))
    assert [each for each in lines(done.out) if each.startswith("Cycle")] == [
        "Cycle 1, at 0 s: 1 admitted",
        "Cycle 2, at 5 s: 1 admitted",
        "Cycle 3, at 10 s: 1 preempted, 1 pending",
        "Cycle 4, at 11 s: 1 admitted, 1 pending",
        "Cycle 5, at 12 s: 2 pending",
        "Cycle 6, at 41 s: 1 admitted, 1 pending",
        "Cycle 7, at 91 s: 1 admitted",
        "Cycles 8 to 9: nothing new",
    ]
    assert "wide-1/main-group  vision  4 of 6 pods on n1 (4)  default" in done.out


def test_queue_with_the_name_of_its_cohort_is_listed_below_it(folder: Path) -> None:
    done = runrig("simulate", written(folder, manifests(FLAVOR, *queue("team", 4, "team")), "team.yaml"))
    assert [line.split()[:2] for line in lines(done.out)[4:6]] == [["team", "Cohort"], ["└─", "team"]]


def test_several_files_are_shown_one_after_the_other(folder: Path) -> None:
    other = written(folder, "pools: [{name: p, quota: 2}]", "other.yaml")
    done = runrig("simulate", other, other)
    once = """\
other.yaml

Name  Kind  Resource     Nominal  Used  Available  Borrowed
----  ----  -----------  -------  ----  ---------  --------
p     Pool  default/gpu  2        0     2          0

Warnings
  document 1: nodes: the file lists no nodes, so only quotas are checked
"""
    assert done.out == f"{once}\n{once}"


def test_no_control_character_reaches_a_terminal(folder: Path) -> None:
    evil = folder / "\x1b]0;title\x07\x1b[31mred.yaml"
    evil.write_text('pools: [{name: p, quota: 2, description: "\\e[31m"}]\nworkflows: [{file: "\\e[2Jx.yaml"}]')
    done = runrig("simulate", str(evil))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("red.yaml:1:42: ")
    assert "\x1b" not in done.err


MANIFESTS = manifests(
    FLAVOR,
    kueue("Cohort", "x", {"parentName": "x"}),
    *queue("cq-a", 4, "team", preemption={"withinClusterQueue": "LowerPriority"}),
    *queue("cq-b", 4, "team"),
    *queue("cq-c", 1, "x"),
    workload("old", "cq-a", 4, running=True),
    workload("goes-on", "cq-c", 1, running=True),
    workload("few", "cq-b", 1, 9, at=2, minCount=2),
    workload("new", "cq-a", 4, at=LATEST, priority=5),
    workload("lost", "nowhere", 1),
)


def test_text_output_of_manifests_has_the_same_structure(folder: Path) -> None:
    file = written(folder, MANIFESTS, "kueue.yaml")
    done = runrig("simulate", file, "--cycles", "2")
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
kueue.yaml

Name     Kind          Resource     Nominal  Used   Available  Borrowed
-------  ------------  -----------  -------  -----  ---------  --------
team     Cohort        default/cpu  0        4 → 8  4 → 0      0
├─ cq-a  ClusterQueue  default/cpu  4        4      4 → 0      0
└─ cq-b  ClusterQueue  default/cpu  4        0 → 4  4 → 0      0
x        Cohort        default/cpu  -        1      -          -
cq-c     ClusterQueue  default/cpu  -        1      -          -

ClusterQueue cq-c is inactive (CohortCycle): nothing new starts in it
Cohort x is inactive (CohortCycle): nothing new starts in it

Cycle 1: 1 admitted, 2 pending

Admitted     Queue  Pods         Flavors
-----------  -----  -----------  -------
default/few  cq-b   4 of 9 pods  default

Pending       Queue  State       Reason
------------  -----  ----------  --------------------------------------------------------------
default/new   cq-a   considered  WaitingForQuota: needs 4 CPU cores, but team has no idle quota
default/lost  -      held back   unknown LocalQueue default/nowhere

Cycle 2: 1 preempted, 2 pending

Preempted    Queue  By           Reason
-----------  -----  -----------  -------------------------------------------------
default/old  cq-a   default/new  InClusterQueue: higher position in the same queue

Pending      Queue  State       Reason
-----------  -----  ----------  ---------------------------------------------------------
default/new  cq-a   considered  WaitingForPreemptedWorkloads: default/old must stop first

Warnings
  document 2: spec.parentName: cohorts form a cycle, x → x: nothing new starts in this tree
  document 13: spec.queueName: unknown LocalQueue default/nowhere: it is never considered
"""
    )


def test_changes_to_each_job_are_shown(folder: Path) -> None:
    """Law A3: what its owner gets back, and what starts it again.  Where only Workloads start, nothing is said of Jobs."""
    runs = job("train", 5, 4)
    runs["spec"] |= {"suspend": False}
    text = manifests(
        FLAVOR,
        *queue("cq-a", 4, "x"),
        *queue("cq-b", 3, "x", preemption={"reclaimWithinCohort": "Any"}),
        runs,
        behind(running(8, 4, 5), "Job", "train"),
        workload("own", "cq-b", 3, at=LATEST),
    )
    out = runrig("simulate", written(folder, text, "jobs.yaml"), "--cycles", "3").out
    assert (
        """
Preempted    Queue  By           Reason                                                  Written into the Job
-----------  -----  -----------  ------------------------------------------------------  ---------------------------------------------
default/run  cq-a   default/own  InCohortReclamation: its queue reclaims borrowed quota  parallelism: 8, completions: 8, suspend: true
"""
        in out
    )
    assert "\nAdmitted     Queue  Pods  Flavors\n" in out
    assert (
        """
Admitted     Queue  Pods         Flavors  Written into the Job
-----------  -----  -----------  -------  ----------------------------------------------
default/run  cq-a   4 of 8 pods  default  parallelism: 4, completions: 4, suspend: false
"""
        in out
    )


# ---------------------------------------------------------------- for scripts


def test_json_output_has_one_line_per_file(folder: Path) -> None:
    file = str(folder / "cluster.yaml")
    done = runrig("simulate", file, file, "-t", "json")
    first, second = lines(done.out)
    assert (done.code, done.err, first) == (0, "", second)
    told = json.loads(first)
    assert list(told) == ["scenario", "quota", "inactive", "cohorts", "cycles", "shares", "warnings"]
    assert told["scenario"] == "cluster.yaml"
    assert list(told["cycles"][0]) == ["at", "admitted", "preempted", "pending", "skipped_preemptions"]


def test_invalid_file_does_not_affect_the_others(folder: Path) -> None:
    good = str(folder / "cluster.yaml")
    bad = written(folder, "pools: [{name: A}]\nnodes: 7\n", "bad.yaml")
    binary = folder / "binary.yaml"
    binary.write_bytes(b"a: \xff\xfe")
    files = [bad, good, str(folder / "gone.yaml"), str(folder), "/", str(binary)]
    done = runrig("simulate", *files, "-t", "json")
    assert (done.code, done.err) == (2, "")
    answers = [json.loads(line) for line in lines(done.out)]
    assert [answer["scenario"] for answer in answers] == [
        "bad.yaml",
        "cluster.yaml",
        "gone.yaml",
        folder.name,
        "/",
        "binary.yaml",
    ]
    assert [answer.get("error") for answer in answers] == [
        "bad.yaml:1:16: name: pool name 'A' must be lower-case letters, digits and '-', start with a letter and not end with '-'; "
        "bad.yaml:2:8: nodes: expected a list with '- ' before each item, got 7",
        None,
        "gone.yaml: no such file",
        f"{folder.name}: this is a folder. Use -f to read it as one cluster, or name a file in it.",
        "/: this is a folder. Use -f to read it as one cluster, or name a file in it.",
        "binary.yaml:1: the scenario is not text: byte 0xff is not UTF-8",
    ]


def test_errors_go_to_stderr_with_one_line_per_problem(folder: Path) -> None:
    bad = written(folder, "pools: [{name: A}]\nnodes: 7\n", "bad.yaml")
    done = runrig("simulate", bad, str(folder / "cluster.yaml"))
    assert done.code == 2
    assert [line.partition(": ")[0] for line in lines(done.err)] == ["bad.yaml:1:16", "bad.yaml:2:8"]
    assert "cluster.yaml\n\nName " in done.out


def test_a_file_that_is_far_too_large_is_refused_quickly(folder: Path) -> None:
    huge = folder / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    done = runrig("simulate", str(huge))
    assert (done.code, done.err) == (2, "huge.yaml: the scenario is too large (52,428,800 bytes, maximum 524,288)\n")
    huge.write_text("apiVersion: v1\n" + "#" * 30 * 1024 * 1024)
    done = runrig("simulate", str(huge))
    says = "huge.yaml: the file huge.yaml has 31,457,295 bytes: the limit for YAML is 20,971,520. Use JSON"
    assert (done.code, done.err.startswith(says)) == (2, True)


def test_stdin_is_a_scenario_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = runrig("simulate", "-", "-t", "json", stdin=CLUSTER)
    told = json.loads(done.out)
    assert (told["scenario"], told["cycles"][0]["admitted"][0]["workload"]) == ("<stdin>", "low-1/main-group")


@pytest.mark.slow
def test_two_runs_give_equal_bytes(folder: Path) -> None:
    kueue_file = written(folder, MANIFESTS, "kueue.yaml")
    outs = set()
    for seed in ("1", "2"):
        command = process("simulate", "--cycles", "0", str(folder / "cluster.yaml"), kueue_file, "-t", "json")
        env = {**os.environ, "PYTHONHASHSEED": seed}
        outs.add(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    assert len(outs) == 1


# ---------------------------------------------------------------- several files as one cluster


def test_folder_is_read_as_one_cluster_with_additional_files(tmp_path: Path) -> None:
    below = tmp_path / "queues" / "deeper"
    below.mkdir(parents=True)
    for at, each in enumerate((FLAVOR, *queue("cq-a", 4), workload("b-waits", "cq-a", 3))):
        written(below if at % 2 else below.parent, manifests(each), f"{at}.{('yaml', 'yml', 'json')[at % 3]}")
    (below / "notes.txt").write_text("not YAML: [")
    beside = written(tmp_path, manifests({**workload("a-new", "cq-a", 2, at=5), "sepc": 1}), "new.yaml")
    done = runrig("simulate", "--cycles", "0", "-t", "json", "-f", str(below.parent), "-f", beside)
    told = json.loads(done.out)
    assert (done.code, told["scenario"]) == (0, "queues, new.yaml")
    assert [each["workload"] for cycle in told["cycles"] for each in cycle["admitted"]] == ["default/b-waits"]
    assert [(each["file"], each["path"]) for each in told["warnings"]] == [(beside, "sepc")]
    assert f"{beside}, document 1: sepc: unknown field" in runrig("simulate", "-f", str(below.parent), "-f", beside).out


def test_error_in_a_folder_names_the_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = runrig("simulate", "-f", str(empty))
    assert (done.code, done.err) == (2, f"empty: no file in {empty} ends in .yaml, .yml, .json\n")
    bad = written(tmp_path, "a: [", "bad.yaml")
    done = runrig("simulate", "-f", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert f"{bad}: document 1: not valid YAML" in done.err


def test_byte_amounts_and_pod_sets_without_a_flavor_are_readable(tmp_path: Path) -> None:
    quota = {"default": {"ephemeral-storage": "20Gi", "hugepages-2Mi": "4Mi"}}
    fields = {"namespaceSelector": {}, "resourceGroups": [group(quota)]}
    bare = {"name": "bare", "count": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    disk = {"name": "disk", "count": 1, "template": pod({"ephemeral-storage": "5Gi"})}
    work = kueue("Workload", "w", {"queueName": "cq", "podSets": [bare, disk]})
    local = kueue("LocalQueue", "cq", {"clusterQueue": "cq"})
    out = runrig(
        "simulate", written(tmp_path, manifests(FLAVOR, kueue("ClusterQueue", "cq", fields), local, work), "a.yaml")
    ).out
    rows = [line.split() for line in lines(out)]
    assert [
        "cq",
        "ClusterQueue",
        "default/ephemeral-storage",
        "20Gi",
        "0",
        "→",
        "5Gi",
        "20Gi",
        "→",
        "15Gi",
        "0",
    ] in rows
    assert ["default/hugepages-2Mi", "4Mi", "0", "4Mi", "0"] in rows
    assert ["default/w", "cq", "bare", "1;", "disk", "1", "default"] in rows


# ---------------------------------------------------------------- options


def test_fair_sharing_takes_its_strategies_only_after_the_equals_sign(folder: Path) -> None:
    file = str(folder / "cluster.yaml")
    for option in ("--fair-sharing", "--fair-sharing=LessThanInitialShare"):
        done = runrig("simulate", option, file)
        assert (done.code, done.out[:12]) == (0, "cluster.yaml")


def test_strategies_and_gates_are_passed_to_the_engine(folder: Path) -> None:
    few = workload("few", "cq-b", 1, 9, minCount=2, at=LATEST)
    file = written(folder, manifests(FLAVOR, *queue("cq-b", 4), few), "few.yaml")
    assert "default/few  cq-b   4 of 9 pods  default" in runrig("simulate", file, "--fair-sharing").out
    off = runrig("simulate", file, "--feature-gates", "PartialAdmission=false,FlavorFungibility=true")
    assert (off.code, "Admitted" in off.out) == (0, False)


def test_endless_run_as_the_peer_is_reported() -> None:
    file = Path(__file__).parents[2] / "examples" / "kueue" / "22-comes-to-rest.yaml"
    assert "for ever" not in runrig("simulate", "--cycles", "0", str(file)).out
    assert "cycles 3 to 4 repeat forever" in runrig("simulate", "--cycles", "0", "--as-peer", str(file)).out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--fair-sharing=Most"], "unknown strategy 'Most' (strategies: LessThanOrEqualToFinalShare, LessThan"),
        (["--feature-gates", "Nope=true"], "unknown gate 'Nope'"),
        (
            ["--feature-gates", "PartialAdmission=true", "--feature-gates", "PartialAdmission=1"],
            "invalid 'PartialAdmission=1'",
        ),
        (["--cycles", "-1"], "-1 is not in the range x>=0"),
        ([], "Name a FILE, or a file or folder with -f."),
    ],
)
def test_wrong_usage_of_simulate_is_reported(folder: Path, args: list[str], says: str) -> None:
    files = [str(folder / "cluster.yaml")] if args else []
    done = runrig("simulate", *args, *files)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    in_json = runrig("simulate", *args, *files, "-t", "json")
    assert in_json.code == 2
    assert says in in_json.json["message"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_run_on_a_terminal_shows_its_progress() -> None:
    def of(*cycles: int) -> Any:
        return SimpleNamespace(steps=lambda: cycles, outcome=lambda: None)

    with patch.multiple(simulate, _SILENT_S=-1.0, _BETWEEN_S=-1.0):
        with redirect_stderr(Terminal()) as seen:
            simulate._outcome(of(1200), "a.yaml")
            simulate._outcome(of(), "b.yaml")
        with redirect_stderr(io.StringIO()) as piped:
            simulate._outcome(of(1200), "a.yaml")
    assert (seen.getvalue(), piped.getvalue()) == ("\r\x1b[Ka.yaml: 1,200 cycles\r\x1b[K", "")


@pytest.mark.slow
def test_ctrl_c_ends_a_simulation(tmp_path: Path) -> None:
    """The pipe makes sure that it is at work when the signal comes: opening it for writing waits for the reader."""
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with (
        subprocess.Popen(process("simulate", str(pipe)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child,
        pipe.open("wb"),
    ):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (3, b"")
    assert b"interrupted" in err
