"""Everything that is not understood or not honoured is warned of, with the document and the path; nothing else is."""

# ruff: noqa: E501  a case and what it is told are easier to compare in one line

from typing import Any

import pytest

from runrig.kueue.declared import ClusterQueue, QueueCohort, Workload, WorkloadPodSet
from tests.worlds.manifests import group, home, job, manifest, pod, read, warnings, workload

FLAVORS = (manifest("ResourceFlavor", "f"), manifest("ResourceFlavor", "g"))
ONE = (WorkloadPodSet(requests=(("cpu", 1000),)),)
NO_TOPOLOGY = "there is no Topology in this file: quota alone decides"


def of_queue(spec: dict[str, object]) -> list[tuple[str, str]]:
    found = warnings(*FLAVORS, manifest("ClusterQueue", "cq", {"namespaceSelector": {}, **spec}))
    assert {document for document, _, _ in found} <= {3}
    return [(path, message) for _, path, message in found]


def quota(**fields: object) -> dict[str, object]:
    return {"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, **fields}}})]}


RESOURCE = "spec.resourceGroups[0].flavors[0].resources[0]"
ALONE = "a ClusterQueue without a cohort has no {}: there is nobody to borrow from or lend to"

QUEUES = [
    ({"x": 1}, [("spec.x", "unknown field, ignored. Use one of " + "resourceGroups, cohort, cohortName, queueingStrategy, namespaceSelector, flavorFungibility, preemption, admissionChecks, admissionChecksStrategy, stopPolicy, fairSharing, admissionScope, concurrentAdmissionPolicy")]),
    ({"stopPolcy": "Hold"}, [("spec.stopPolcy", "unknown field, ignored. Did you mean 'stopPolicy'?")]),
    ({"stopPolicy": "Halt"}, [("spec.stopPolicy", "'Halt' is not one of None, Hold, HoldAndDrain: treated as None")]),
    ({"queueingStrategy": "LIFO"}, [("spec.queueingStrategy", "'LIFO' is not one of BestEffortFIFO, StrictFIFO: treated as BestEffortFIFO")]),
    ({"preemption": {"withinClusterQueue": "Any"}}, [("spec.preemption.withinClusterQueue", "'Any' is not one of Never, LowerPriority, LowerOrNewerEqualPriority: treated as Never")]),
    ({"preemption": {"reclaimWithinCohort": ""}}, [("spec.preemption.reclaimWithinCohort", "'' is not one of Never, LowerPriority, Any: treated as Never")]),
    ({"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}, [("spec.preemption.borrowWithinCohort", "without reclaimWithinCohort this is refused there")]),
    ({"flavorFungibility": {"preference": "BorrowingOverPreemption"}}, [("spec.flavorFungibility.preference", "a preference is refused there unless whenCanBorrow and whenCanPreempt are TryNextFlavor")]),
    ({"admissionChecks": ["a"]}, [("spec.admissionChecks", "admission checks never become ready here: its work gets quota, and does not start")]),
    ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}, [("spec.admissionChecksStrategy", "admission checks never become ready here: its work gets quota, and does not start")]),
    ({"admissionChecks": []}, []),
    ({"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}, [("spec.admissionScope.admissionMode", "fair sharing by usage between local queues is not supported: not read")]),
    ({"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}, []),
    ({"fairSharing": {"weight": "1n"}}, [("spec.fairSharing.weight", "a weight is 0 or more than 1e-9")]),
    ({"cohortName": "Upper_Case"}, [("spec.cohortName", "not a name that Kubernetes accepts: lower-case letters, digits, '-' and '.', at most 253")]),
    ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}, [("spec.namespaceSelector.matchExpressions[0]", "Gt compares labels of nodes, not these"), ("spec.namespaceSelector", "a selector with an expression that is not understood selects nothing here")]),
    (quota(borrowingLimit=1), [(f"{RESOURCE}.borrowingLimit", ALONE.format("borrowingLimit"))]),
    (quota(lendingLimit=1), [(f"{RESOURCE}.lendingLimit", ALONE.format("lendingLimit"))]),
    ({**quota(lendingLimit=2), "cohortName": "c"}, [(f"{RESOURCE}.lendingLimit", "more than nominalQuota: a ClusterQueue cannot lend more than it has")]),
    (quota(nominalQuota=None), [(RESOURCE, "nominalQuota is missing: counts as 0")]),
    (quota(burst=1), [(f"{RESOURCE}.burst", "unknown field, ignored. Use one of name, nominalQuota, borrowingLimit, lendingLimit")]),
    ({"resourceGroups": [group({"f": {"cpu": 1}}), group({"g": {"cpu": 1}})]}, [("spec.resourceGroups[1].coveredResources", "resource 'cpu' is covered twice: a resource belongs to one group, once")]),
    ({"resourceGroups": [group({"f": {"cpu": 1}}), group({"f": {"memory": 1}})]}, [("spec.resourceGroups[1].flavors[0]", "flavor 'f' is in this ClusterQueue twice: a flavor belongs to one group, once")]),
    ({"resourceGroups": [group({"h": {"cpu": 1}})]}, [("spec.resourceGroups[0].flavors[0]", "there is no ResourceFlavor 'h' in this file: this queue is inactive, and nothing starts there: define it")]),
    ({"resourceGroups": [group({"f": {"cpu": 1, "memory": 1}, "g": {"memory": 1, "cpu": 1}})]}, [("spec.resourceGroups[0].flavors[1].resources", "the resources are in another order than in coveredResources, which is refused there: order has no effect here")]),
    ({"resourceGroups": [group({"f": {"cpu": 1, "memory": 1}, "g": {"cpu": 1}})]}, [("spec.resourceGroups[0].flavors[1].resources", "flavor 'g' lists cpu, its group covers cpu, memory: the two must be equal; what is missing has no quota here")]),
    ({"resourceGroups": [{"flavors": []}]}, [("spec.resourceGroups[0]", "a group covers at least one resource: this one serves nothing")]),
    ({"resourceGroups": [group({"f": {f"r{i}": 1 for i in range(65)}})]}, [("spec.resourceGroups", "65 resources in one group: at most 64 are accepted there")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), QUEUES)
def test_of_a_queue(spec: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert of_queue(spec) == expected


def test_of_a_queue_whose_flavor_is_not_defined_where_none_is() -> None:
    found = warnings(
        manifest("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group({"h": {"cpu": 1}})]})
    )
    assert found == [
        (
            1,
            "spec.resourceGroups[0].flavors[0]",
            "there is no ResourceFlavor 'h' in this file: Kueue keeps this queue inactive; no flavor is defined here, and so it is taken as one without labels and taints",
        )
    ]


COHORTS = [
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "lendingLimit": 5}}})]}, [("spec.resourceGroups[0].flavors[0].resources[0].lendingLimit", "a Cohort without a parent has no lendingLimit: there is nobody to borrow from or lend to")]),
    ({"parentName": "p", "resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "lendingLimit": 5}}})]}, []),
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "borrowingLimit": 0}}})]}, []),
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "borrowingLimit": 1}}})]}, [("spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit", "a Cohort without a parent has no borrowingLimit: there is nobody to borrow from or lend to")]),
    ({"resourceGroups": [group({"f": {"cpu": {"nominalQuota": 1, "lendingLimit": 0}}})]}, [("spec.resourceGroups[0].flavors[0].resources[0].lendingLimit", "a Cohort without a parent has no lendingLimit: there is nobody to borrow from or lend to")]),
    ({"parentName": "co"}, [("spec.parentName", "the parents of cohorts run in a circle, co → co: nothing new starts in this tree")]),
    ({"parent": "p"}, [("spec.parent", "this version calls it parentName: read as such")]),
    ({"resourceGroups": [group({"h": {"cpu": 1}})]}, [("spec.resourceGroups[0].flavors[0]", "there is no ResourceFlavor 'h' in this file: nothing can use it")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), COHORTS)
def test_of_a_cohort(spec: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    found = warnings(*FLAVORS, manifest("Cohort", "co", spec))
    assert [(path, message) for _, path, message in found] == expected


def test_a_circle_is_told_at_each_of_its_cohorts_only() -> None:
    parents = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "d", "f": "nowhere"}
    found = read(*(manifest("Cohort", name, {"parentName": parent}) for name, parent in parents.items()))
    assert found.system.cohorts == tuple(QueueCohort(*item) for item in parents.items())
    ways = ["a → b → c → a", "b → c → a → b", "c → a → b → c"]
    assert [(w.document, w.message) for w in found.warnings] == [
        (i, f"the parents of cohorts run in a circle, {way}: nothing new starts in this tree")
        for i, way in enumerate(ways, start=1)
    ]


def test_a_long_circle_is_told_in_short() -> None:
    size = 500
    found = warnings(*(manifest("Cohort", f"c{i}", {"parentName": f"c{(i + 1) % size}"}) for i in range(size)))
    assert len(found) == size
    assert found[1][2].startswith(
        "the parents of cohorts run in a circle, c1 → c2 → c3 → c4 → c5 → c6 → c7 → c8 → … → c1:"
    )


# ---------------------------------------------------------------- work


def of_template(**spec: Any) -> list[tuple[str, str]]:
    found = warnings(*home(), workload("w", {"podSets": [{"count": 1, "template": pod(**spec)}]}))
    assert all(path.startswith("spec.podSets[0].template.spec.") for _, path, _ in found)
    return [(path.removeprefix("spec.podSets[0].template.spec."), message) for _, path, message in found]


TEMPLATES = [
    ({"resourceClaims": [{"name": "x"}]}, [("resourceClaims", "dynamic resources are not supported: they ask for nothing here")]),
    ({"topologySpreadConstraints": [{"maxSkew": 1}]}, [("topologySpreadConstraints", "spreading over a topology is not honoured")]),
    ({"nodeName": "n"}, [("nodeName", "a named node is not honoured")]),
    ({"runtimeClassName": "kata"}, [("runtimeClassName", "there is no RuntimeClass 'kata' in this file: its overhead counts as none")]),
    ({"schedulingGates": [{"name": "x"}]}, [("schedulingGates", "scheduling gates are not honoured")]),
    ({"nodeSelecter": {"a": "b"}}, [("nodeSelecter", "unknown field, ignored. Did you mean 'nodeSelector'?")]),
    ({"affinity": {"podAffinity": {"x": 1}}}, [("affinity.podAffinity", "affinity to other pods is not honoured")]),
    ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}, [("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", "preferred node affinity counts only among nodes of a topology, with the gate TASRespectNodeAffinityPreferred")]),
    ({"tolerations": [{"key": "a", "operator": "Gt"}]}, [("tolerations[0].operator", "'Gt' is not one of Equal, Exists: this toleration is not read")]),
    ({"tolerations": [{"value": "a"}]}, [("tolerations[0]", "a toleration without a key needs operator Exists: this one is not read")]),
    ({"containers": [{"resources": {"requests": {"pods": 1}}}]}, [("containers[0].resources.requests.pods", "pods cannot be requested: each pod counts as one, and this is not read")]),
    ({"containers": [{"resource": {}}]}, [("containers[0].resource", "unknown field, ignored. Did you mean 'resources'?")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), TEMPLATES)
def test_of_a_template(spec: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
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
    ({"queueName": "no"}, "there is no LocalQueue default/no"),
    ({"queueName": None}, "it names no queue"),
    (asks({"cpu": 2}, {"cpu": 1}), "a container requests more cpu than its limit"),
    ({"podSets": [{"count": 1, "template": pod(affinity=AFFINITY)}]}, "its required node affinity cannot be evaluated"),
    ({"podSets": [{"count": 2, "minCount": 3, "template": pod()}]}, "minCount 3 must be from 1 to count, which is 2"),
    ({"podSets": [{"count": 2, "minCount": 0, "template": pod()}]}, "minCount 0 must be from 1 to count, which is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "problem"), PROBLEMS)
def test_what_keeps_a_workload_from_being_looked_at(spec: dict[str, Any], problem: str) -> None:
    found = read(*home(), workload("w", spec))
    assert [item.problem for item in found.system.workloads] == [problem]
    assert len(found.warnings) == 1


def test_a_queue_that_leads_nowhere() -> None:
    lost = manifest("LocalQueue", "lost", {"clusterQueue": "gone"})
    found = read(*home(), lost, workload("w", {"queueName": "lost"}))
    assert found.system.workloads == (Workload("default/w", "gone", ONE, problem="there is no ClusterQueue 'gone'"),)
    assert [(w.document, w.path, w.message) for w in found.warnings] == [
        (4, "spec.clusterQueue", "there is no ClusterQueue 'gone' in this file"),
        (5, "spec.queueName", "there is no ClusterQueue 'gone' in this file, to which its LocalQueue leads"),
    ]


WORKLOADS = [
    ({"podSets": []}, None, [("spec.podSets", "a workload has at least one pod set: this one asks for nothing")]),
    ({"podSets": [{}]}, None, [("spec.podSets[0].template", "a template without spec: its pods ask for nothing"), ("spec.podSets[0]", "count is missing: read as 1")]),
    ({"podSets": [{"count": 1, "template": pod()}, {"count": 1, "template": pod()}]}, None, [("spec.podSets[1]", "the pod set 'main' is here twice: names of pod sets are unique")]),
    ({"podSets": [{"name": n, "count": 2, "minCount": 1, "template": pod()} for n in "ab"]}, None, [("spec.podSets", "several pod sets have minCount: one is accepted there, here all of them shrink in proportion")]),
    ({"podSets": [{"count": 1, "template": pod(), "topologyRequest": {"required": "rack"}}]}, None, [("spec.podSets[0].topologyRequest", NO_TOPOLOGY)]),
    ({"maximumExecutionTimeSeconds": 5}, None, [("spec.maximumExecutionTimeSeconds", "a limit of time has no effect here: no time passes while it runs")]),
    ({"preemptionGates": [{"name": "x"}]}, None, [("spec.preemptionGates", "preemption gates are not supported: treated as open")]),
    ({"priorityClassName": "no"}, None, [("spec.priorityClassName", "there is no WorkloadPriorityClass 'no' in this file: priority 0")]),
    ({}, {"reclaimablePods": [{"name": "x", "count": 1}]}, [("status.reclaimablePods[0].count", "there is no pod set 'x': not read")]),
    ({}, {"reclaimablePods": [{"name": "main", "count": 3}]}, [("status.reclaimablePods[0].count", "the pod set has 1 pods: treated as all of them")]),
    ({}, {"requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"}}, []),
    ({}, {"unhealthyNodes": [{"name": "n"}]}, [("status.unhealthyNodes", "replacing a node that failed is not supported: it keeps the place that it has")]),
    ({}, {"clusterName": "other", "resourceRequests": [{"name": "main"}]}, [("status.clusterName", "running on other clusters is out of scope: it counts as if it ran here")]),
    ({}, {"newField": 1}, [("status.newField", "unknown field, ignored. Use one of conditions, admission, requeueState, reclaimablePods, admissionChecks, resourceRequests, schedulingStats, accumulatedPastExecutionTimeSeconds, accumulatedPastExexcutionTimeSeconds, unhealthyNodes, nominatedClusterNames, clusterName, preemptionGates, topologyAssignmentRecovery")]),
    ({}, {"admission": {"clusterQueue": "no", "podSetAssignments": [{}]}}, [("status.admission", "there is no ClusterQueue 'no' in this file: its quota counts nowhere")]),
    ({}, {"admission": {"clusterQueue": "cq"}}, [("status.admission", "no assignment for the pod set 'main': it holds nothing")]),
    ({}, {"admission": {"clusterQueue": "cq", "podSetAssignments": [{}, {"name": "x"}]}}, [("status.admission.podSetAssignments[1]", "there is no pod set 'x' in this workload: what it holds still counts")]),
    ({"podSets": [{"count": 2, "template": pod()}]}, {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3m", "memory": 2}}]}}, [("status.admission.podSetAssignments[0].resourceUsage.cpu", "3 is not a multiple of the 2 pods"), ("status.admission.podSetAssignments[0].resourceUsage.memory", "no flavor is assigned for memory: not read")]),
    ({}, {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"topologyAssignment": {"levels": ["rack"]}}]}}, []),
    ({}, {"resourceRequests": [{"name": "main"}], "schedulingStats": {}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "status", "expected"), WORKLOADS)
def test_of_a_workload(spec: dict[str, Any], status: dict[str, Any] | None, expected: list[tuple[str, ...]]) -> None:
    found = warnings(*home(), workload("w", spec, **({"status": status} if status else {})))
    assert [(path, message) for _, path, message in found] == expected


def test_a_pod_set_without_pods_and_one_without_a_count_are_warned_of() -> None:
    found = read(*home(), workload("w", {"podSets": [{"count": 0, "template": pod()}]}))
    assert [each.count for each in found.system.workloads[0].pod_sets] == [0]
    none = "a pod set has at least 1 pod: this one asks for nothing"
    assert [(w.path, w.message) for w in found.warnings] == [("spec.podSets[0].count", none)]
    found = read(*home(), workload("w", {"podSets": [{"template": pod()}]}))
    assert found.system.workloads[0].pod_sets == ONE
    assert [(w.path, w.message) for w in found.warnings] == [("spec.podSets[0]", "count is missing: read as 1")]


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
def test_admitted_counts_that_no_admission_gives_are_warned_of(
    pods: dict[str, int], admitted: int, asks: str | None
) -> None:
    """And counted all the same."""
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"count": admitted, "flavors": {"cpu": "f"}}]}}
    found = read(*home(), workload("w", {"podSets": [{**pods, "template": pod()}]}, status=status))
    (granted,) = found.system.workloads[0].granted or ()
    assert (granted.count, granted.usage) == (admitted, (("cpu", admitted * 1000),))
    says = f"{admitted} pods are admitted, and the pod set asks for {asks}: what it holds still counts"
    path = "status.admission.podSetAssignments[0].count"
    assert [(w.path, w.message) for w in found.warnings] == ([(path, says)] if asks else [])


def test_pods_that_were_done_before_it_was_admitted_may_be_missing() -> None:
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [{"count": 2, "flavors": {"cpu": "f"}}]},
        "reclaimablePods": [{"name": "main", "count": 1}],
    }
    assert warnings(*home(), workload("w", {"podSets": [{"count": 3, "template": pod()}]}, status=status)) == []


def test_of_labels_and_annotations_of_the_queue_system() -> None:
    meta = {
        "labels": {"app": "x", "kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/max-exec-time-seconds": "5"},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true", "kueue.x-k8s.io/priority-boost": "lots"},
    }
    assert warnings(*home(), workload(meta=meta)) == [
        (4, "metadata.labels.kueue.x-k8s.io/max-exec-time-seconds", "not supported: not read"),
        (4, "metadata.annotations.kueue.x-k8s.io/elastic-job", "not supported: not read"),
        (4, "metadata.annotations.kueue.x-k8s.io/priority-boost", "not a whole number: not read"),
    ]


def test_topology_annotations_of_a_template() -> None:
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, **pod()}
    path = "spec.template.metadata.annotations"
    assert warnings(*home(), job("j", {"template": template})) == [(4, path, NO_TOPOLOGY)]


def test_a_namespace_that_is_selected_by_labels_must_be_in_the_file() -> None:
    picky = manifest("ClusterQueue", "cq", {"namespaceSelector": {"matchLabels": {"team": "x"}}})
    local = manifest("LocalQueue", "lq", {"clusterQueue": "cq"})
    assert warnings(picky, local, workload()) == [
        (3, "spec.queueName", "the namespace default is not in this file: it has only the label kubernetes.io/metadata.name here, and its queue selects by labels")
    ]  # fmt: skip
    assert warnings(picky, local, workload(), manifest("Namespace", "default", version="v1")) == []


# ---------------------------------------------------------------- other kinds

OTHERS = [
    (manifest("AdmissionCheck", "a", {}), "AdmissionCheck: admission checks are out of scope: not read, and never ready"),
    (manifest("ProvisioningRequestConfig", "a", {}), "ProvisioningRequestConfig: provisioning is out of scope: not read"),
    (manifest("MultiKueueCluster", "a", {}), "MultiKueueCluster: running on other clusters is out of scope: not read"),
    (manifest("ClusterQueue", "a", {}, "kueue.x-k8s.io/v1"), "not read: of ClusterQueue the versions v1beta1, v1beta2 are read, not v1"),
    (manifest("ReplicaSet", "a", {}, "apps/v1"), "ReplicaSet of apps/v1: not read"),
    (manifest("ConfigMap", "a", version="v1"), "ConfigMap of v1: not read"),
    (manifest("ClusterQueue", "a", {}, "example.com/v1beta2"), "ClusterQueue of example.com/v1beta2: not read"),
    ({"foo": "bar"}, "not read: it has no kind"),
    ({"kind": "ClusterQueue"}, "not read: it has no apiVersion"),
    ({}, "not read: it has no kind"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), OTHERS)
def test_of_other_kinds(document: dict[str, Any], message: str) -> None:
    assert warnings("a: &x 1", "", document)[1:] == [(3, "", message)]


def test_fields_beside_the_spec_and_flavors() -> None:
    assert warnings({**manifest("Cohort", "a"), "sepc": {}}) == [
        (1, "sepc", "unknown field, ignored. Did you mean 'spec'?")
    ]
    flavor = {"nodeTaints": [{"key": "a", "effect": "Never"}, {"key": "b"}], "topologyName": "t"}
    assert warnings(manifest("ResourceFlavor", "f", flavor)) == [
        (1, "spec.topologyName", "a flavor with a topology needs at least one node label: refused there"),
        (
            1,
            "spec.nodeTaints[0].effect",
            "'Never' is not one of NoSchedule, PreferNoSchedule, NoExecute: this taint is not read",
        ),
        (1, "spec.nodeTaints[1]", "a taint needs an effect: this one is not read"),
        (1, "", "there is no Topology 't' in this file: quota alone decides"),
    ]


def test_warnings_change_nothing_of_what_is_understood() -> None:
    found = read(manifest("ClusterQueue", "cq", {"namespaceSelector": {}, "stopPolicy": "Halt", "weight": 2}))
    assert found.system.queues == (ClusterQueue("cq"),)
