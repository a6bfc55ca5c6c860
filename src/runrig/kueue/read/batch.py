"""Reads a batch/v1 Job or kubeflow.org/v2beta1 MPIJob with a queue-name label as the workload that it represents."""

from dataclasses import dataclass, replace

from runrig.domain.quantities import counted
from runrig.kueue.read import marks
from runrig.kueue.read.drafts import Draft
from runrig.kueue.read.jobs import (
    LAUNCHER,
    MAIN,
    WORKER,
    AnyJob,
    Changes,
    Job,
    MpiJob,
    as_asked,
    must_suspend,
    problem,
    suspended,
)
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.parts import JOB_FIELDS, warn_if_elsewhere
from runrig.kueue.read.pods import read_template
from runrig.kueue.read.podsets import class_of, draft_of, pod_set, queue_of
from runrig.kueue.read.surroundings import Surroundings
from runrig.kueue.read.tree import Object, Value

_MPI = (
    "mpiReplicaSpecs", "runPolicy", "slotsPerWorker", "runLauncherAsWorker", "sshAuthMountPath", "launcherCreationPolicy",
    "mpiImplementation",
)  # fmt: skip
_OF_JOBS = (marks.MIN_PARALLELISM, marks.SYNC_COMPLETIONS)
_REPLICAS = {"Launcher": LAUNCHER, "Worker": WORKER}
_REPLICA = ("replicas", "template", "restartPolicy")
_RUN = (
    "suspend", "schedulingPolicy", "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit",
    "managedBy",
)  # fmt: skip
_GANG = ("minAvailable", "priorityClass", "queue", "minResources", "scheduleTimeoutSeconds")


@dataclass(frozen=True, slots=True)
class ReadJob:
    """*job*: the job with its current counts. *draft*: its workload, if the files have no Workload for it.

    *counts*: location of its number of pods. *marks*: locations of its minimum count and its sync annotation; None if
    absent.
    """

    job: AnyJob
    draft: Draft
    counts: Value
    marks: tuple[Value | None, Value | None] = (None, None)

    def alone(self) -> Draft:
        """The draft of a job without a Workload; warns of invalid annotations."""
        self._check(self.job)
        return self.draft

    def behind(self, draft: Draft) -> tuple[AnyJob, Draft]:
        """(the job as its owner wrote it, the draft of its Workload). *draft*: its Workload.

        If a job runs with another number of pods than admitted, it is suspended and its Workload is replaced, with a
        warning (KEP-420, EquivalentToWorkload).
        """
        counts = {each.name: each.count for each in draft.pod_sets}
        job = as_asked(replace(self.job, workload=draft.name), counts)
        self._check(job)
        held = draft.reservation
        admitted = {each.pod_set: each.count for each in held.granted} if held else {}
        if not must_suspend(self.job, admitted):
            return job, draft
        run = counted(self.job.pods, "pod runs", "pods run")
        self.counts.warn(
            f"{run} but {counted(admitted[job.POD_SET], 'was', 'were')} admitted. The job is suspended"
            f"{_given_back(suspended(job))} and requeued with a new Workload for {counted(job.pods, 'pod')}. "
            "Change the number of pods only while it is suspended"
        )
        return job, _anew(draft, job)

    def _check(self, job: AnyJob) -> None:
        least, sync = self.marks
        if isinstance(job, Job):
            refused = problem(job)
            at = least if problem(replace(job, sync=None)) else sync
            if refused and at:
                at.warn(f"{refused}: Kueue rejects this job")
        elif least and job.min_available is not None and not 1 <= job.min_available <= job.workers + 1:
            # A gang that needs all of its pods sets the number of workers, with or without the launcher.
            least.warn(
                f"{job.min_available} must be from 1 to {job.workers}, the number of workers; treated as all of them"
            )


def _anew(draft: Draft, job: AnyJob) -> Draft:
    """The Workload that replaces *draft* after *job* was suspended: it holds no quota and is created now."""
    pod_sets = tuple(
        replace(each, count=job.pods, min_count=job.least, reclaimable=min(each.reclaimable, job.pods))
        if each.name == job.POD_SET
        else each
        for each in draft.pod_sets
    )
    return replace(draft, pod_sets=pod_sets, created_at=None, queued_at=None, reservation=None)


def _given_back(changes: Changes) -> str:
    counts = ", ".join(f"{name}: {value}" for name, value in changes.items() if name != "suspend")
    return f", restored to {counts}" if counts else ""


def read_job(manifest: Manifest, around: Surroundings) -> ReadJob | None:
    """Reads a Job; None if it has ended or has no queue (with a warning)."""
    queue = queue_of(manifest, around)
    if queue is None or manifest.says("Complete") or manifest.says("Failed"):
        return None
    spec = manifest.spec.only(JOB_FIELDS)
    warn_if_elsewhere(spec)
    marks.warn_of_marks(manifest)
    least, sync = (manifest.meta.object("annotations").get(name) for name in _OF_JOBS)
    job = _job(manifest, spec, least, sync)
    pod = read_template(spec.object("template"), around, manifest.namespace)
    pods = pod_set(MAIN, job.pods, job.least, pod, spec.at)
    draft = draft_of(manifest, queue, [pod], (pods,), [class_of(spec.object("template"))], problem(job))
    return ReadJob(job, draft, spec.get("parallelism") or spec.at, (least, sync))


def read_mpi_job(manifest: Manifest, around: Surroundings) -> ReadJob | None:
    """Reads an MPIJob; None if it has ended or has no queue (with a warning). minAvailable is its minimum number of
    workers.
    """
    queue = queue_of(manifest, around)
    if queue is None or manifest.says("Succeeded") or manifest.says("Failed"):
        return None
    spec = manifest.spec.only(_MPI)
    marks.warn_of_marks(manifest)
    replicas = spec.object("mpiReplicaSpecs").only(_REPLICAS)
    counts = {name: replicas.object(name).whole("replicas", int(name == "Launcher")) for name in _REPLICAS}
    run = spec.object("runPolicy").only(_RUN)
    warn_if_elsewhere(run)
    gang = run.object("schedulingPolicy").only(_GANG)
    job = MpiJob(manifest.key, counts["Worker"], gang.whole("minAvailable", None), run.flag("suspend", False))
    pod_sets, classes, pods = [], [gang.get("priorityClass")], []
    for name, role in _REPLICAS.items():
        if replicas.has(name):
            fields = replicas.object(name).only(_REPLICA)
            pod = read_template(fields.object("template"), around, manifest.namespace)
            pod_sets.append(pod_set(role, counts[name], job.least if name == "Worker" else None, pod, fields.at))
            classes.append(class_of(fields.object("template")))
            pods.append(pod)
    if not pod_sets:
        spec.at.warn("mpiReplicaSpecs is missing: this job has no pods")
    draft = draft_of(manifest, queue, pods, tuple(pod_sets), classes)
    workers = replicas.object("Worker").get("replicas") or replicas.at
    return ReadJob(job, draft, workers, (gang.get("minAvailable"), None))


def _job(manifest: Manifest, spec: Object, least: Value | None, sync: Value | None) -> Job:
    modes = {"NonIndexed": False, "Indexed": True}
    return Job(
        workload=manifest.key,
        parallelism=spec.whole("parallelism", 1),
        completions=spec.whole("completions", None),
        indexed=spec.choice("completionMode", modes, False, otherwise="treated as NonIndexed"),
        min_parallelism=least.text() if least else None,
        sync=sync.text() if sync else None,
        suspend=spec.flag("suspend", False),
    )
