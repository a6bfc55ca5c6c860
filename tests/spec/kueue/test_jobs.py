"""Jobs: the workload that they stand for, what admission writes into them, what is put back (law A3)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.domain.kueue import Workload, WorkloadPodSet
from runrig.spec.kueue.jobs import Job, MpiJob, allowed_update, must_suspend, problem, started, suspended
from tests.spec.kueue.builders import home, job, manifest, pod, read, warnings

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
        assert must_suspend(read_job, case["admitted"]) is case["must_suspend"]
    if "update" in case:
        assert allowed_update(read_job, case["update"]) is case["update_allowed"]


def test_a_job_is_a_workload_of_its_name() -> None:
    spec = {"parallelism": 5, "completions": 3, "suspend": True}
    found = read(*home(), job("train", spec, {"priority-boost": "2"}))
    assert found.warnings == ()
    assert found.system.workloads == (
        Workload("default/train", "cq", (WorkloadPodSet("main", 3, None, (("cpu", 1000),)),), boost=2),
    )
    assert found.jobs == (Job("default/train", parallelism=5, completions=3, suspend=True),)


def test_a_job_that_says_nothing_is_one_pod() -> None:
    assert read(*home(), job("j", {})).system.workloads == (Workload("default/j", "cq", (MAIN,)),)


def test_a_refused_annotation_is_a_problem_of_the_job_and_a_warning() -> None:
    wrong = job("j", {"parallelism": 4}, {"job-min-parallelism": "9"})
    message = "9 pods at least: allowed is from 1 to 3, less than its 4 pods"
    found = read(*home(), wrong)
    pods = WorkloadPodSet("main", 4, None, (("cpu", 1000),))
    assert found.system.workloads == (Workload("default/j", "cq", (pods,), problem=message),)
    path = "metadata.annotations.kueue.x-k8s.io/job-min-parallelism"
    assert warnings(*home(), wrong) == [(4, path, f"{message}: such a job is refused")]
    alone = job("j", {}, {"job-min-parallelism": "1"})
    assert warnings(*home(), alone) == [
        (4, path, "1 pods at least: allowed is none: it has one pod: such a job is refused")
    ]


def test_a_job_without_a_queue_is_not_read() -> None:
    alone = manifest("Job", "j", {"template": pod()}, "batch/v1")
    found = read(*home(), alone)
    assert (found.system.workloads, found.jobs) == ((), ())
    assert warnings(*home(), alone) == [(4, "", "not read: it has no label kueue.x-k8s.io/queue-name")]


def test_a_job_that_has_ended_is_no_part_of_the_system() -> None:
    ended = {**job("j", {}), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert read(*home(), ended) == read(*home())


def test_a_generated_name_is_completed_with_the_number_of_the_document() -> None:
    nameless = job("x", {})
    nameless["metadata"] = {**nameless["metadata"], "name": None, "generateName": "run-"}
    found = read(*home(), nameless, nameless)
    assert [workload.name for workload in found.system.workloads] == ["default/run-4", "default/run-5"]
    assert [(w.path, w.message) for w in found.warnings] == [
        ("metadata.generateName", "the name that the cluster would complete is run-4 here"),
        ("metadata.generateName", "the name that the cluster would complete is run-5 here"),
    ]


def test_the_workload_of_a_job_in_the_file_stands_for_it() -> None:
    meta = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}]}
    own = manifest("Workload", "job-train-1a2b", {"queueName": "lq", "podSets": [{"template": pod()}]}, meta=meta)
    found = read(*home(), job("train", {}), own)
    assert [workload.name for workload in found.system.workloads] == ["default/job-train-1a2b"]
    assert found.jobs == (Job("default/job-train-1a2b", suspend=False),)
    done = {**own, "status": {"conditions": [{"type": "Finished", "status": "True"}]}}
    assert read(*home(), job("train", {}), done).system.workloads == ()


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
def test_where_the_priority_of_a_job_comes_from(
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
    assert found.jobs == (MpiJob("default/m", workers=4, least=2, suspend=True),)


def test_fewer_workers_are_written_and_restored() -> None:
    accepts = MpiJob("m", workers=4, least=2)
    assert started(accepts, {"launcher": 1, "worker": 3}) == {"suspend": False, "workers": 3}
    assert suspended(accepts) == {"suspend": True, "workers": 4}
    needs_all = MpiJob("m", workers=4)
    assert (started(needs_all, {"worker": 4}), suspended(needs_all)) == ({"suspend": False}, {"suspend": True})


@pytest.mark.parametrize("least", [4, 5])
def test_a_whole_gang_accepts_no_fewer_workers(least: int) -> None:
    found = read(*home(), mpi(4, least))
    assert (found.system.workloads, found.warnings) == ((workers(4, None),), ())


@pytest.mark.parametrize("least", [0, 6])
def test_a_minimum_of_workers_that_cannot_be_is_warned_of(least: int) -> None:
    found = read(*home(), mpi(4, least))
    assert found.system.workloads == (workers(4, None),)
    assert [(w.path, w.message) for w in found.warnings] == [
        (
            "spec.runPolicy.schedulingPolicy.minAvailable",
            f"{least} is not from 1 to 4, the number of workers: treated as all of them",
        )
    ]
