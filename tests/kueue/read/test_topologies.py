"""Topology requests and placements of running workloads, in all formats."""

from typing import Any

import pytest

from runrig.kueue.declared import Placed, Slices, TopologyMode, TopologyRequest
from tests.worlds.manifests import home, job, manifest, only, pod, read, warnings, workload

TREE = manifest("Topology", "t", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]})


def asked(request: object, count: int = 4) -> TopologyRequest | None:
    found = read(
        *home(), TREE, workload("w", {"podSets": [{"count": count, "template": pod(), "topologyRequest": request}]})
    )
    return only(found).pod_sets[0].topology


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"required": "rack"}, TopologyRequest(TopologyMode.REQUIRED, "rack")),
        ({"preferred": "rack"}, TopologyRequest(TopologyMode.PREFERRED, "rack")),
        ({"unconstrained": True}, TopologyRequest()),
        ({"unconstrained": False}, None),
        ({"podSetGroupName": "g"}, None),
        (
            {"podSetSliceRequiredTopology": "host", "podSetSliceSize": 2},
            TopologyRequest(TopologyMode.SLICES, "", (Slices("host", 2),)),
        ),
        (
            {"required": "rack", "podsetSliceRequiredTopologyConstraints": [{"topology": "host", "size": 4}, {"topology": "x", "size": 2}]},
            TopologyRequest(TopologyMode.REQUIRED, "rack", (Slices("host", 4), Slices("x", 2))),
        ),
    ],
)  # fmt: skip
def test_a_pod_set_has_its_topology_request_in_a_field(request_: object, expected: TopologyRequest | None) -> None:
    assert asked(request_) == expected


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"required-topology": "rack"}, TopologyRequest(TopologyMode.REQUIRED, "rack")),
        ({"unconstrained-topology": "true"}, TopologyRequest()),
        ({"unconstrained-topology": "false"}, None),
        (
            {"preferred-topology": "rack", "slice-required-topology": "host", "slice-size": "2"},
            TopologyRequest(TopologyMode.PREFERRED, "rack", (Slices("host", 2),)),
        ),
        (
            {"slice-required-topology-constraints": '[{"topology": "host", "size": 2}]'},
            TopologyRequest(TopologyMode.SLICES, "", (Slices("host", 2),)),
        ),
    ],
)
def test_a_template_has_its_topology_request_in_annotations(
    marks: dict[str, str], expected: TopologyRequest | None
) -> None:
    annotations = {f"kueue.x-k8s.io/podset-{key}": value for key, value in marks.items()}
    template = {"metadata": {"annotations": annotations}, **pod()}
    found = read(*home(), TREE, job("j", {"parallelism": 4, "completions": 4, "template": template}))
    assert only(found).pod_sets[0].topology == expected


DOMAINS = {"levels": ["rack", "host"], "domains": [{"values": ["r", "a1"], "count": 2}, {"values": ["r", "a2"]}]}
SLICES: dict[str, Any] = {
    "levels": ["rack", "host"],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"universal": "r"}, {"individual": {"prefix": "a", "roots": ["1", "2"]}}],
            "podCounts": {"individual": [2, 1]},
        }
    ],
}


@pytest.mark.parametrize("assignment", [DOMAINS, SLICES], ids=["v1beta1", "v1beta2"])
def test_placements_of_running_workloads_are_read(assignment: object) -> None:
    granted = {"name": "main", "count": 3, "flavors": {"cpu": "f"}, "topologyAssignment": assignment}
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [granted]}}
    found = only(read(*home(), workload("w", {"podSets": [{"count": 3, "template": pod()}]}, status=status)))
    assert found.granted is not None
    assert found.granted[0].placement == (Placed(("r", "a1"), 2), Placed(("r", "a2"), 1))


@pytest.mark.parametrize("text", ["[", "5", "[1]", '[{"topology": 1, "size": 1}]', '[{"topology": "a", "size": 0}]'])
def test_layers_that_are_not_a_list_are_reported(text: str) -> None:
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-slice-required-topology-constraints": text}},
        **pod(),
    }
    found = warnings(*home(), TREE, job("j", {"template": template}))
    assert [message for _, _, message in found] == [
        'not a list such as [{"topology": "rack", "size": 4}]: this pod set is never placed'
    ]
