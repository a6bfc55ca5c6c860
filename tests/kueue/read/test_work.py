"""Which objects represent the same work: a Workload and its job, a job and the objects it created, pods of one group."""

from typing import Any

import pytest

from tests.worlds.manifests import home, manifest, pod, read, warnings, workload

LABEL = {"kueue.x-k8s.io/queue-name": "lq"}
GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
HEAD = {"headGroupSpec": {"template": pod()}}


def ray_job(**meta: Any) -> dict[str, Any]:
    spec = {"rayClusterSpec": HEAD, "shutdownAfterJobFinishes": True}
    return manifest("RayJob", "tune", spec, "ray.io/v1", meta={"labels": LABEL, **meta})


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": name}]}


def names(*documents: Any) -> list[str]:
    found = read(*home(), *documents)
    assert found.warnings == ()
    return [each.name.removeprefix("default/") for each in found.system.workloads]


def test_a_job_with_a_workload_counts_through_it() -> None:
    behind = workload("rayjob-tune-1a2b", meta=owner("RayJob", "tune"))
    assert names(ray_job(), behind) == names(behind, ray_job()) == ["rayjob-tune-1a2b"]
    assert names(ray_job(), workload("other", meta=owner("RayCluster", "tune"))) == ["tune", "other"]
    finished = {**behind, "status": {"conditions": [{"type": "Finished", "status": "True"}]}}
    assert names(ray_job(), finished) == []


def test_objects_created_by_a_job_count_through_it() -> None:
    cluster = manifest("RayCluster", "tune-x", HEAD, "ray.io/v1", meta={"labels": LABEL, **owner("RayJob", "tune")})
    behind = workload("w", meta=owner("RayJob", "tune"))
    assert names(ray_job(), cluster) == names(cluster, ray_job()) == ["tune"]
    assert names(cluster, behind) == ["w"]
    assert names(cluster) == ["tune-x"]


@pytest.mark.parametrize("listed", ["deployment", "workloads", "both"])
def test_a_deployment_its_pods_and_their_workloads_are_counted_once(listed: str) -> None:
    meta: dict[str, Any] = {"labels": LABEL}
    spec = {"replicas": 2, "template": pod()}
    deployment = manifest("Deployment", "web", spec, "apps/v1", meta=meta)
    pods = [
        manifest("Pod", f"web-6d4f-{tail}", pod()["spec"], "v1", meta={**meta, **owner("ReplicaSet", "web-6d4f")})
        for tail in ("aaaaa", "bbbbb")
    ]
    behind = [workload(f"pod-{each['metadata']['name']}", meta=owner("Pod", each["metadata"]["name"])) for each in pods]
    documents = {"deployment": [deployment, *pods], "workloads": [*pods, *behind], "both": [*behind, deployment, *pods]}
    expected = ["web-0", "web-1"] if listed == "deployment" else ["pod-web-6d4f-aaaaa", "pod-web-6d4f-bbbbb"]
    assert names(*documents[listed]) == expected


def test_jobs_of_different_kinds_may_have_the_same_name() -> None:
    cluster = manifest("RayCluster", "tune", HEAD, "ray.io/v1", meta={"labels": LABEL})
    assert names(ray_job(), cluster) == ["tune", "raycluster-tune"]


def test_a_workload_created_in_advance_counts_for_its_job() -> None:
    made = ray_job(labels={**LABEL, "kueue.x-k8s.io/prebuilt-workload-name": "w"})
    assert names(made, workload("w")) == ["w"]
    assert names(made) == ["tune"]


@pytest.mark.parametrize("over", [{"jobDeploymentStatus": "Complete"}, {"jobDeploymentStatus": "Failed"}])
def test_a_finished_ray_job_is_not_part_of_the_system(over: dict[str, Any]) -> None:
    assert names({**ray_job(), "status": over}) == []
    assert names({**ray_job(), "status": {"jobDeploymentStatus": "Running"}}) == ["tune"]


# ---------------------------------------------------------------- pods


def member(name: str, total: str | None = "2", cpu: int = 1) -> dict[str, Any]:
    meta = {"labels": {**LABEL, GROUP: "g"}, "annotations": {} if total is None else {TOTAL: total}}
    return manifest("Pod", name, pod({"cpu": cpu})["spec"], "v1", meta=meta)


def test_pods_of_a_group_are_one_workload_with_a_pod_set_per_shape() -> None:
    (found,) = read(*home(), member("a", "3"), member("b", "3", cpu=2), member("c", "3")).system.workloads
    assert (found.name, found.problem) == ("default/g", "")
    assert [(each.count, each.requests) for each in found.pod_sets] == [(2, (("cpu", 1000),)), (1, (("cpu", 2000),))]


def test_a_group_waits_for_all_its_pods_unless_fast_admission_is_set() -> None:
    (found,) = read(*home(), member("a", "3")).system.workloads
    assert found.problem == "1 of the 3 pods of its group is in this file"
    fast = member("a", "3")
    fast["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-fast-admission"] = "true"
    (found,) = read(*home(), fast).system.workloads
    assert (found.problem, [each.count for each in found.pod_sets]) == ("", [3])


@pytest.mark.parametrize("total", [None, "0", "many"])
def test_a_group_without_a_size_is_never_queued(total: str | None) -> None:
    documents = *home(), member("a", total)
    assert read(*documents).system.workloads[0].problem == f"its pods do not specify the size of their group ({TOTAL})"
    assert [message for _, _, message in warnings(*documents)] == [
        f"{TOTAL} must be a whole number from 1 to 10,000: this group is never queued"
    ]


def test_a_finished_pod_with_a_queue_is_not_part_of_the_system() -> None:
    alone = manifest("Pod", "p", pod()["spec"], "v1", meta={"labels": LABEL})
    assert names(alone) == ["p"]
    assert names({**alone, "status": {"phase": "Succeeded"}}) == []
    assert names(alone, workload("w", meta=owner("Pod", "p"))) == ["w"]
