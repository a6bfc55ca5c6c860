"""Every warning of the command line, of scenarios and of submissions: the whole text, in the singular and the plural.

Warnings about Kueue manifests are in tests/kueue/read/test_every_warning.py.
"""

import ast
import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import runrig
from runrig.cli.commands.mcp import _listening
from runrig.domain.shown import DeclaredChange, Pool, Workflow, WorkflowSubmitted, WorkflowWhy
from runrig.wire.base import example_of
from tests.cli.canned_server import answered
from tests.worlds.command_line import runrig as command
from tests.worlds.command_line import written

Provoked = Callable[[Path], str]
"""Returns what the command prints about the warning."""

POOL = example_of(Pool)
KEY = {"key": "rack", "label": "rack"}
TASK = "workflow: {name: w, tasks: [{name: t, image: i, command: [x]%s}], resources: {default: {gpu: %d}}}\n"
EXAMPLE = Path(__file__).parents[2] / "examples" / "kueue" / "22-comes-to-rest.yaml"


def _update(more: dict[str, Any], *options: str, keys: list[dict[str, str]] | None = None) -> str:
    before = POOL | {"topology_keys": keys or []}
    answers = {"GET /api/v1/pools/vision": before, "PATCH /api/v1/pools/vision": before, **more}
    return answered(answers, "pool", "update", "vision", *options).err


def exceeds(**amounts: int) -> Provoked:
    tree = {"overpromised": {f"default/{resource}": amount for resource, amount in amounts.items()}}
    return lambda folder: _update({"GET /api/v1/quota-tree": tree}, "--quota", "2")


def declares_too_much(folder: Path) -> str:
    answers = {
        "POST /api/v1/apply": {"revision": 1, "changes": [example_of(DeclaredChange)], "applied": True},
        "GET /api/v1/quota-tree": {"overpromised": {"default/gpu": 3}},
    }
    return answered(answers, "apply", "-f", written(folder, "pools: []\n", "c.yaml")).err


def lacks(lacking: int, total: int) -> Provoked:
    found = {"all": {"nodes": total}, "keys": [KEY], "apart": [{"lacks": ["rack"]}] * lacking}
    answers = {"GET /api/v1/topology": {"maps": [found]}, "PATCH /api/v1/pools/vision": POOL | {"topology_keys": [KEY]}}
    return lambda folder: _update(answers, "--topology-key", "rack=rack")


def replaces(*keys: dict[str, str]) -> Provoked:
    answers = {"GET /api/v1/topology": {"maps": [{"all": {"nodes": 1}, "keys": [], "apart": []}]}}
    return lambda folder: _update(answers, "--topology-key", "host=host", keys=list(keys))


def undoes(folder: Path) -> str:
    change = example_of(DeclaredChange) | {
        "kind": "pool",
        "name": "vision",
        "action": "update",
        "undoes": "was changed by ann at 2026-01-31 12:00:00 UTC (quota)",
    }
    answers = {"POST /api/v1/apply": {"revision": 1, "changes": [change], "applied": False}}
    return answered(answers, "apply", "-f", written(folder, "pools: []\n", "c.yaml"), "--dry-run").err


def checked(cluster: str, task: str = "") -> Provoked:
    """`workflow validate` with a cluster file: the warnings are those of a server with this cluster."""

    def provoke(folder: Path) -> str:
        file = written(folder, TASK % (task, 1), "w.yaml")
        return command("workflow", "validate", file, "--cluster", written(folder, cluster, "c.yaml")).err

    return provoke


def simulated(text: str, *options: str) -> Provoked:
    def provoke(folder: Path) -> str:
        done = command("simulate", "--cycles", "0", *options, written(folder, text, "s.yaml"))
        return done.out.partition("\nWarnings\n")[2]

    return provoke


def example(*options: str) -> Provoked:
    return lambda folder: command("simulate", "--cycles", "0", *options, str(EXAMPLE)).out.partition("\nWarnings\n")[2]


def refused(folder: Path) -> str:
    file = written(folder, TASK % ("", 3), "w.yaml")
    return simulated(f"{NODES}{POOLS}workflows: [{{file: {file}}}]\n")(folder)


def submits(route: str, answer: dict[str, Any], *words: str) -> Provoked:
    """A server answers with a warning; *words*: the command, with FILE for a workflow file."""

    def provoke(folder: Path) -> str:
        file = written(folder, TASK % ("", 1), "w.yaml")
        answers = {f"POST /api/v1/workflows{route}": answer, **WAITS}
        shown = answered(answers, *(file if word == "FILE" else word for word in words)).err
        return "\n".join(line.replace(file, "FILE") for line in shown.splitlines() if line.startswith("Warning"))

    return provoke


RUN = ("run", "--pool", "vision", "-g", "1", "--code", "none", "-i", "any:1")
IGNORED = "image is ignored: the local backend runs commands directly on this machine"
WAITS = {
    "GET /api/v1/pools/vision": POOL,
    "GET /api/v1/workflows/train-1/wait": example_of(Workflow),
    "GET /api/v1/workflows/train-1/why": example_of(WorkflowWhy),
}
SENT = {**example_of(WorkflowSubmitted), "id": "train-1", "warnings": [IGNORED]}
CHECKED = {"id": "t-?", "file": "", "warnings": [IGNORED], "verdict": None}
EACH = {
    "submitted": 2,
    "outcomes": [{"id": f"t-{n}", "warnings": [IGNORED] * (n == 2), "problem": None} for n in (1, 2)],
}
NODES = "nodes: [{name: n, resources: {gpu: 2}}]\n"
POOLS = "pools: [{name: a, quota: 2}]\n"
MANIFEST = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: c}}\n"
BEYOND = "Warning: quotas exceed capacity by {}, so they cannot all be used at the same time"
LACKING = (
    "Warning: label rack of topology key rack is missing on {}. Gangs with topology requirements are not placed there"
)


def opens(_: Path) -> str:
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        _listening("0.0.0.0:0")[1].close()
    return printed.getvalue()


WARNINGS: list[tuple[Provoked, str]] = [
    # ------------------------------------------------------------ pools
    (exceeds(gpu=1), BEYOND.format("1 GPU")),
    (declares_too_much, BEYOND.format("3 GPUs")),
    (exceeds(memory=2**30), BEYOND.format("1Gi memory")),
    (lacks(1, 1), LACKING.format("the only node")),
    (lacks(1, 2), LACKING.format("1 of 2 nodes")),
    (lacks(2, 2), LACKING.format("all 2 nodes")),
    (replaces(KEY), "Warning: these topology keys replace rack=rack. Name all keys that the pool needs."),
    (
        replaces(KEY, {"key": "zone", "label": "z"}),
        "Warning: these topology keys replace rack=rack, zone=z. Name all keys that the pool needs.",
    ),
    # ------------------------------------------------------------ cluster files
    (undoes, "Warning: pool vision was changed by ann at 2026-01-31 12:00:00 UTC (quota); use --force to undo it"),
    # ------------------------------------------------------------ submissions
    (
        checked("backend: {type: local}\n" + NODES + POOLS),
        "Warning: image is ignored: the local backend runs commands directly on this machine",
    ),
    (
        checked("backend: {type: local}\n" + NODES + POOLS, ", duration: 5s"),
        "Warning: image is ignored: the local backend runs commands directly on this machine\n"
        "Warning: duration is ignored: it applies only to the simulated backend",
    ),
    (
        checked("backend: {type: simulated}\n" + POOLS),
        "Warning: the cluster file lists no nodes, so only quotas were checked",
    ),
    (submits("", SENT, "workflow", "submit", "FILE", "--pool", "vision"), f"Warning: {IGNORED}"),
    (submits(":batch", EACH, "workflow", "submit", "FILE", "FILE", "--pool", "vision"), f"Warning: FILE: {IGNORED}"),
    (submits("", SENT, *RUN, "-d", "--", "train"), f"Warning: {IGNORED}"),
    (submits(":check", CHECKED, *RUN, "--dry-run", "--", "train"), f"Warning: {IGNORED}"),
    (
        submits("", {**SENT, "warnings": []}, *RUN, "-N", "2", "-d", "--", "python", "t.py"),
        "Warning: python starts once on each node. Use a launcher such as torchrun to start one process per GPU",
    ),
    (opens, "Warning: tokens are sent to 0.0.0.0 without encryption. Use a proxy with TLS in front of it"),
    # ------------------------------------------------------------ scenarios
    (refused, "  document 1: workflows[0]: refused: w needs 3 GPUs, but pool a has a quota of 2 GPUs. Request less"),
    (simulated(POOLS), "  document 1: nodes: the file lists no nodes, so only quotas are checked"),
    (
        simulated(NODES + "pools: [{name: a, quota: 2, budget: 5}]\n"),
        "  document 1: budget: ignored: a simulation has no calendar",
    ),
    (
        simulated(NODES + POOLS, "--fair-sharing"),
        "  --fair-sharing, --feature-gates, --as-peer: ignored: these options apply only to Kueue manifests",
    ),
    (
        simulated(MANIFEST, "--feature-gates", "MultiKueue=true"),
        "  --feature-gates: MultiKueue is ignored: the feature is not simulated",
    ),
    (
        simulated(MANIFEST, "--feature-gates", "HierarchicalCohorts=false"),
        "  --feature-gates: HierarchicalCohorts cannot be turned off: the simulation always uses hierarchical cohorts",
    ),
    (example("--as-peer"), "  --as-peer: cycles 3 to 4 repeat forever: work is evicted and admitted in turn"),
]


@pytest.mark.parametrize(("provoke", "text"), WARNINGS, ids=[text for _, text in WARNINGS])
def test_every_warning_has_a_fact_and_a_consequence_or_advice(provoke: Provoked, text: str, tmp_path: Path) -> None:
    assert provoke(tmp_path).rstrip("\n") == text


def _written() -> list[tuple[str, range]]:
    """The file and lines of each warning that begins so on the command line, and of each `Warned` outside the Kueue reader."""
    (folder,) = runrig.__path__
    return [
        (str(file), range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for file in sorted(Path(folder).rglob("*.py"))
        if "kueue/read" not in str(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id == "Warned" or (node.func.id == "warn" and "Warning: " in ast.unparse(node)))
    ]


def test_every_warning_is_in_the_table(tmp_path: Path) -> None:
    written_ = _written()
    files = {file for file, _ in written_}
    seen: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None and caller.f_code.co_filename in files:
            seen.add((caller.f_code.co_filename, caller.f_lineno))

    sys.setprofile(note)
    try:
        for provoke, _ in WARNINGS:
            provoke(tmp_path)
    finally:
        sys.setprofile(None)
    unseen = [(Path(file).name, lines[0]) for file, lines in written_ if not any((file, at) in seen for at in lines)]
    assert (unseen, len(written_)) == ([], 15)
