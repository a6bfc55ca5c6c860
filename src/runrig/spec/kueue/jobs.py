"""The fields that admission writes into a job, and restores when the job is suspended again (law A3).

Pure functions over what a manifest says of a batch/v1 Job or an MPIJob.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

MAIN = "main"
LAUNCHER, WORKER = "launcher", "worker"

Changes = Mapping[str, int | bool]
"""Fields of the job by name (``parallelism``, ``completions``, ``workers``, ``suspend``) and what is written there."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_FLAGS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job.  *completions* None: not said.  *min_parallelism*, *sync*: its two annotations as written, None if absent."""

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
    """A kubeflow.org MPIJob.  *least*: the fewest workers that will do; None: all are needed."""

    workload: str
    workers: int = 0
    least: int | None = None
    suspend: bool = True


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


def started(job: AnyJob, admitted: Mapping[str, int]) -> Changes:
    """The patch that starts it with *admitted* pods by pod set; with counts only if it accepts fewer."""
    if isinstance(job, MpiJob):
        workers = admitted.get(WORKER, job.workers)
        return {"suspend": False} if job.least is None else {"suspend": False, "workers": workers}
    if job.least is None:
        return {"suspend": False}
    count = admitted.get(MAIN, job.pods)
    return {"suspend": False, "parallelism": count, **({"completions": count} if job.synced else {})}


def suspended(job: AnyJob) -> Changes:
    """The patch that suspends it: its counts as its owner wrote them."""
    if isinstance(job, MpiJob):
        return {"suspend": True} if job.least is None else {"suspend": True, "workers": job.workers}
    if job.least is None:
        return {"suspend": True}
    completions = {"completions": job.completions} if job.synced and job.completions is not None else {}
    return {"suspend": True, "parallelism": job.parallelism, **completions}


def must_suspend(job: Job, admitted: int) -> bool:
    """Whether *job*, as it is now, runs with another number of pods than the *admitted* ones: then its workload goes too."""
    return not job.suspend and job.pods != admitted


def allowed_update(job: Job, parallelism: int) -> bool:
    """Whether its owner may change parallelism: not of a running job that accepts fewer pods, and never to a wrong value."""
    if job.min_parallelism is not None and not job.suspend and parallelism != job.parallelism:
        return False
    return problem(replace(job, parallelism=parallelism)) is None
