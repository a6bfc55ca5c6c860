"""The four use cases of the specification, and slices: they are valid, and become the pod groups that are written here."""

from pathlib import Path
from typing import Any

import pytest

from runrig.spec.cluster import read_cluster
from tests.conformance.podgroups import documents, outlined
from tests.worlds.command_line import runrig

FOLDER = Path(__file__).parents[2] / "examples" / "topology"
CLIQUE = "nvidia.com/gpu-clique"
ZONE, SPINE, RACK = (f"topology.kubernetes.io/{name}" for name in ("zone", "spine", "rack"))


def tasks(copy: int, subgroup: str) -> dict[str, str]:
    return {f"model{copy}-shard{shard}": subgroup for shard in range(1, 5)}


def copies(prefix: str, **constraint: str) -> dict[str, Any]:
    """A subgroup of four pods for each copy of the model."""
    names = [f"{prefix}model-{copy}-group" for copy in (1, 2)]
    return {
        "of": tasks(1, names[0]) | tasks(2, names[1]),
        "subgroups": {name: {"pods": 4, **constraint} for name in names},
    }


SLICES = {
    "of": {f"shard-{index}": f"run-replica-{index // 4}" for index in range(20)},
    "subgroups": {f"run-replica-{number}": {"pods": 4, "required": CLIQUE} for number in range(5)},
}
BEST_EFFORT = {"preferred": SPINE} | copies("workflow-group-", preferred=RACK)
USE_CASES = [
    ("01-single-rack", "01-cluster", [CLIQUE], {"pods": 4, "required": CLIQUE}),
    ("02-two-racks", "02-cluster", [CLIQUE], copies("", required=CLIQUE)),
    ("03-one-zone", "03-cluster", [ZONE, CLIQUE], {"required": ZONE} | copies("workflow-group-", required=CLIQUE)),
    ("04-best-effort", "04-cluster", [SPINE, RACK], BEST_EFFORT),
    ("04-best-effort", "04-cluster-apart", [SPINE, RACK], BEST_EFFORT),
    ("05-slices", "05-cluster", [ZONE, CLIQUE], {"required": ZONE} | SLICES),
]


def test_every_file_belongs_to_a_use_case() -> None:
    named = {f"{name}.yaml" for workflow, cluster, _, _ in USE_CASES for name in (workflow, cluster)}
    assert {path.name for path in FOLDER.iterdir()} == named


@pytest.mark.parametrize(("workflow", "cluster", "labels", "becomes"), USE_CASES)
def test_a_use_case_is_valid_and_becomes_this_pod_group(
    workflow: str, cluster: str, labels: list[str], becomes: dict[str, Any]
) -> None:
    """T3."""
    files = (str(FOLDER / f"{workflow}.yaml"), "--cluster", str(FOLDER / f"{cluster}.yaml"))
    objects = documents(runrig("workflow", "render", *files))
    (topology,) = (each for each in objects if each["kind"] == "Topology")
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == labels
    assert outlined(objects, topology["metadata"]["name"]) == becomes
    assert runrig("workflow", "validate", *files).code == 0


@pytest.mark.parametrize("cluster", sorted({cluster for _, cluster, _, _ in USE_CASES}))
def test_nodes_of_a_cluster_have_every_level_and_room_for_its_workflow(cluster: str) -> None:
    spec = read_cluster((FOLDER / f"{cluster}.yaml").read_text())
    (pool,) = spec.pools
    assert all(key.label in node.labels for node in spec.nodes for key in pool.topology_keys)
