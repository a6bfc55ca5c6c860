"""Jobs: the workloads they represent, the fields that admission sets, and the fields that suspension restores (rule
A3).
"""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.kueue.declared import Workload, WorkloadPodSet
from runrig.kueue.read.jobs import Job, MpiJob, must_suspend, problem, started, suspended
from tests.worlds.manifests import home, job, manifest, pod, read, warnings

CASES = yaml.load((Path(__file__).parent / "data" / "jobs.yaml").read_text(), yaml.CSafeLoader)
MAIN = WorkloadPodSet(requests=(("cpu", 1000),))
_SPEC = {"parallelism": "parallelism", "completions": "completions", "suspend": "suspend"}
_ANNOTATIONS = {"min_parallelism": "job-min-parallelism", "sync": "job-completions-equal-parallelism"}


def as_manifest(fields: dict[str, Any]) -> dict[str, object]:
    spec = {name: fields[field] for name, field in _SPEC.items() if field in fields}
    mode = {"completionMode": "Indexed"} if fields.get("indexed") else {}
    return job(
        "j", {**spec, **mode}, {name: str(fields[field]) for field, name in _ANNOTATIONS.items() if field in fields}
    )


def sentence(case: dict[str, Any]) -> str:
    return f"{case['id']}"


@pytest.mark.parametrize("case", CASES, ids=sentence)
def test_job(case: dict[str, Any]) -> None:
    found = read(*home(), as_manifest(case["job"]))
    (read_job,) = found.jobs
    (workload,) = found.system.workloads
    assert isinstance(read_job, Job)
    if "pod_set" in case:
        assert workload.pod_sets == (WorkloadPodSet("main", **case["pod_set"], requests=(("cpu", 1000),)),)
    if "valid" in case:
        assert (problem(read_job) is None, workload.problem == "", found.warnings == ()) == (case["valid"],) * 3
    if "allowed_min" in case:
        assert "from {} to {}".format(*case["allowed_min"]) in workload.problem
    if "started" in case:
        assert started(read_job, {"main": case["admitted"]}) == case["started"]
    if "suspended" in case:
        assert suspended(read_job) == case["suspended"]
    if "must_suspend" in case:
        assert must_suspend(read_job, {"main": case["admitted"]}) is case["must_suspend"]


def test_a_job_becomes_a_workload_with_its_name() -> None:
    spec = {"parallelism": 5, "completions": 3, "suspend": True}
    found = read(*home(), job("train", spec, {"priority-boost": "2"}))
    assert found.warnings == ()
    assert found.system.workloads == (
        Workload("default/train", "cq", (WorkloadPodSet("main", 3, None, (("cpu", 1000),)),), boost=2),
    )
    assert found.jobs == (Job("default/train", parallelism=5, completions=3, suspend=True),)


def test_an_empty_job_spec_means_one_pod() -> None:
    assert read(*home(), job("j", {})).system.workloads == (Workload("default/j", "cq", (MAIN,)),)


def test_an_invalid_annotation_is_a_problem_of_the_job_and_a_warning() -> None:
    wrong = job("j", {"parallelism": 4}, {"job-min-parallelism": "9"})
    message = "the minimum number of pods is 9; it must be from 1 to 3"
    found = read(*home(), wrong)
    pods = WorkloadPodSet("main", 4, None, (("cpu", 1000),))
    assert found.system.workloads == (Workload("default/j", "cq", (pods,), problem=message),)
    path = "metadata.annotations.kueue.x-k8s.io/job-min-parallelism"
    assert warnings(*home(), wrong) == [(4, path, f"{message}: Kueue rejects this job")]
    alone = job("j", {}, {"job-min-parallelism": "1"})
    assert warnings(*home(), alone) == [
        (4, path, "the minimum number of pods is 1; it is not allowed for a job with one pod: Kueue rejects this job")
    ]


def test_a_job_without_a_queue_is_ignored() -> None:
    alone = manifest("Job", "j", {"template": pod()}, "batch/v1")
    found = read(*home(), alone)
    assert (found.system.workloads, found.jobs) == ((), ())
    assert warnings(*home(), alone) == [
        (4, "", "ignored: it has no label kueue.x-k8s.io/queue-name, and its namespace no LocalQueue 'default'")
    ]


def test_a_finished_job_is_not_part_of_the_system() -> None:
    ended = {**job("j", {}), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert read(*home(), ended) == read(*home())


def test_a_generated_name_ends_with_the_document_number() -> None:
    nameless = job("x", {})
    nameless["metadata"] = {**nameless["metadata"], "name": None, "generateName": "run-"}
    found = read(*home(), nameless, nameless)
    assert [workload.name for workload in found.system.workloads] == ["default/run-4", "default/run-5"]
    assert [(w.path, w.message) for w in found.warnings] == [
        ("metadata.generateName", "the cluster would generate this name; run-4 is used here"),
        ("metadata.generateName", "the cluster would generate this name; run-5 is used here"),
    ]


def test_a_job_is_represented_by_its_workload_in_the_file() -> None:
    meta = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}]}
    own = manifest(
        "Workload", "job-train-1a2b", {"queueName": "lq", "podSets": [{"count": 1, "template": pod()}]}, meta=meta
    )
    found = read(*home(), job("train", {}), own)
    assert [workload.name for workload in found.system.workloads] == ["default/job-train-1a2b"]
    assert found.jobs == (Job("default/job-train-1a2b", suspend=False),)
    done = {**own, "status": {"conditions": [{"type": "Finished", "status": "True"}]}}
    assert read(*home(), job("train", {}), done).system.workloads == ()


# ---------------------------------------------------------------- a running job


def behind(
    kind: str, name: str, asks: int, admitted: int, pod_set: str = "main", least: int | None = 4
) -> dict[str, object]:
    """The Workload of the job *name*, admitted."""
    owners = [{"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": "u"}]
    fewer = {} if least is None else {"minCount": least}
    granted = {"name": pod_set, "count": admitted, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": admitted}}
    return manifest(
        "Workload",
        "job-of-it",
        {"queueName": "lq", "podSets": [{"name": pod_set, "count": asks, "template": pod(), **fewer}]},
        meta={"ownerReferences": owners, "creationTimestamp": "2026-03-02T09:00:00Z"},
        status={"admission": {"clusterQueue": "cq", "podSetAssignments": [granted]}},
    )


def flexible(pods: int, completions: int | None = None, **spec: object) -> dict[str, object]:
    """A Job with at least 4 pods; its completions follow."""
    counts = {"parallelism": pods, "completions": pods if completions is None else completions}
    marks = {"job-min-parallelism": "4", "job-completions-equal-parallelism": "true"}
    return job("train", {**counts, "completionMode": "Indexed", "suspend": False, **spec}, marks)


@pytest.mark.parametrize("runs_with", [5, 4], ids=["between", "at its minimum"])
def test_a_job_running_with_fewer_pods_gets_its_counts_from_its_workload(runs_with: int) -> None:
    """Rule A3: its own fields have the admitted counts."""
    found = read(*home(), flexible(runs_with), behind("Job", "train", 8, runs_with))
    assert found.warnings == ()
    (it,) = found.jobs
    assert it == Job("default/job-of-it", 8, 8, indexed=True, min_parallelism="4", sync="true", suspend=False)
    assert suspended(it) == {"parallelism": 8, "completions": 8, "suspend": True}
    assert started(it, {"main": 6}) == {"parallelism": 6, "completions": 6, "suspend": False}
    assert found.system.workloads[0].granted is not None


def test_a_suspended_job_keeps_the_counts_of_its_owner() -> None:
    """Completions limit its pods; parallelism alone is higher."""
    waits = job("train", {"parallelism": 10, "completions": 8, "suspend": True}, {"job-min-parallelism": "4"})
    found = read(*home(), waits, behind("Job", "train", 8, 5))
    assert (found.warnings, [suspended(each) for each in found.jobs]) == ((), [{"parallelism": 10, "suspend": True}])


@pytest.mark.parametrize("runs_with", [5, 4], ids=["between", "at its minimum"])
def test_an_mpi_job_running_with_fewer_workers_gets_its_counts_from_its_workload(runs_with: int) -> None:
    found = read(*home(), behind("MPIJob", "m", 8, runs_with, "worker"), mpi(runs_with, 4, suspend=False))
    assert found.warnings == ()
    assert found.jobs == (MpiJob("default/job-of-it", workers=8, min_available=4, suspend=False),)
    assert [suspended(each) for each in found.jobs] == [{"workers": 8, "suspend": True}]


@pytest.mark.parametrize("workload_first", [False, True])
def test_a_job_running_with_other_counts_than_admitted_is_suspended(workload_first: bool) -> None:
    """KEP-420, EquivalentToWorkload: its Workload is replaced by one that is created now."""
    documents = (flexible(7), behind("Job", "train", 8, 5))
    late = manifest("Namespace", "default", version="v1", meta={"creationTimestamp": "2026-03-02T09:30:00Z"})
    found = read(*home(), late, *(reversed(documents) if workload_first else documents))
    said = (
        "7 pods run but 5 were admitted. The job is suspended, restored to parallelism: 8, completions: 8 and requeued "
        "with a new Workload for 8 pods. Change the number of pods only while it is suspended"
    )
    assert [(each.path, each.message) for each in found.warnings] == [("spec.parallelism", said)]
    (workload,) = found.system.workloads
    assert (workload.granted, workload.queue) == (None, "cq")
    assert workload.created_at == math.nextafter(found.system.now, math.inf)
    assert workload.pod_sets == (WorkloadPodSet("main", 8, 4, (("cpu", 1000),)),)


def test_a_job_that_needs_all_its_pods_is_requeued_with_its_current_counts() -> None:
    """Its counts are never changed."""
    changed = job("train", {"parallelism": 7, "suspend": False})
    found = read(*home(), changed, behind("Job", "train", 8, 8, least=None))
    assert [each.message for each in found.warnings] == [
        "7 pods run but 8 were admitted. The job is suspended and requeued with a new Workload for 7 pods. "
        "Change the number of pods only while it is suspended"
    ]
    (workload,) = found.system.workloads
    assert (workload.granted, workload.pod_sets[0].count) == (None, 7)


def test_an_mpi_job_running_with_other_counts_than_admitted_is_suspended() -> None:
    found = read(*home(), mpi(6, 4, suspend=False), behind("MPIJob", "m", 8, 5, "worker"))
    assert [(each.path, each.message) for each in found.warnings] == [
        (
            "spec.mpiReplicaSpecs.Worker.replicas",
            "6 pods run but 5 were admitted. The job is suspended, restored to workers: 8 and requeued "
            "with a new Workload for 8 pods. Change the number of pods only while it is suspended",
        )
    ]
    assert found.system.workloads[0].granted is None


def test_an_invalid_minimum_is_compared_with_the_count_in_the_workload() -> None:
    found = read(*home(), flexible(4), behind("Job", "train", 4, 4, least=None))
    assert [each.message for each in found.warnings] == [
        "the minimum number of pods is 4; it must be from 1 to 3: Kueue rejects this job"
    ]


# ---------------------------------------------------------------- priority


CLASSES = (
    manifest("WorkloadPriorityClass", "high", value=100),
    manifest("PriorityClass", "pods", version="scheduling.k8s.io/v1", value=7),
)
DEFAULT = manifest("WorkloadPriorityClass", "default", value=50)
GLOBAL = manifest("PriorityClass", "all", version="scheduling.k8s.io/v1", value=3, globalDefault=True)


@pytest.mark.parametrize(
    ("more", "template", "label", "priority"),
    [
        ((), {}, None, 0),
        ((), {"priorityClassName": "pods"}, None, 7),
        ((), {"priorityClassName": "pods"}, "high", 100),
        ((GLOBAL,), {}, None, 3),
        ((GLOBAL,), {"priorityClassName": "pods"}, None, 7),
        ((GLOBAL, DEFAULT), {"priorityClassName": "pods"}, None, 50),
        ((GLOBAL, DEFAULT), {}, "high", 100),
    ],
)
def test_the_priority_of_a_job_has_several_sources(
    more: tuple[Any, ...], template: dict[str, Any], label: str | None, priority: int
) -> None:
    labels = {"priority-class": label} if label else {}
    found = read(*home(), *CLASSES, *more, job("j", {"template": pod(**template)}, None, **labels))
    assert (found.system.workloads[0].priority, found.warnings) == (priority, ())


# ---------------------------------------------------------------- MPIJob


def mpi(workers: int, least: int | None = None, **run: object) -> dict[str, object]:
    gang = {"schedulingPolicy": {"minAvailable": least}} if least is not None else {}
    replicas = {"Worker": {"replicas": workers, "template": pod({"cpu": 2})}, "Launcher": {"template": pod()}}
    spec = {"mpiReplicaSpecs": replicas, "runPolicy": {**gang, **run}, "slotsPerWorker": 1}
    return manifest("MPIJob", "m", spec, "kubeflow.org/v2beta1", meta={"labels": {"kueue.x-k8s.io/queue-name": "lq"}})


def workers(count: int, least: int | None) -> Workload:
    launcher = WorkloadPodSet("launcher", 1, None, (("cpu", 1000),))
    return Workload("default/m", "cq", (launcher, WorkloadPodSet("worker", count, least, (("cpu", 2000),))))


def test_an_mpi_job_is_a_launcher_and_its_workers() -> None:
    found = read(*home(), mpi(4, 2, suspend=True))
    assert found.warnings == ()
    assert found.system.workloads == (workers(4, 2),)
    assert found.jobs == (MpiJob("default/m", workers=4, min_available=2, suspend=True),)


def test_smaller_worker_counts_are_written_and_restored() -> None:
    accepts = MpiJob("m", workers=4, min_available=2)
    assert started(accepts, {"launcher": 1, "worker": 3}) == {"suspend": False, "workers": 3}
    assert suspended(accepts) == {"suspend": True, "workers": 4}
    needs_all = MpiJob("m", workers=4)
    assert (started(needs_all, {"worker": 4}), suspended(needs_all)) == ({"suspend": False}, {"suspend": True})


@pytest.mark.parametrize("least", [4, 5])
def test_a_complete_gang_accepts_no_fewer_workers(least: int) -> None:
    found = read(*home(), mpi(4, least))
    assert (found.system.workloads, found.warnings) == ((workers(4, None),), ())


@pytest.mark.parametrize("least", [0, 6])
def test_an_impossible_minimum_of_workers_causes_a_warning(least: int) -> None:
    found = read(*home(), mpi(4, least))
    assert found.system.workloads == (workers(4, None),)
    assert [(w.path, w.message) for w in found.warnings] == [
        (
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{least} must be from 1 to 4, the number of workers; treated as all of them",
        )
    ]
