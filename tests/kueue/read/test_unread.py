"""An unknown field that could change the outcome causes a warning, wherever it is."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.kueue.read import read_manifests
from tests.kueue.read.test_properties import EVERYTHING
from tests.worlds.manifests import read, warnings, workload

KINDS = Path(__file__).parents[2] / "service" / "simulate" / "data" / "job_kinds.yaml"
FULL = json.loads(
    json.dumps(yaml.load((Path(__file__).parent / "data" / "every_field.yaml").read_text(), yaml.CSafeLoader))
)
SCENARIOS: list[list[dict[str, Any]]] = [
    *([each] for each in EVERYTHING),
    *(sample["objects"] for sample in yaml.load(KINDS.read_text(), yaml.CSafeLoader)),
    *FULL.values(),
]

NAMES_ANYTHING = {
    "labels", "annotations", "matchLabels", "nodeSelector", "nodeLabels", "requests", "limits", "overhead", "allocatable", "podFixed",
    "flavors", "resourceUsage", "featureGates", "outputs",
}  # fmt: skip
"""Mappings whose keys are names that somebody chose."""
WITHOUT_BEARING = {
    "metadata", "ownerReferences", "selector", "network", "rayStartParams", "torch", "runPolicy", "lifecycle", "ports",
    "webhook", "leaderElection", "metrics", "health", "controller", "tls", "internalCertManagement", "clientConnection",
    "objectRetentionPolicies", "visibilityServer", "queueVisibility", "flavorsReservation", "flavorsUsage",
    "pendingWorkloadsStatus", "resourceRequests", "schedulingStats", "admissionFairSharingStatus",
}  # fmt: skip
"""What is known to change nothing, and is not looked into."""
WARNED_OF = {
    "managedJobsNamespaceSelector", "integrations", "multiKueue", "admissionFairSharing", "deviceClassMappings",
    "concurrentAdmissionPolicy", "preemptionGates", "podSetUpdates", "unhealthyNodes",
}  # fmt: skip
"""What is warned of as a whole."""
NOT_OURS = {"Pod", "List", "AppWrapper", "AdmissionCheck"}
"""Only parts of these are used: a running pod uses capacity, a list contains objects, a component may be of any kind."""


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all mappings in which an unknown field could change something."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            if key not in NAMES_ANYTHING | WITHOUT_BEARING | WARNED_OF:
                yield from mappings(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from mappings(each, (*path, at))


def with_a_field(value: Any, path: tuple[str | int, ...]) -> Any:
    changed = copy.deepcopy(value)
    at = changed
    for key in path:
        at = at[key]
    at["fieldOfTomorrow"] = 1
    return changed


def warned(documents: list[dict[str, Any]]) -> set[str]:
    return {each.path for each in read_manifests("\n".join(json.dumps(each) for each in documents), "a.json").warnings}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario[-1]["kind"])
def test_an_unknown_field_causes_a_warning_wherever_it_is(scenario: list[dict[str, Any]]) -> None:
    silent = []
    for at, document in enumerate(scenario):
        if document["kind"] in NOT_OURS:
            continue
        for path in mappings(document):
            changed = [*scenario[:at], with_a_field(document, path), *scenario[at + 1 :]]
            if not any(found.endswith("fieldOfTomorrow") for found in warned(changed)):
                silent.append(".".join(str(each) for each in path))
    assert silent == []


NOT_READ = {
    "newer": [
        "managedJobsNamespaceSelector",
        "integrations",
        "multiKueue",
        "admissionFairSharing",
        "resources.deviceClassMappings",
        "waitForPodsReady.blockAdmission",
        "spec.admissionChecksStrategy",
        "spec.concurrentAdmissionPolicy",
        "spec.admissionScope.admissionMode",
        "spec.fairSharing",
        "spec.maximumExecutionTimeSeconds",
        "spec.preemptionGates",
        "status.unhealthyNodes",
        "status.nominatedClusterNames",
        "status.clusterName",
        "status.preemptionGates",
        "status.admissionChecks[0].podSetUpdates",
        "status.admission.podSetAssignments[0].delayedTopologyRequest",
    ],
    "older": ["integrations", "waitForPodsReady", "spec.admissionChecks", ""],
}
"""Paths in the order of the documents.  ``spec.fairSharing`` is that of a local queue; the last one is the AdmissionCheck itself."""


@pytest.mark.parametrize("version", list(FULL))
def test_all_ignored_fields_of_kueue_cause_warnings(version: str) -> None:
    """Fields in none of these lists are read, or cannot change a decision."""
    assert [path for _, path, _ in warnings(*FULL[version])] == NOT_READ[version]


def test_kueue_labels_in_a_template_cause_warnings_too() -> None:
    made = workload()
    made["spec"]["podSets"][0]["template"]["metadata"] = {
        "annotations": {"kueue.x-k8s.io/podset-from-tomorrow": "1", "example.com/note": "2"}
    }
    path = "spec.podSets[0].template.metadata.annotations.kueue.x-k8s.io/podset-from-tomorrow"
    assert (1, path, "ignored: not supported") in warnings(made)
    assert len(read(made).warnings) == 2
