"""The fields that admission writes into a job, and restores when the job is suspended again (law A3; partial-admission.md).

Pure functions over what a manifest says of a batch/v1 Job or an MPIJob.  A job that runs with fewer pods has the admitted counts
in its own fields; only its Workload still knows what its owner asked for (`as_asked`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

MAIN = "main"
LAUNCHER, WORKER = "launcher", "worker"

Changes = Mapping[str, int | bool]
"""What is written into a job: ``parallelism``, ``completions``, ``workers``, ``suspend``, in this order where they are there."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_FLAGS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job.  *completions* None: not said.  *min_parallelism*, *sync*: its two annotations as written, None if absent."""

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
        """At most so many run at once."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions)

    @property
    def synced(self) -> bool:
        """Whether completions follow parallelism."""
        return _FLAGS.get(self.sync or "", False)

    @property
    def least(self) -> int | None:
        """The fewest pods that will do; None: all of them are needed, or the annotation is refused."""
        return int(self.min_parallelism) if self.min_parallelism is not None and problem(self) is None else None


@dataclass(frozen=True, slots=True)
class MpiJob:
    """A kubeflow.org MPIJob.  *min_available*: as written, None if absent."""

    POD_SET: ClassVar[str] = WORKER

    workload: str
    workers: int = 0
    min_available: int | None = None
    suspend: bool = True

    @property
    def pods(self) -> int:
        """The workers, of which there may be fewer."""
        return self.workers

    @property
    def least(self) -> int | None:
        """The fewest workers that will do; None: all of them are needed, which is also what a whole gang says."""
        known = self.min_available
        return known if known is not None and 1 <= known < self.workers else None


AnyJob = Job | MpiJob


def problem(job: Job) -> str | None:
    """Why its annotations are refused, with what is allowed; None if they are not."""
    if job.min_parallelism is not None:
        allowed = f"from 1 to {job.pods - 1}, less than its {job.pods} pods" if job.pods > 1 else "none: it has one pod"
        if not _WHOLE.fullmatch(job.min_parallelism):
            return f"{job.min_parallelism!r} is not a whole number: allowed is {allowed}"
        if not 0 < int(job.min_parallelism) < job.pods:
            return f"{job.min_parallelism} pods at least: allowed is {allowed}"
    if job.sync is not None and job.sync not in _FLAGS:
        return f"{job.sync!r} is not true or false"
    if job.synced and not job.indexed:
        return "completions can follow parallelism only in a Job with completionMode Indexed"
    if job.synced and job.parallelism != (1 if job.completions is None else job.completions):
        return "completions can follow parallelism only if both are equal"
    return None


def as_asked(job: AnyJob, counts: Mapping[str, int]) -> AnyJob:
    """*job* with the counts that its owner wrote.  *counts*: pods by pod set, as its Workload asks for them.

    Nothing is ever written into the counts of a job that needs all of its pods: they are its owner's.
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
    """The patch that starts it with *admitted* pods by pod set; with counts only if it accepts fewer."""
    if job.least is None:
        return {"suspend": False}
    count = admitted.get(job.POD_SET, job.pods)
    if isinstance(job, MpiJob):
        return {"workers": count, "suspend": False}
    return {"parallelism": count, **({"completions": count} if job.synced else {}), "suspend": False}


def suspended(job: AnyJob) -> Changes:
    """The patch that suspends it: its counts as its owner wrote them."""
    if job.least is None:
        return {"suspend": True}
    if isinstance(job, MpiJob):
        return {"workers": job.workers, "suspend": True}
    completions = {"completions": job.completions} if job.synced and job.completions is not None else {}
    return {"parallelism": job.parallelism, **completions, "suspend": True}


def must_suspend(job: AnyJob, admitted: Mapping[str, int]) -> bool:
    """Whether *job*, as it stands, runs with other pods than the *admitted* ones, by pod set: then its Workload goes too."""
    return not job.suspend and admitted.get(job.POD_SET, job.pods) != job.pods
