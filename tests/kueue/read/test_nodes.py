"""Nodes have the capacity that pods outside of workloads leave."""

from collections.abc import Iterable

from runrig.domain.nodes import Node, Taint
from tests.worlds.manifests import Manifest, home, job, manifest, pod, read, system, warnings

AMOUNTS = {"cpu": "8", "memory": "1Ki", "pods": 110, "nvidia.com/gpu": "4"}
LEFT = {"cpu": 8000, "memory": 1024, "pods": 110, "nvidia.com/gpu": 4}


def node(name: str = "n", conditions: Iterable[object] = (), **spec: object) -> Manifest:
    status = {"allocatable": AMOUNTS, "capacity": {"cpu": 99}, "conditions": list(conditions)}
    return manifest("Node", name, spec, "v1", meta={"labels": {"rack": "r"}}, status=status)


def bound(name: str, to: str | None = "n", phase: str = "Running", **meta: object) -> Manifest:
    spec = {**pod({"cpu": 2, "other.com/x": 1})["spec"], **({"nodeName": to} if to else {})}
    return manifest("Pod", name, spec, "v1", meta=meta, status={"phase": phase})


def test_a_node_has_its_allocatable_resources() -> None:
    found = system(node(taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert found.nodes == (Node("n", LEFT, labels={"rack": "r"}, taints=(Taint("k", "", "NoSchedule"),)),)


def test_cordoned_and_unready_nodes_accept_no_pods() -> None:
    down = node("down", [{"type": "Ready", "status": "Unknown"}])
    up = node("up", [{"type": "Ready", "status": "True"}])
    assert [item.ready for item in system(node("n", unschedulable=True), down, up).nodes] == [False, False, True]


def test_pods_outside_of_workloads_use_capacity() -> None:
    found = system(node(), node("m"), bound("a"), bound("b"), bound("c", phase="Succeeded"), bound("d", phase="Failed"))
    assert [dict(item.resources) for item in found.nodes] == [{**LEFT, "cpu": 4000, "pods": 108}, LEFT]


def test_capacity_does_not_become_negative() -> None:
    found = system(node(), *(bound(f"p{i}") for i in range(6)))
    assert found.nodes[0].resources == {**LEFT, "cpu": 0, "pods": 104}


def test_pods_of_gangs_are_counted_by_their_workload() -> None:
    marked = bound("a", labels={"kueue.x-k8s.io/podset": "main"})
    named = bound("b", annotations={"kueue.x-k8s.io/workload": "w"})
    owned = bound("c", ownerReferences=[{"kind": "Job", "name": "j"}])
    found = system(*home(), job("j", {}), node(), marked, named, owned)
    assert found.nodes[0].resources == LEFT


def test_ignored_pods_cause_warnings() -> None:
    assert warnings(node(), bound("a", None), bound("b", "elsewhere")) == [
        (2, "", "ignored: this pod is not on a node"),
        (3, "spec.nodeName", "node 'elsewhere' is not in this file: this pod is ignored"),
    ]
    assert read(node(), bound("b", "elsewhere")).system.nodes[0].resources == LEFT
