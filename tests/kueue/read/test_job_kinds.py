"""Variations of each job kind: missing fields, and fields that multiply into the number of its pods."""

# ruff: noqa: E501  a case and its requests are easier to compare in one line

from typing import Any

import pytest

from tests.worlds.manifests import home, manifest, pod, read, warnings

LABEL = {"kueue.x-k8s.io/queue-name": "lq"}
API = {
    "AppWrapper": "workload.codeflare.dev/v1beta2",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
    "StatefulSet": "apps/v1",
}


def made(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return manifest(kind, "j", spec, API.get(kind, "kubeflow.org/v1"), meta={"labels": LABEL}, **more)


def of_cpu(amount: object) -> dict[str, Any]:
    """A template whose pods request *amount* of cpu."""
    return {"template": pod({"cpu": amount})}


def replicated(**fields: Any) -> dict[str, Any]:
    inner = {name: fields.pop(name) for name in ("parallelism", "completions") if name in fields}
    return {"name": "w", "template": {"spec": {**of_cpu(1), **inner}}, **fields}


def workers(**fields: Any) -> dict[str, Any]:
    return {"headGroupSpec": of_cpu(2), "workerGroupSpecs": [{"groupName": "w", **of_cpu(1), **fields}]}


def wrapped(kind: str, spec: dict[str, Any], **beside: Any) -> dict[str, Any]:
    template = {
        "apiVersion": API.get(kind, "kubeflow.org/v1"),
        "kind": kind,
        "metadata": {"name": "inner"},
        "spec": spec,
    }
    return {"components": [{"template": template, **beside}]}


SUBMITS = {"rayClusterSpec": workers(), "shutdownAfterJobFinishes": True}
AUTOSCALED = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"resources": {"requests": {"cpu": 3}}}}
GROUP = {"workerTemplate": pod({"cpu": 2})}
LED = {**GROUP, "leaderTemplate": pod({"cpu": 1})}
SPARK = {"driver": {"coreRequest": "1"}, "executor": {"coreRequest": "500m"}}

VARIATIONS: list[tuple[str, dict[str, Any], list[dict[str, tuple[int, int]]]]] = [
    # kind, spec, of each workload: pod set → (pods, requested thousandths of a core per pod)
    ("JobSet", {"replicatedJobs": [replicated()]}, [{"w": (1, 1000)}]),
    ("JobSet", {"replicatedJobs": [replicated(replicas=3)]}, [{"w": (3, 1000)}]),
    ("JobSet", {"replicatedJobs": [replicated(replicas=2, parallelism=4, completions=3)]}, [{"w": (6, 1000)}]),
    ("JobSet", {"replicatedJobs": [replicated(replicas=2, parallelism=3, completions=4)]}, [{"w": (6, 1000)}]),
    ("RayCluster", workers(), [{"head": (1, 2000), "w": (1, 1000)}]),
    ("RayCluster", workers(replicas=0), [{"head": (1, 2000), "w": (0, 1000)}]),
    ("RayCluster", workers(replicas=3, numOfHosts=4), [{"head": (1, 2000), "w": (12, 1000)}]),
    ("RayCluster", {"headGroupSpec": of_cpu(2)}, [{"head": (1, 2000)}]),
    ("RayCluster", {**workers(), "gcsFaultToleranceOptions": {}}, [{"head": (1, 2000), "w": (1, 1000)}]),
    ("RayCluster", {"headGroupSpec": of_cpu("100m"), "gcsFaultToleranceOptions": {}}, [{"head": (1, 200)}]),
    ("RayCluster", {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "c"}]}}}, "gcsFaultToleranceOptions": {}}, [{"head": (1, 200)}]),
    ("RayJob", {**SUBMITS, "submissionMode": "HTTPMode"}, [{"head": (1, 2000), "w": (1, 1000)}]),
    ("RayJob", {**SUBMITS, "submissionMode": "InteractiveMode"}, [{"head": (1, 2000), "w": (1, 1000)}]),
    ("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": of_cpu(1)}}, [{"worker": (1, 1000)}]),
    ("PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"replicas": 2, **of_cpu(1)}}}, [{"master": (2, 1000)}]),
    (
        "TFJob",
        {"tfReplicaSpecs": {role: {"replicas": 2, **of_cpu(1)} for role in ("Evaluator", "Master", "Chief")}},
        [{"chief": (2, 1000), "master": (2, 1000), "evaluator": (2, 1000)}],
    ),
    ("PaddleJob", {"paddleReplicaSpecs": {"Master": of_cpu(1), "Worker": of_cpu(2)}}, [{"master": (1, 1000), "worker": (1, 2000)}]),
    ("MPIJob", {"mpiReplicaSpecs": {"Launcher": of_cpu(1), "Worker": {"replicas": 3, **of_cpu(2)}}}, [{"launcher": (1, 1000), "worker": (3, 2000)}]),
    ("LeaderWorkerSet", {"leaderWorkerTemplate": GROUP}, [{"main": (1, 2000)}]),
    ("LeaderWorkerSet", {"leaderWorkerTemplate": {**LED, "size": 1}}, [{"leader": (1, 1000), "worker": (0, 2000)}]),
    ("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {**LED, "size": 2}}, [{"leader": (1, 1000), "worker": (1, 2000)}] * 2),
    ("LeaderWorkerSet", {"replicas": 0, "leaderWorkerTemplate": LED}, []),
    ("Deployment", of_cpu(1), [{"main": (1, 1000)}]),
    ("Deployment", {"replicas": 0, **of_cpu(1)}, []),
    ("StatefulSet", of_cpu(1), [{"main": (1, 1000)}]),
    ("StatefulSet", {"replicas": 0, **of_cpu(1)}, []),
    ("AppWrapper", wrapped("Deployment", {"replicas": 3, **of_cpu(1)}), [{"j-0": (3, 1000)}]),
    ("AppWrapper", wrapped("JobSet", {"replicatedJobs": [replicated(replicas=2, parallelism=3)]}), [{"j-0": (6, 1000)}]),
    ("AppWrapper", wrapped("Job", {"parallelism": 4, **of_cpu(1)}, podSets=[{"path": "template.spec.template"}]), [{"j-0": (1, 1000)}]),
    ("SparkApplication", SPARK, [{"driver": (1, 1000), "executor": (0, 500)}]),
    ("SparkApplication", {"driver": {"cores": 4}, "executor": {"instances": 2, "coreLimit": "2"}}, [{"driver": (1, 0), "executor": (2, 2000)}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "workloads"), VARIATIONS)
def test_each_job_kind_has_its_requests(
    kind: str, spec: dict[str, Any], workloads: list[dict[str, tuple[int, int]]]
) -> None:
    found = read(*home(), made(kind, spec))
    assert found.warnings == ()
    assert [
        {each.name: (each.count, dict(each.requests).get("cpu", 0)) for each in one.pod_sets}
        for one in found.system.workloads
    ] == workloads


def test_a_head_with_state_in_redis_requests_resources_for_the_cleanup() -> None:
    """Also memory, also if an annotation enables it, and also with another container. Higher requests stay."""
    pods = pod({"cpu": 1, "memory": "1Mi"})
    pods["spec"]["containers"].append({"name": "d", "resources": {"requests": {"memory": "1Mi"}}})
    cluster = made("RayCluster", {"headGroupSpec": {"template": pods}})
    cluster["metadata"]["annotations"] = {"ray.io/ft-enabled": "True"}
    (found,) = read(*home(), cluster).system.workloads
    assert dict(found.pod_sets[0].requests) == {"cpu": 1000, "memory": 257 * 1024**2}


REFUSED = [
    ("RayCluster", {**workers(), **AUTOSCALED}, "Kueue accepts this only in elastic jobs, which are not simulated: the number of pods stays as declared", [5000, 1000]),
    ("RayCluster", workers(groupName="head"), "duplicate pod set head: Kueue rejects this job", [2000, 1000]),
    ("RayJob", {"rayClusterSpec": workers(), "submissionMode": "HTTPMode"}, "Kueue rejects this job without shutdownAfterJobFinishes, because it would keep its quota", [2000, 1000]),
    ("SparkApplication", {**SPARK, "mode": "client"}, "Kueue rejects this job: the mode must be cluster", [1000, 500]),
    ("SparkApplication", {**SPARK, "dynamicAllocation": {"enabled": True}}, "Kueue accepts this only in elastic jobs, which are not simulated: the number of pods stays as declared", [1000, 500]),
    ("JobSet", {"replicatedJobs": [{**replicated(), "name": f"w{at}"} for at in range(19)]}, "19 pod sets: Kueue accepts up to 18 and rejects this job", [1000] * 19),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "says", "cpu"), REFUSED)
def test_a_job_that_kueue_would_reject_causes_a_warning_and_counts(
    kind: str, spec: dict[str, Any], says: str, cpu: list[int]
) -> None:
    found = read(*home(), made(kind, spec))
    assert [each.message for each in found.warnings] == [says]
    assert [dict(each.requests)["cpu"] for each in found.system.workloads[0].pod_sets] == cpu


def test_disabled_dynamic_allocation_causes_no_warning() -> None:
    assert warnings(*home(), made("SparkApplication", {**SPARK, "dynamicAllocation": {"enabled": False}})) == []


@pytest.mark.parametrize("spec", [{}, {"entrypoint": "python a.py"}])
def test_a_ray_job_without_a_cluster_has_no_pods(spec: dict[str, Any]) -> None:
    found = read(*home(), made("RayJob", spec))
    assert found.system.workloads == ()
    assert "rayClusterSpec is missing: Kueue rejects this job" in [each.message for each in found.warnings]


def test_a_ray_job_on_an_existing_cluster_has_no_pods() -> None:
    found = read(*home(), made("RayJob", {"clusterSelector": {"ray.io/cluster": "c"}}))
    assert found.system.workloads == ()
    assert [each.message for each in found.warnings] == ["it has no pods of its own, so nothing is queued"]


@pytest.mark.parametrize("memory", ["2g", "2G", "2gb", "2048m", "2Gi", 2**31])
def test_memory_may_be_in_java_notation(memory: object) -> None:
    (found,) = read(*home(), made("SparkApplication", {"driver": {"memory": memory}})).system.workloads
    assert dict(found.pod_sets[0].requests) == {"memory": 2**31}


def test_an_executor_may_request_gpus_a_topology_and_nodes() -> None:
    executor = {
        "instances": 2,
        "gpu": {"name": "nvidia.com/gpu", "quantity": 1},
        "annotations": {"kueue.x-k8s.io/podset-group-name": "g"},
        "nodeSelector": {"disk": "fast"},
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": 1}}}],
    }
    (found,) = read(*home(), made("SparkApplication", {"driver": {}, "executor": executor})).system.workloads
    _, pods = found.pod_sets
    assert (dict(pods.requests), pods.group, pods.nodes.selector) == (
        {"cpu": 1000, "nvidia.com/gpu": 1},
        "g",
        (("disk", "fast"),),
    )


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "SUBMISSION_FAILED", "RUNNING"])
def test_a_finished_spark_application_is_not_part_of_the_system(state: str) -> None:
    found = read(*home(), made("SparkApplication", SPARK, status={"applicationState": {"state": state}}))
    assert len(found.system.workloads) == (state == "RUNNING")


# ---------------------------------------------------------------- owners of jobs

ELSEWHERE = "running on other clusters is not simulated: treated as if it ran here"


@pytest.mark.parametrize(
    ("kind", "path", "spec"),
    [
        ("Job", "spec.managedBy", of_cpu(1)),
        ("JobSet", "spec.managedBy", {"replicatedJobs": [replicated()]}),
        ("RayJob", "spec.managedBy", SUBMITS),
        ("RayCluster", "spec.managedBy", workers()),
        ("MPIJob", "spec.runPolicy.managedBy", {"mpiReplicaSpecs": {"Worker": of_cpu(1)}}),
        ("PyTorchJob", "spec.runPolicy.managedBy", {"pytorchReplicaSpecs": {"Worker": of_cpu(1)}}),
        ("AppWrapper", "spec.managedBy", wrapped("Deployment", of_cpu(1))),
    ],
)
def test_a_job_for_other_clusters_causes_a_warning(kind: str, path: str, spec: dict[str, Any]) -> None:
    def managed_by(name: str) -> list[tuple[int, str, str]]:
        managed = {"managedBy": name}
        holder = {"runPolicy": managed} if "runPolicy" in path else managed
        return warnings(*home(), made(kind, {**spec, **holder}))

    assert managed_by("kueue.x-k8s.io/multikueue") == [(4, path, ELSEWHERE)]
    assert managed_by("example.com/controller") == []
