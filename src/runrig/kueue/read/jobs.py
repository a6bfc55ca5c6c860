"""The fields of a job that admission sets, and suspension restores (rule A3; partial-admission.md).

Pure functions on a batch/v1 Job or an MPIJob. While a job runs with fewer pods, its own fields contain the admitted
counts; only its Workload still has the counts that its owner requested (`as_asked`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

MAIN = "main"
LAUNCHER, WORKER = "launcher", "worker"

Changes = Mapping[str, int | bool]
"""A patch of a job: ``parallelism``, ``completions``, ``workers`` and ``suspend``, in this order, as far as they
change.
"""

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_FLAGS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job. *completions* None: not set. *min_parallelism*, *sync*: its two annotations as written; None if
    absent.
    """

    POD_SET: ClassVar[str] = MAIN

    workload: str
    parallelism: int = 1
    completions: int | None = None
    indexed: bool = False
    min_parallelism: str | None = None
    sync: str | None = None
    suspend: bool = True

    @property
    def pods(self) -> int:
        """Maximum number of pods that run at the same time."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions)

    @property
    def synced(self) -> bool:
        """Whether completions follow parallelism."""
        return _FLAGS.get(self.sync or "", False)

    @property
    def least(self) -> int | None:
        """The minimum number of pods; None if all are needed or the annotation is invalid."""
        return int(self.min_parallelism) if self.min_parallelism is not None and problem(self) is None else None


@dataclass(frozen=True, slots=True)
class MpiJob:
    """A kubeflow.org MPIJob. *min_available*: as written; None if absent."""

    POD_SET: ClassVar[str] = WORKER

    workload: str
    workers: int = 0
    min_available: int | None = None
    suspend: bool = True

    @property
    def pods(self) -> int:
        """The number of workers, the pod set that can be smaller."""
        return self.workers

    @property
    def least(self) -> int | None:
        """The minimum number of workers; None if all are needed, which minAvailable can also express."""
        known = self.min_available
        return known if known is not None and 1 <= known < self.workers else None


AnyJob = Job | MpiJob


def problem(job: Job) -> str | None:
    """Why its annotations are invalid, and which values are allowed; None if they are valid."""
    if job.min_parallelism is not None:
        allowed = f"must be from 1 to {job.pods - 1}" if job.pods > 1 else "is not allowed for a job with one pod"
        if not _WHOLE.fullmatch(job.min_parallelism) or not 0 < int(job.min_parallelism) < job.pods:
            return f"the minimum number of pods is {job.min_parallelism}; it {allowed}"
    if job.sync is not None and job.sync not in _FLAGS:
        return f"{job.sync!r} must be true or false"
    if job.synced and not job.indexed:
        return "completions can follow parallelism only in a Job with completionMode Indexed"
    if job.synced and job.parallelism != (1 if job.completions is None else job.completions):
        return "completions can follow parallelism only if both are equal"
    return None


def as_asked(job: AnyJob, counts: Mapping[str, int]) -> AnyJob:
    """*job* with the counts that its owner wrote. *counts*: the requested pods of its Workload, by pod set.

    Admission does not change the counts of a job that needs all of its pods, so these are kept.
    """
    count = counts.get(job.POD_SET, job.pods)
    if count == job.pods:
        return job
    if isinstance(job, MpiJob):
        return job if job.min_available is None else replace(job, workers=count)
    if job.min_parallelism is None:
        return job
    return replace(job, parallelism=count, completions=count if job.synced else job.completions)


def started(job: AnyJob, admitted: Mapping[str, int]) -> Changes:
    """The patch that starts *job* with *admitted* pods by pod set. It includes counts only if the job accepts fewer
    pods.
    """
    if job.least is None:
        return {"suspend": False}
    count = admitted.get(job.POD_SET, job.pods)
    if isinstance(job, MpiJob):
        return {"workers": count, "suspend": False}
    return {"parallelism": count, **({"completions": count} if job.synced else {}), "suspend": False}


def suspended(job: AnyJob) -> Changes:
    """The patch that suspends *job*, with the counts that its owner wrote."""
    if job.least is None:
        return {"suspend": True}
    if isinstance(job, MpiJob):
        return {"workers": job.workers, "suspend": True}
    completions = {"completions": job.completions} if job.synced and job.completions is not None else {}
    return {"parallelism": job.parallelism, **completions, "suspend": True}


def must_suspend(job: AnyJob, admitted: Mapping[str, int]) -> bool:
    """Whether *job* runs with other counts than *admitted*, by pod set; its Workload is then replaced."""
    return not job.suspend and admitted.get(job.POD_SET, job.pods) != job.pods
