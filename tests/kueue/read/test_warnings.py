"""Every unknown or unsupported field causes a warning with the document and the path; nothing else does."""

# ruff: noqa: E501  a case and its messages are easier to compare in one line

from typing import Any

import pytest

from runrig.kueue.declared import ClusterQueue, QueueCohort, Workload, WorkloadPodSet
from tests.worlds.manifests import group, home, job, manifest, pod, read, warnings, workload

FLAVORS = (manifest("ResourceFlavor", "f"), manifest("ResourceFlavor", "g"))
ONE = (WorkloadPodSet(requests=(("cpu", 1000),)),)
NO_TOPOLOGY = "no Topology is in this file: only quota is checked"


def of_queue(spec: dict[str, object]) -> list[tuple[str, str]]:
    found = warnings(*FLAVORS, manifest("ClusterQueue", "cq", {"namespaceSelector": {}, **spec}))
    assert {document for document, _, _ in found} <= {3}
    return [(path, message) for _, path, message in found]


def quota(**fields: object) -> dict[str, object]:
    return {"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, **fields}}})]}


RESOURCE = "spec.resourceGroups[0].flavors[0].resources[0]"
ALONE = "{} has no effect: a ClusterQueue without a cohort cannot borrow or lend"

QUEUES = [
    ({"x": 1}, [("spec.x", "unknown field, ignored. Use one of " + "resourceGroups, cohort, cohortName, queueingStrategy, namespaceSelector, flavorFungibility, preemption, admissionChecks, admissionChecksStrategy, stopPolicy, fairSharing, admissionScope, concurrentAdmissionPolicy")]),
    ({"stopPolcy": "Hold"}, [("spec.stopPolcy", "unknown field, ignored. Did you mean 'stopPolicy'?")]),
    ({"stopPolicy": "Halt"}, [("spec.stopPolicy", "'Halt' is not one of None, Hold, HoldAndDrain: treated as None")]),
    ({"queueingStrategy": "LIFO"}, [("spec.queueingStrategy", "'LIFO' is not one of BestEffortFIFO, StrictFIFO: treated as BestEffortFIFO")]),
    ({"preemption": {"withinClusterQueue": "Any"}}, [("spec.preemption.withinClusterQueue", "'Any' is not one of Never, LowerPriority, LowerOrNewerEqualPriority: treated as Never")]),
    ({"preemption": {"reclaimWithinCohort": ""}}, [("spec.preemption.reclaimWithinCohort", "'' is not one of Never, LowerPriority, Any: treated as Never")]),
    ({"admissionChecks": ["a"]}, [("spec.admissionChecks", "admission checks never become ready in the simulation: workloads get quota but do not start")]),
    ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}, [("spec.admissionChecksStrategy", "admission checks never become ready in the simulation: workloads get quota but do not start")]),
    ({"admissionChecks": []}, []),
    ({"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}, []),
    (quota(borrowingLimit=1), [(f"{RESOURCE}.borrowingLimit", ALONE.format("borrowingLimit"))]),
    (quota(lendingLimit=1), [(f"{RESOURCE}.lendingLimit", ALONE.format("lendingLimit"))]),
    (quota(burst=1), [(f"{RESOURCE}.burst", "unknown field, ignored. Use one of name, nominalQuota, borrowingLimit, lendingLimit")]),
    ({"resourceGroups": [group({"h": {"cpu": 1}})]}, [("spec.resourceGroups[0].flavors[0]", "ResourceFlavor 'h' is not in this file: the queue is inactive until you add the flavor")]),
    ({"resourceGroups": [group({"f": {"cpu": 1, "memory": 1}, "g": {"cpu": 1}})]}, [("spec.resourceGroups[0].flavors[1].resources", "flavor 'g' lists cpu, but its group covers cpu, memory: both must be equal; a missing resource has no quota")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), QUEUES)
def test_problems_of_a_queue_cause_warnings(spec: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert of_queue(spec) == expected


def test_a_queue_may_use_an_undefined_flavor_if_none_is_defined() -> None:
    found = warnings(
        manifest("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group({"h": {"cpu": 1}})]})
    )
    assert found == [
        (
            1,
            "spec.resourceGroups[0].flavors[0]",
            "ResourceFlavor 'h' is not in this file: Kueue keeps this queue inactive; the simulation assumes a flavor without labels and taints",
        )
    ]


COHORTS = [
    ({"parentName": "p", "resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "lendingLimit": 5}}})]}, []),
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "borrowingLimit": 0}}})]}, []),
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "borrowingLimit": 1}}})]}, [("spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit", "borrowingLimit has no effect: a Cohort without a parent cannot borrow or lend")]),
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "lendingLimit": 0}}})]}, [("spec.resourceGroups[0].flavors[0].resources[0].lendingLimit", "lendingLimit has no effect: a Cohort without a parent cannot borrow or lend")]),
    ({"parent": "p"}, [("spec.parent", "renamed to parentName in this version: treated as such")]),
    ({"resourceGroups": [group({"h": {"cpu": 1}})]}, [("spec.resourceGroups[0].flavors[0]", "ResourceFlavor 'h' is not in this file: it cannot be used")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), COHORTS)
def test_problems_of_a_cohort_cause_warnings(spec: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    found = warnings(*FLAVORS, manifest("Cohort", "co", spec))
    assert [(path, message) for _, path, message in found] == expected


def test_a_cycle_is_reported_only_at_its_cohorts() -> None:
    parents = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "d", "f": "nowhere"}
    found = read(*(manifest("Cohort", name, {"parentName": parent}) for name, parent in parents.items()))
    assert found.system.cohorts == tuple(QueueCohort(*item) for item in parents.items())
    ways = ["a → b → c → a", "b → c → a → b", "c → a → b → c"]
    assert [(w.document, w.message) for w in found.warnings] == [
        (i, f"cohorts form a cycle, {way}: nothing new starts in this tree") for i, way in enumerate(ways, start=1)
    ]


def test_a_long_cycle_is_shortened() -> None:
    size = 500
    found = warnings(*(manifest("Cohort", f"c{i}", {"parentName": f"c{(i + 1) % size}"}) for i in range(size)))
    assert len(found) == size
    assert found[1][2].startswith("cohorts form a cycle, c1 → c2 → c3 → c4 → c5 → c6 → c7 → c8 → … → c1:")


# ---------------------------------------------------------------- work


def of_template(**spec: Any) -> list[tuple[str, str]]:
    found = warnings(*home(), workload("w", {"podSets": [{"count": 1, "template": pod(**spec)}]}))
    assert all(path.startswith("spec.podSets[0].template.spec.") for _, path, _ in found)
    return [(path.removeprefix("spec.podSets[0].template.spec."), message) for _, path, message in found]


TEMPLATES = [
    ({"resourceClaims": [{"name": "x"}]}, [("resourceClaims", "dynamic resources are not simulated: they request nothing")]),
    ({"topologySpreadConstraints": [{"maxSkew": 1}]}, [("topologySpreadConstraints", "ignored: topology spread constraints are not simulated")]),
    ({"nodeName": "n"}, [("nodeName", "ignored: binding to a node is not simulated")]),
    ({"schedulingGates": [{"name": "x"}]}, [("schedulingGates", "ignored: scheduling gates are not simulated")]),
    ({"nodeSelecter": {"a": "b"}}, [("nodeSelecter", "unknown field, ignored. Did you mean 'nodeSelector'?")]),
    ({"affinity": {"podAffinity": {"x": 1}}}, [("affinity.podAffinity", "ignored: affinity to other pods is not simulated")]),
    ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}, [("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", "preferred node affinity has an effect only with a topology and the gate TASRespectNodeAffinityPreferred")]),
    ({"tolerations": [{"key": "a", "operator": "Gt"}]}, [("tolerations[0].operator", "'Gt' is not one of Equal, Exists: this toleration is ignored")]),
    ({"containers": [{"resource": {}}]}, [("containers[0].resource", "unknown field, ignored. Did you mean 'resources'?")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), TEMPLATES)
def test_problems_of_a_template_cause_warnings(spec: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert of_template(**spec) == expected


def asks(requests: object, limits: object) -> dict[str, object]:
    return {
        "podSets": [
            {
                "count": 1,
                "template": {"spec": {"containers": [{"resources": {"requests": requests, "limits": limits}}]}},
            }
        ]
    }


AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}}  # fmt: skip
PROBLEMS = [
    ({"queueName": "no"}, "unknown LocalQueue default/no"),
    ({"queueName": None}, "it does not name a queue"),
    (asks({"cpu": 2}, {"cpu": 1}), "a container requests more cpu than its limit"),
    ({"podSets": [{"count": 1, "template": pod(affinity=AFFINITY)}]}, "its required node affinity cannot be evaluated"),
    ({"podSets": [{"count": 2, "minCount": 3, "template": pod()}]}, "minCount 3 must be from 1 to count, which is 2"),
    ({"podSets": [{"count": 2, "minCount": 0, "template": pod()}]}, "minCount 0 must be from 1 to count, which is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "problem"), PROBLEMS)
def test_some_problems_keep_a_workload_from_being_considered(spec: dict[str, Any], problem: str) -> None:
    found = read(*home(), workload("w", spec))
    assert [item.problem for item in found.system.workloads] == [problem]
    assert len(found.warnings) == 1


def test_a_local_queue_without_a_cluster_queue_causes_a_warning() -> None:
    lost = manifest("LocalQueue", "lost", {"clusterQueue": "gone"})
    found = read(*home(), lost, workload("w", {"queueName": "lost"}))
    assert found.system.workloads == (Workload("default/w", "gone", ONE, problem="unknown ClusterQueue 'gone'"),)
    assert [(w.document, w.path, w.message) for w in found.warnings] == [
        (4, "spec.clusterQueue", "ClusterQueue 'gone' is not in this file"),
        (5, "spec.queueName", "unknown ClusterQueue 'gone' in this file, the target of its LocalQueue"),
    ]


WORKLOADS = [
    ({"maximumExecutionTimeSeconds": 5}, None, [("spec.maximumExecutionTimeSeconds", "ignored: run time is not simulated")]),
    ({"preemptionGates": [{"name": "x"}]}, None, [("spec.preemptionGates", "preemption gates are not supported: treated as open")]),
    ({}, {"requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"}}, []),
    ({}, {"unhealthyNodes": [{"name": "n"}]}, [("status.unhealthyNodes", "replacing failed nodes is not simulated: the pods keep their nodes")]),
    ({}, {"clusterName": "other", "resourceRequests": [{"name": "main"}]}, [("status.clusterName", "running on other clusters is not simulated: treated as if it ran here")]),
    ({}, {"newField": 1}, [("status.newField", "unknown field, ignored. Use one of conditions, admission, requeueState, reclaimablePods, admissionChecks, resourceRequests, schedulingStats, accumulatedPastExecutionTimeSeconds, accumulatedPastExexcutionTimeSeconds, unhealthyNodes, nominatedClusterNames, clusterName, preemptionGates, topologyAssignmentRecovery")]),
    ({}, {"admission": {"clusterQueue": "no", "podSetAssignments": [{}]}}, [("status.admission", "ClusterQueue 'no' is not in this file: its quota is ignored")]),
    ({}, {"admission": {"clusterQueue": "cq"}}, [("status.admission", "no assignment for the pod set 'main': it uses no quota")]),
    ({}, {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"topologyAssignment": {"levels": ["rack"]}}]}}, []),
    ({}, {"resourceRequests": [{"name": "main"}], "schedulingStats": {}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "status", "expected"), WORKLOADS)
def test_problems_of_a_workload_cause_warnings(
    spec: dict[str, Any], status: dict[str, Any] | None, expected: list[tuple[str, ...]]
) -> None:
    found = warnings(*home(), workload("w", spec, **({"status": status} if status else {})))
    assert [(path, message) for _, path, message in found] == expected


def test_a_pod_set_without_pods_or_without_a_count_causes_a_warning() -> None:
    found = read(*home(), workload("w", {"podSets": [{"count": 0, "template": pod()}]}))
    assert [each.count for each in found.system.workloads[0].pod_sets] == [0]
    none = "a pod set needs at least 1 pod: this one requests nothing"
    assert [(w.path, w.message) for w in found.warnings] == [("spec.podSets[0].count", none)]
    found = read(*home(), workload("w", {"podSets": [{"template": pod()}]}))
    assert found.system.workloads[0].pod_sets == ONE
    assert [(w.path, w.message) for w in found.warnings] == [("spec.podSets[0]", "count is missing: treated as 1")]


@pytest.mark.parametrize(
    ("pods", "admitted", "asks"),
    [
        ({"count": 8, "minCount": 4}, 3, "4 to 8"),
        ({"count": 8, "minCount": 4}, 4, None),
        ({"count": 8, "minCount": 4}, 8, None),
        ({"count": 8, "minCount": 4}, 9, "4 to 8"),
        ({"count": 8}, 7, "all 8"),
        ({"count": 8}, 8, None),
    ],
)
def test_impossible_admitted_counts_cause_a_warning(pods: dict[str, int], admitted: int, asks: str | None) -> None:
    """They still count."""
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"count": admitted, "flavors": {"cpu": "f"}}]}}
    found = read(*home(), workload("w", {"podSets": [{**pods, "template": pod()}]}, status=status))
    (granted,) = found.system.workloads[0].granted or ()
    assert (granted.count, granted.usage) == (admitted, (("cpu", admitted * 1000),))
    says = f"{admitted} pods are admitted, but the pod set requests {asks}: its quota still counts"
    path = "status.admission.podSetAssignments[0].count"
    assert [(w.path, w.message) for w in found.warnings] == ([(path, says)] if asks else [])


def test_pods_reclaimed_before_admission_may_be_missing() -> None:
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [{"count": 2, "flavors": {"cpu": "f"}}]},
        "reclaimablePods": [{"name": "main", "count": 1}],
    }
    assert warnings(*home(), workload("w", {"podSets": [{"count": 3, "template": pod()}]}, status=status)) == []


def test_topology_annotations_of_a_template_are_checked() -> None:
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, **pod()}
    path = "spec.template.metadata.annotations"
    assert warnings(*home(), job("j", {"template": template})) == [(4, path, NO_TOPOLOGY)]


def test_a_namespace_selected_by_labels_must_be_in_the_file() -> None:
    picky = manifest("ClusterQueue", "cq", {"namespaceSelector": {"matchLabels": {"team": "x"}}})
    local = manifest("LocalQueue", "lq", {"clusterQueue": "cq"})
    assert warnings(picky, local, workload()) == [
        (3, "spec.queueName", "the namespace default is not in this file: its only known label is kubernetes.io/metadata.name, but its queue selects by labels")
    ]  # fmt: skip
    assert warnings(picky, local, workload(), manifest("Namespace", "default", version="v1")) == []


# ---------------------------------------------------------------- other kinds

OTHERS = [
    (manifest("ProvisioningRequestConfig", "a", {}), "ProvisioningRequestConfig: ignored: provisioning is not simulated"),
    (manifest("ClusterQueue", "a", {}, "example.com/v1beta2"), "ignored: ClusterQueue of example.com/v1beta2 is not supported"),
    ({"foo": "bar"}, "ignored: it has no kind"),
    ({"kind": "ClusterQueue"}, "ignored: it has no apiVersion"),
    ({}, "ignored: it has no kind"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), OTHERS)
def test_other_kinds_cause_warnings(document: dict[str, Any], message: str) -> None:
    assert warnings("a: &x 1", "", document)[1:] == [(3, "", message)]


def test_warnings_do_not_change_what_is_read() -> None:
    found = read(manifest("ClusterQueue", "cq", {"namespaceSelector": {}, "stopPolicy": "Halt", "weight": 2}))
    assert found.system.queues == (ClusterQueue("cq"),)
