"""Any input gives manifests, or InvalidInput with problems; never anything else, and never slowly."""

import json
from collections.abc import Iterable
from dataclasses import replace
from time import process_time
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.kueue import Warned
from runrig.kueue.declared import MatchExpression, Topology, Workload
from runrig.kueue.read import Manifests, read_manifests
from runrig.kueue.read.jobs import Job, as_asked, must_suspend, problem, started, suspended
from tests.worlds.manifests import group, home, job, manifest, pod, workload
from tests.worlds.values import replace_one, values

EXAMPLES = 150
WORDS = (
    "-1",
    "1e400",
    "9e18",
    "4Gi",
    "1n",
    "True",
    "Never",
    "cpu",
    "cq",
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
)
VALUES = values(*WORDS)
STATUS = {
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": 2}}],
    },
    "conditions": [
        {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {
            "type": "Evicted",
            "status": "True",
            "reason": "PodsReadyTimeout",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
    ],
    "reclaimablePods": [{"name": "main", "count": 1}],
    "admissionChecks": [{"name": "x", "state": "Pending"}],
}
EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION], "matchFields": []}]}
POD = pod(
    {"cpu": 1, "memory": "1Gi"},
    initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": 1}}}],
    overhead={"cpu": "1m"},
    nodeSelector={"a": "b"},
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
)
REPLICAS = {"Launcher": {"template": POD}, "Worker": {"replicas": 2, "template": POD}}
QUEUE = {
    "cohortName": "co",
    "namespaceSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [EXPRESSION]},
    "resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "borrowingLimit": 1, "lendingLimit": 1}}})],
    "preemption": {
        "withinClusterQueue": "Never",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 1},
    },
    "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
    "fairSharing": {"weight": 1},
    "stopPolicy": "None",
    "queueingStrategy": "StrictFIFO",
}
EVERYTHING = [
    *home(),
    manifest("ClusterQueue", "full", QUEUE),
    manifest("Cohort", "co", {"parentName": "up", "fairSharing": {"weight": 2}}),
    manifest("ResourceFlavor", "g", {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k", "effect": "NoSchedule"}], "topologyName": "t"}),
    manifest("Topology", "t", {"levels": [{"nodeLabel": "rack"}]}),
    workload("w", {"podSets": [{"count": 3, "minCount": 1, "template": POD, "topologyRequest": {"required": "rack"}}]}, status=STATUS),
    manifest("WorkloadPriorityClass", "high", value=1),
    manifest("Namespace", "ns", version="v1", meta={"labels": {"a": "b"}}),
    manifest("Node", "n", {"taints": []}, "v1", status={"allocatable": {"cpu": 4, "pods": 9}}),
    manifest("Pod", "p", {**POD["spec"], "nodeName": "n"}, "v1", meta={"ownerReferences": [{"kind": "Job", "name": "x"}]}),
    job("j", {"parallelism": 4, "completions": 4, "template": POD}, {"job-min-parallelism": "2"}),
    manifest(
        "MPIJob", "m", {"mpiReplicaSpecs": REPLICAS, "runPolicy": {"schedulingPolicy": {"minAvailable": 1}}},
        "kubeflow.org/v2beta1", meta={"labels": {"kueue.x-k8s.io/queue-name": "lq"}},
    ),
    {"apiVersion": "v1", "kind": "List", "items": [manifest("Cohort", "listed", {})]},
]  # fmt: skip


def survives(text: bytes | str) -> None:
    """Manifests with warnings, or InvalidInput with problems, each a printable line."""
    problems: tuple[Problem, ...] = (Problem("fine"),)
    warned: tuple[Warned, ...] = (Warned(1, "", "fine"),)
    try:
        warned += read_manifests(text, "any.yaml").warnings
    except InvalidInput as error:
        problems = error.problems
    assert problems
    assert all(problem.message.isprintable() and problem.path.isprintable() for problem in problems)
    assert all(item.document > 0 and item.path.isprintable() and item.message.isprintable() for item in warned)


def test_the_base_example_is_valid() -> None:
    found = read_manifests("\n---\n".join(json.dumps(item) for item in EVERYTHING), "all.yaml")
    assert isinstance(found, Manifests)
    assert len(found.system.workloads) == 3
    assert len(found.jobs) == 2
    assert found.system.topologies == (Topology("t", ("rack",)),)
    assert found.system.workloads[0].pod_sets[0].nodes.terms == ((MatchExpression("a", "In", ("b",)),),)


@given(st.text())
def test_any_text(text: str) -> None:
    survives(text)


@given(st.binary())
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    survives(data)


@given(st.text(alphabet="{}[]&*!|>-:?'\"# \n\tabkind1", max_size=60))
def test_any_text_that_resembles_yaml_is_read_or_rejected(text: str) -> None:
    survives(text)


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_any_value_in_place_of_a_valid_one_is_read_or_rejected(data: st.DataObject) -> None:
    documents: list[Any] = json.loads(json.dumps(EVERYTHING))
    replace_one(documents, VALUES, data)
    survives("\n---\n".join(json.dumps(item) for item in documents))


def undated(workloads: Iterable[Workload]) -> set[Workload]:
    """Without the times that follow from file order."""
    return {replace(each, created_at=0.0, queued_at=0.0) for each in workloads}


@given(st.sampled_from(EVERYTHING), st.sampled_from(EVERYTHING))
def test_document_order_affects_only_order(one: dict[str, Any], other: dict[str, Any]) -> None:
    def both(*items: object) -> Manifests:
        return read_manifests("\n---\n".join(json.dumps(item) for item in items), "two.yaml")

    if one == other:
        return
    first, second = both(one, other).system, both(other, one).system
    assert undated(first.workloads) == undated(second.workloads)
    assert (first.now, first.nodes, first.namespaces) == (second.now, second.nodes, second.namespaces)


@given(st.integers(0, 30), st.none() | st.integers(0, 30), st.integers(-2, 32), st.booleans(), st.integers(0, 30))
def test_patches_and_restored_counts_match_the_pods(
    parallelism: int, completions: int | None, least: int, synced: bool, admitted: int
) -> None:
    found = Job("j", parallelism, completions, synced, str(least), "true" if synced else None)
    assert (found.least is not None) == (problem(found) is None)
    if found.least is None:
        assert suspended(found) == {"suspend": True}
        return
    assert 0 < found.least < found.pods
    changes = started(found, {"main": admitted})
    assert changes["parallelism"] == admitted
    assert ("completions" in changes) == synced
    running = Job("j", admitted, admitted if synced else completions, synced, str(least), found.sync, suspend=False)
    assert must_suspend(running, {"main": running.pods}) is False
    assert must_suspend(running, {"main": running.pods + 1}) is True
    assert as_asked(running, {"main": found.pods}).pods == found.pods
    if synced:
        assert suspended(as_asked(running, {"main": found.pods})) == suspended(found)
    assert suspended(found)["parallelism"] == parallelism


def test_half_a_megabyte_is_read_in_two_seconds() -> None:
    """The limit is processor time, several times the usual amount."""
    one = yaml.safe_dump(workload("NAME", {"podSets": [{"count": 3, "template": POD}]}))
    count = 500_000 // len(one)
    text = "\n---\n".join(one.replace("NAME", f"w{i}") for i in range(count))
    start = process_time()
    found = read_manifests(text, "big.yaml")
    assert process_time() - start < 2
    assert len(found.system.workloads) == count
