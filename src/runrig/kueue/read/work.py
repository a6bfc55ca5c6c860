"""Reads workloads, jobs and pods as drafts, and finds out which of them represent the same work.

A Workload has the requests and quota of its job; a job counts only if the files have no Workload for it. Objects that a
job created (the RayCluster of a RayJob, the pods of a Deployment) count as part of that job.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runrig.kueue.read import marks
from runrig.kueue.read.batch import ReadJob, read_job, read_mpi_job
from runrig.kueue.read.cluster import ENDED, BoundPod, read_bound_pod
from runrig.kueue.read.drafts import Draft
from runrig.kueue.read.jobkinds import JOB_KINDS
from runrig.kueue.read.jobs import AnyJob
from runrig.kueue.read.manager import Manager
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.standing import read_pods, read_standing
from runrig.kueue.read.surroundings import Surroundings
from runrig.kueue.read.tree import Object
from runrig.kueue.read.workloads import read_workload

WORKLOAD, POD = "Workload", "Pod"
_PARTIAL = {"Job": read_job, "MPIJob": read_mpi_job}
_KINDS = frozenset((*JOB_KINDS, *_PARTIAL))

Key = tuple[str, str]
"""(kind, namespace/name)."""


@dataclass(frozen=True, slots=True)
class FoundWork:
    """*drafts*: in the order of the files. *jobs*: those that admission patches. *pods*: bound pods outside of
    workloads.
    """

    drafts: tuple[Draft, ...]
    jobs: tuple[AnyJob, ...]
    pods: tuple[BoundPod, ...]


@dataclass(slots=True)
class _Known:
    """*owned*: job → its Workload, by name. *managed*: jobs in the files that have a queue."""

    owned: dict[Key, str] = field(default_factory=dict)
    managed: set[Key] = field(default_factory=set)

    def has(self, manifest: Manifest) -> bool:
        """Whether its Workload is in the files."""
        return (manifest.kind, manifest.key) in self.owned

    def leaves(self, manifest: Manifest) -> bool:
        """Whether it does not count by itself: another job created it, and either that job counts or *manifest* has no
        queue label.
        """
        if any(key in self.managed or key in self.owned for key in _owners(manifest)):
            return True
        return _has_maker(manifest) and not manifest.labels.get(marks.QUEUE)


def find_work(
    manifests: Sequence[Manifest],
    around: Surroundings,
    manager: Manager,
    runtimes: Mapping[tuple[str, str], Object],
) -> FoundWork:
    """Reads *manifests*: Workloads, jobs and pods, in the order of the files."""
    known = _Known()
    for manifest in manifests:
        if manifest.kind == WORKLOAD:
            known.owned.update(dict.fromkeys(_owners(manifest), manifest.key))
        elif manifest.kind in _KINDS and _queues(manifest, around):
            known.managed.add((manifest.kind, manifest.key))
    drafts: dict[int, list[Draft]] = {}
    jobs: dict[int, ReadJob] = {}
    for place, manifest in enumerate(manifests):
        if manifest.kind == WORKLOAD:
            found = read_workload(manifest, around, manager)
            drafts[place] = [found] if found else []
        elif manifest.kind in _PARTIAL and not known.leaves(manifest):
            job = _PARTIAL[manifest.kind](manifest, around)
            if job is not None:
                jobs[place] = job
        elif manifest.kind in JOB_KINDS and not known.leaves(manifest) and not known.has(manifest):
            drafts[place] = read_standing(manifest, around, runtimes)
    queued, bound = _pods(manifests, around, known)
    drafts.update({place: [draft] for place, draft in read_pods(queued, around)})
    in_order, changed = _with_jobs(drafts, jobs, known)
    return FoundWork(tuple(_named_apart(in_order)), changed, tuple(bound))


def _owners(manifest: Manifest) -> Iterator[Key]:
    """Yields its owners, and the Deployment or StatefulSet that created them, whose name is a prefix of theirs."""
    for kind, name in manifest.owners():
        yield kind, f"{manifest.namespace}/{name}"
        parts = name.rsplit("-", 2)
        if kind == "ReplicaSet" and len(parts) > 1:
            yield "Deployment", f"{manifest.namespace}/{name.rpartition('-')[0]}"
        elif kind == POD and manifest.kind == WORKLOAD and len(parts) > 1:
            yield "StatefulSet", f"{manifest.namespace}/{name.rpartition('-')[0]}"
            yield "Deployment", f"{manifest.namespace}/{parts[0]}"


def _queues(manifest: Manifest, around: Surroundings) -> bool:
    """Whether it has a queue of its own. The default queue does not apply to objects that another job created."""
    if manifest.labels.get(marks.QUEUE):
        return True
    return manifest.namespace in around.defaulted and not _has_maker(manifest)


def _has_maker(manifest: Manifest) -> bool:
    return any(kind in _KINDS or kind == "ReplicaSet" for kind, _ in manifest.owners())


def _pods(
    manifests: Sequence[Manifest], around: Surroundings, known: _Known
) -> tuple[list[tuple[int, Manifest]], list[BoundPod]]:
    """(pods that queue by themselves, with their index; bound pods outside of workloads)."""
    names = {name for _, name in (*known.owned, *known.managed)}
    queued, bound = [], []
    for place, manifest in enumerate(manifests):
        if manifest.kind != POD or _is_of_gang(manifest, known, names):
            continue
        at_home = manifest.spec.has("nodeName")
        if marks.QUEUE in manifest.labels or (not at_home and _queues(manifest, around)):
            if manifest.status.text("phase") not in ENDED:
                queued.append((place, manifest))
        elif (pod := read_bound_pod(manifest)) is not None:
            bound.append(pod)
    return queued, bound


def _is_of_gang(manifest: Manifest, known: _Known, names: set[str]) -> bool:
    """Whether its workload already counts it."""
    if marks.POD_SET in manifest.labels or marks.WORKLOAD in manifest.annotations:
        return True
    return known.has(manifest) or any(name in names for _, name in _owners(manifest))


def _with_jobs(
    drafts: dict[int, list[Draft]], jobs: Mapping[int, ReadJob], known: _Known
) -> tuple[list[Draft], tuple[AnyJob, ...]]:
    """(all work in the order of the files, the jobs in it). A job and its Workload become one draft."""
    found: list[AnyJob] = []
    places = {draft.name: place for place, listed in drafts.items() for draft in listed if draft.job is None}
    for place, read in jobs.items():
        made = f"{read.draft.namespace}/{read.draft.made}"
        workload = made if made in places else read.draft.job and known.owned.get(read.draft.job)
        if workload is None:
            drafts[place] = [read.alone()]
            found.append(read.job)
        elif workload in places:
            job, drafts[places[workload]][0] = read.behind(drafts[places[workload]][0])
            found.append(job)
    in_order = [draft for _, listed in sorted(drafts.items()) for draft in listed]
    return [draft for draft in in_order if f"{draft.namespace}/{draft.made}" not in places], tuple(found)


def _named_apart(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """Makes the names of jobs unique: a later job of another kind becomes KIND-NAME. Duplicate workloads are an error."""
    seen: set[str] = set()
    for draft in drafts:
        if draft.name in seen and draft.job is not None:
            kind = draft.job[0].lower()
            draft = replace(draft, name=f"{draft.namespace}/{kind}-{draft.name.partition('/')[2]}")
        if draft.name in seen:
            draft.at.wrong(f"two workloads would be called {draft.name}: rename one")
        seen.add(draft.name)
        yield draft
