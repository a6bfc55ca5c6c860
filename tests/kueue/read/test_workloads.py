"""Reading of the spec and status of a Workload."""

import math
from typing import Any

import pytest

from runrig.kueue.declared import NODE_NAME, Granted, MatchExpression, NodeChoice, Toleration, Workload, WorkloadPodSet
from tests.worlds.manifests import OLD, QUEUES, home, job, manifest, only, pod, read, system, workload

T0 = 1767225600.0  # 2026-01-01T00:00:00Z
ONE = (WorkloadPodSet(requests=(("cpu", 1000),)),)


def at(seconds: int) -> str:
    return f"2026-01-01T00:00:{seconds:02d}Z"


def condition(kind: str, status: str = "True", seconds: int | None = None, reason: str = "") -> dict[str, object]:
    time = {} if seconds is None else {"lastTransitionTime": at(seconds)}
    return {"type": kind, "status": status, "reason": reason, **time}


def running(*conditions: dict[str, object], created: int | None = None, **status: object) -> Workload:
    """A workload that uses a core of cq."""
    admission = {"clusterQueue": "cq", "podSetAssignments": [{"flavors": {"cpu": "f"}, "resourceUsage": {"cpu": 1}}]}
    meta = {} if created is None else {"creationTimestamp": at(created)}
    held = {"admission": admission, "conditions": list(conditions), **status}
    return only(read(*home(), workload(meta=meta, status=held)))


def test_an_empty_workload_has_the_defaults() -> None:
    assert only(read(*home(), workload())) == Workload("default/w", "cq", ONE)


def test_a_pending_workload_is_read_with_all_fields() -> None:
    spec = {
        "priority": -3,
        "active": False,
        "podSets": [
            {"name": "driver", "count": 1, "template": pod({"cpu": "100m"})},
            {"name": "worker", "count": 4, "minCount": 2, "template": pod({"nvidia.com/gpu": 2, "memory": "0"}),
             "topologyRequest": {"podSetGroupName": "g"}},
        ],
    }  # fmt: skip
    meta = {
        "uid": "u-1",
        "namespace": "team",
        "creationTimestamp": at(5),
        "annotations": {"kueue.x-k8s.io/priority-boost": "-10"},
    }
    status = {
        "reclaimablePods": [{"name": "worker", "count": 1}],
        "admissionChecks": [{"name": "x", "state": "Ready"}, {"name": "y", "state": "Pending"}],
    }
    local = manifest("LocalQueue", "lq", {"clusterQueue": "cq"}, meta={"namespace": "team"})
    assert only(read(*home()[:2], local, workload("w", spec, meta=meta, status=status))) == Workload(
        name="team/w",
        queue="cq",
        pod_sets=(
            WorkloadPodSet("driver", 1, None, (("cpu", 100),)),
            WorkloadPodSet("worker", 4, 2, (("memory", 0), ("nvidia.com/gpu", 2)), group="g", reclaimable=1),
        ),
        priority=-3,
        created_at=T0 + 5,
        queued_at=T0 + 5,
        uid="u-1",
        namespace="team",
        checks_open=True,
        checks_ready=("x",),
        active=False,
        boost=-10,
    )


def test_a_running_workload_is_read_with_all_fields() -> None:
    assignments = [
        {
            "name": "main",
            "count": 2,
            "flavors": {"memory": "f", "cpu": "f"},
            "resourceUsage": {"memory": "2Ki", "cpu": "3"},
        }
    ]
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": assignments},
        "conditions": [condition("QuotaReserved", "True", 7), condition("Admitted", "True", 8), condition("Evicted")],
    }
    spec = {"podSets": [{"count": 3, "minCount": 2, "template": pod({"cpu": 2, "memory": "1Ki"})}]}
    meta = {"creationTimestamp": at(1)}
    found = only(read(*home(), workload("w", spec, meta=meta, status=status)))
    assert found == Workload(
        name="default/w",
        queue="cq",
        pod_sets=(WorkloadPodSet("main", 3, 2, (("cpu", 2000), ("memory", 1024))),),
        created_at=T0 + 1,
        queued_at=T0 + 1,
        granted=(Granted("main", 2, (("cpu", "f"), ("memory", "f")), (("cpu", 3000), ("memory", 2048))),),
        reserved_at=T0 + 7,
        admitted=True,
        evicted=True,
    )


def test_missing_usage_is_derived_from_the_pods() -> None:
    assignments = [{"count": 3, "flavors": {"cpu": "f", "pods": "f", "memory": "f"}}]
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": assignments}}
    spec = {"podSets": [{"count": 4, "minCount": 1, "template": pod({"cpu": "250m"})}]}
    found = only(read(*home(), workload("w", spec, status=status)))
    flavors = (("cpu", "f"), ("memory", "f"), ("pods", "f"))
    assert found.granted == (Granted("main", 3, flavors, (("cpu", 750), ("memory", 0), ("pods", 3))),)


@pytest.mark.parametrize(
    ("conditions", "admitted"),
    [
        ([], True),
        ([condition("QuotaReserved")], False),
        ([condition("QuotaReserved"), condition("Admitted", "False")], False),
        ([condition("QuotaReserved"), condition("Admitted", "Unknown")], False),
        ([condition("QuotaReserved"), condition("Admitted")], True),
        ([condition("Admitted", "False")], False),
    ],
)
def test_with_quota_it_runs_unless_its_conditions_contradict(conditions: list[Any], admitted: bool) -> None:
    assert running(*conditions).admitted is admitted


def test_a_missing_time_comes_right_after_the_latest_in_the_file() -> None:
    found = system(
        *home(),
        workload("a"),
        workload("b", meta={"creationTimestamp": at(9)}),
        workload("c", status={"conditions": [condition("Finished", "True", 40)]}),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "creationTimestamp": at(30)}},
    )
    assert found.now == T0 + 40
    assert [(w.name, w.created_at) for w in found.workloads] == [
        ("default/a", math.nextafter(T0 + 40, math.inf)),
        ("default/b", T0 + 9),
    ]
    held = running(condition("QuotaReserved"), condition("PodsReady", "False", 3))
    assert (held.created_at, held.reserved_at) == (math.nextafter(T0 + 3, math.inf), T0 + 3)


@pytest.mark.parametrize(
    ("reason", "queued"),
    [("PodsReadyTimeout", 20), ("AdmissionCheck", 20), ("Preempted", 1), ("ClusterQueueStopped", 1)],
)
def test_only_two_kinds_of_eviction_change_its_queue_position(reason: str, queued: int) -> None:
    status = {"conditions": [condition("Evicted", "True", 20, reason)]}
    found = only(read(*home(), workload(meta={"creationTimestamp": at(1)}, status=status)))
    assert (found.created_at, found.queued_at, found.evicted) == (T0 + 1, T0 + queued, False)
    over = {"conditions": [condition("Evicted", "False", 20, reason)]}
    assert only(read(*home(), workload(meta={"creationTimestamp": at(1)}, status=over))).queued_at == T0 + 1


@pytest.mark.parametrize(
    ("reason", "queued"),
    [("PodsReadyTimeout", 20), ("AdmissionCheck", 20), ("Preempted", 1), ("ClusterQueueStopped", 1)],
)
def test_an_eviction_counts_while_the_quota_is_still_in_use(reason: str, queued: int) -> None:
    found = running(condition("Evicted", "True", 20, reason), condition("QuotaReserved", "True", 2), created=1)
    assert (found.queued_at, found.reserved_at, found.evicted) == (T0 + queued, T0 + 2, True)


def test_finished_workloads_are_not_part_of_the_system() -> None:
    assert system(*home(), workload(status={"conditions": [condition("Finished")]})).workloads == ()
    assert len(system(*home(), workload(status={"conditions": [condition("Finished", "False")]})).workloads) == 1


def test_a_workload_with_quota_is_in_the_queue_of_its_admission() -> None:
    other = manifest("ClusterQueue", "other", {"namespaceSelector": {}})
    status = {"admission": {"clusterQueue": "other", "podSetAssignments": [{"flavors": {}}]}}
    found = read(*home(), other, workload(status=status))
    assert found.system.workloads[0].queue == "other"
    assert [(w.path, w.message) for w in found.warnings] == [
        ("status.admission", "it has quota of other, but its LocalQueue now leads to cq: it keeps that quota")
    ]


# ---------------------------------------------------------------- priority

CLASSES = (
    manifest("WorkloadPriorityClass", "high", value=100),
    manifest("PriorityClass", "high", version="scheduling.k8s.io/v1", value=7),
    manifest("PriorityClass", "all", version="scheduling.k8s.io/v1", value=3, globalDefault=True),
)


@pytest.mark.parametrize(
    ("version", "spec", "priority"),
    [
        (OLD, {"priorityClassName": "high"}, 100),
        (OLD, {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}, 100),
        (OLD, {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"}, 7),
        (None, {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}, 100),
        (None, {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}, 7),
        (None, {"priorityClassRef": {"kind": "PriorityClass", "name": "system-node-critical"}}, 2_000_001_000),
        (None, {"priorityClassRef": {"kind": "PriorityClass", "name": "high"}, "priority": 0}, 0),
        (None, {}, 0),
    ],
)
def test_priority_comes_from_the_number_or_the_class(version: str | None, spec: dict[str, Any], priority: int) -> None:
    more = {} if version is None else {"version": version}
    assert only(read(*home(), *CLASSES, workload("w", spec, **more))).priority == priority


# ---------------------------------------------------------------- pods


def requests(**spec: object) -> dict[str, int]:
    found = only(read(*home(), workload("w", {"podSets": [{"count": 1, "template": {"spec": spec}}]})))
    return dict(found.pod_sets[0].requests)


def container(cpu: object = None, *, limit: object = None, always: bool = False) -> dict[str, object]:
    asked = {"requests": {"cpu": cpu}} if cpu is not None else {}
    allowed = {"limits": {"cpu": limit}} if limit is not None else {}
    return {"name": "c", "resources": {**asked, **allowed}, **({"restartPolicy": "Always"} if always else {})}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(1), container("500m")]}, 1500),
        ({"containers": [container()]}, None),
        ({"containers": [container(limit=2)]}, 2000),
        ({"containers": [container(1, limit=2)]}, 1000),
        ({"containers": [container("0.1m")]}, 1),
        ({"containers": [container(1)], "initContainers": [container(3), container(2)]}, 3000),
        ({"containers": [container(4)], "initContainers": [container(3)]}, 4000),
        ({"containers": [container(1)], "initContainers": [container(2, always=True)]}, 3000),
        ({"containers": [container(1)], "initContainers": [container(2, always=True), container(3)]}, 5000),
        ({"containers": [container(1)], "initContainers": [container(3), container(2, always=True)]}, 3000),
        ({"containers": [container(1)], "overhead": {"cpu": "200m"}}, 1200),
        ({"containers": [container(1)], "initContainers": [container(3)], "overhead": {"cpu": "200m"}}, 3200),
    ],
)
def test_the_requests_of_a_pod_are_computed_like_in_kubernetes(spec: dict[str, Any], cpu: int | None) -> None:
    assert requests(**spec).get("cpu") == cpu


@pytest.mark.parametrize(
    ("resource", "quantity", "amount"),
    [
        ("cpu", 1, 1000), ("cpu", "1.0001", 1001), ("cpu", "100u", 1), ("cpu", "1n", 1),
        ("memory", "1Gi", 2**30), ("memory", "1.5", 2), ("memory", "1e3", 1000), ("memory", "2E", 2 * 10**18), ("memory", "5.", 5),
        ("memory", ".5Ki", 512), ("memory", "100m", 1), ("nvidia.com/gpu", "500m", 1), ("gpu", "1.5", 2), ("hugepages-2Mi", "4Mi", 2**22),
        ("memory", "1e-300", 1), ("memory", "9223372036854775807", 2**63 - 1), ("cpu", "9223372036854775.807", 2**63 - 1),
    ],
)  # fmt: skip
def test_quantities_are_exact_and_rounded_up(resource: str, quantity: int | str, amount: int) -> None:
    found = only(read(*home(), workload("w", {"podSets": [{"count": 1, "template": pod({resource: quantity})}]})))
    assert found.pod_sets[0].requests == ((resource, amount),)


def test_a_pod_accepts_the_nodes_that_it_names() -> None:
    terms = [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "gpu", "operator": "Exists"},
            ]
        },
        {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
    ]
    spec = pod(
        nodeSelector={"b": "2", "a": "1"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}],
    )
    found = only(read(*home(), workload("w", {"podSets": [{"count": 1, "template": spec}]})))
    assert found.pod_sets[0].nodes == NodeChoice(
        selector=(("a", "1"), ("b", "2")),
        terms=(
            (MatchExpression("zone", "In", ("a", "b")), MatchExpression("gpu", "Exists")),
            (MatchExpression("cores", "Gt", ("8",)),),
        ),
        tolerations=(Toleration("", "Exists"), Toleration("k", "Equal", "v", "NoExecute")),
    )


def affine(*terms: dict[str, Any]) -> Any:
    """A template with these required terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(affinity={"nodeAffinity": required})


def by_name(*names: str, operator: str = "In", key: str = "metadata.name") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(names)}


@pytest.mark.parametrize("version", [QUEUES, OLD])
def test_a_pod_may_accept_nodes_by_name(version: str) -> None:
    zone = by_name("a", key="zone")
    made = affine(
        {"matchFields": [by_name("n1")]}, {"matchExpressions": [zone], "matchFields": [by_name("n2", operator="NotIn")]}
    )
    expected = (
        (MatchExpression(NODE_NAME, "In", ("n1",)),),
        (MatchExpression("zone", "In", ("a",)), MatchExpression(NODE_NAME, "NotIn", ("n2",))),
    )
    behind = workload("w", {"podSets": [{"count": 1, "template": made}]}, version=version)
    for document in (behind, job("j", {"template": made})):
        assert only(read(*home(), document)).pod_sets[0].nodes.terms == expected


def test_a_label_may_be_named_like_the_field() -> None:
    made = workload("w", {"podSets": [{"count": 1, "template": affine({"matchExpressions": [by_name("n1")]})}]})
    assert only(read(*home(), made)).pod_sets[0].nodes.terms == ((MatchExpression("metadata.name", "In", ("n1",)),),)


@pytest.mark.parametrize(
    "field",
    [
        by_name("n1", key="metadata.uid"),
        by_name("n1", "n2"),
        by_name("n1", "n2", operator="NotIn"),
        by_name(operator="Exists"),
        by_name("3", operator="Gt"),
    ],
)
def test_an_unsupported_field_keeps_a_workload_from_being_considered(field: dict[str, Any]) -> None:
    made = workload("w", {"podSets": [{"count": 1, "template": affine({"matchFields": [field]})}]})
    found = read(*home(), made)
    assert found.system.workloads[0].problem == "its required node affinity cannot be evaluated"
    rule = "cannot be evaluated: only metadata.name can be matched, with In or NotIn and one value"
    assert rule in [each.message for each in found.warnings]


def test_preferred_nodes_may_be_given_by_name() -> None:
    terms = [{"weight": 5, "preference": {"matchFields": [by_name("n1")]}}]
    spec = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
    found = read(*home(), workload("w", {"podSets": [{"count": 1, "template": spec}]}))
    preferred = found.system.workloads[0].pod_sets[0].nodes.preferred
    assert preferred == ((5, (MatchExpression(NODE_NAME, "In", ("n1",)),)),)


def test_fields_that_do_not_affect_scheduling_are_skipped() -> None:
    spec = pod(restartPolicy="Never", volumes=[{"name": "v"}], serviceAccountName="s", terminationGracePeriodSeconds=1)
    spec["metadata"] = {"labels": {"a": "b"}, "annotations": {"kueue.x-k8s.io/podset-group-name": "g"}}
    spec["spec"]["containers"][0].update(image="i", command=["c"], args=["a"], env=[{"name": "A"}], ports=[])
    found = only(read(*home(), workload("w", {"podSets": [{"count": 1, "template": spec}]})))
    assert found.pod_sets == (WorkloadPodSet(requests=(("cpu", 1000),), group="g"),)
