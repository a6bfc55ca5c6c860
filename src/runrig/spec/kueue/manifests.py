"""Manifests of one file → a System: every object read, then names joined.

What is not understood or not supported is a warning; the errors of a file are raised together.
"""

from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput
from runrig.domain.kueue import ResourceFlavor, System, Topology, Warned
from runrig.domain.nodes import Node
from runrig.spec.kueue.batch import ReadJob, read_job, read_mpi_job
from runrig.spec.kueue.checks import check_names, check_topologies
from runrig.spec.kueue.cluster import BoundPod, read_bound_pod, read_node, with_room_taken
from runrig.spec.kueue.drafts import Draft
from runrig.spec.kueue.jobs import AnyJob
from runrig.spec.kueue.joined import Names, join
from runrig.spec.kueue.kinds import NAMESPACE_LABEL, read_class, read_flavor, read_namespace, read_topology
from runrig.spec.kueue.names import Manifest
from runrig.spec.kueue.objects import manifests
from runrig.spec.kueue.queues import (
    LocalQueue,
    ReadCohort,
    ReadQueue,
    read_cluster_queue,
    read_cohort,
    read_local_queue,
)
from runrig.spec.kueue.tree import Report, Value, values
from runrig.spec.kueue.workloads import read_workload
from runrig.spec.yamltree import decoded, read_documents

LARGEST_FILE = 20 * 1024 * 1024
"""Bytes that are read."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """*jobs*: the jobs among the workloads of *system*, for what is written into them (`jobs.started`)."""

    system: System
    warnings: tuple[Warned, ...] = ()
    jobs: tuple[AnyJob, ...] = ()


@dataclass(slots=True)
class _Read:
    """All objects of the file by kind, in its order."""

    names: Names = field(default_factory=Names)
    queues: list[ReadQueue] = field(default_factory=list)
    cohorts: list[ReadCohort] = field(default_factory=list)
    locals: list[LocalQueue] = field(default_factory=list)
    flavors: list[tuple[ResourceFlavor, Value]] = field(default_factory=list)
    topologies: list[Topology] = field(default_factory=list)
    work: list[Draft | ReadJob] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    pods: list[Manifest] = field(default_factory=list)
    owned: dict[tuple[str, str], str] = field(default_factory=dict)


def read_manifests(text: bytes | str, name: str) -> Manifests:
    """The scenario in *text*; *name* is the file's, for messages.  Raises InvalidInput with all errors of the file."""
    what = f"file {name}"
    if isinstance(text, bytes):
        if len(text) > LARGEST_FILE:
            raise InvalidInput.one(f"the {what} has {len(text):,} bytes: at most {LARGEST_FILE:,} are read")
        text = decoded(text, what)
    documents = read_documents(text, what, LARGEST_FILE)
    report = Report()
    read = _Read()
    for manifest in manifests(values(documents, report)):
        _take(manifest, read)
    result = _result(read, report)
    report.raise_if_any()
    return result


def _take(manifest: Manifest, read: _Read) -> None:
    """Reads one object into its place."""
    match manifest.kind:
        case "ClusterQueue":
            read.queues.append(read_cluster_queue(manifest))
        case "Cohort":
            read.cohorts.append(read_cohort(manifest))
        case "LocalQueue":
            read.locals.append(read_local_queue(manifest))
        case "ResourceFlavor":
            read.flavors.append((read_flavor(manifest), manifest.body.at))
        case "Topology":
            read.topologies.append(read_topology(manifest))
        case "Namespace":
            read.names.namespaces[manifest.name] = read_namespace(manifest)
        case "WorkloadPriorityClass":
            read.names.workload_classes[manifest.name] = read_class(manifest)
        case "PriorityClass":
            read.names.pod_classes[manifest.name] = read_class(manifest)
        case "Node":
            read.nodes.append(read_node(manifest))
        case "Pod":
            read.pods.append(manifest)
        case _:
            _take_work(manifest, read)


def _take_work(manifest: Manifest, read: _Read) -> None:
    found: Draft | ReadJob | None
    if manifest.kind == "Workload":
        found = read_workload(manifest)
        for kind, name in manifest.owners():
            read.owned[kind, f"{manifest.namespace}/{name}"] = manifest.key
    else:
        found = read_job(manifest) if manifest.kind == "Job" else read_mpi_job(manifest)
    if found is not None:
        read.work.append(found)


def _result(read: _Read, report: Report) -> Manifests:
    drafts, jobs = _work(read)
    names = read.names
    names.queues = {found.queue.name: found.queue for found in read.queues}
    names.locals = {found.name: found for found in read.locals}
    names.latest = report.latest
    workloads = join(drafts, names)
    check_names(read.queues, read.cohorts, read.locals, read.flavors, read.topologies)
    check_topologies(read.flavors, read.topologies, read.nodes, drafts)
    system = System(
        cohorts=tuple(found.cohort for found in read.cohorts),
        queues=tuple(found.queue for found in read.queues),
        flavors=tuple(flavor for flavor, _ in read.flavors),
        workloads=workloads,
        namespaces=_namespaces(names, drafts),
        nodes=with_room_taken(read.nodes, _bound_pods(read, jobs)),
        topologies=tuple(read.topologies),
        now=names.now,
    )
    warnings = sorted(report.warnings, key=lambda warned: warned.document)
    return Manifests(system, tuple(warnings), jobs)


def _work(read: _Read) -> tuple[list[Draft], tuple[AnyJob, ...]]:
    """(the work in the order of the file, the jobs in it).  A job whose Workload is in the file too is that one."""
    jobs: list[AnyJob] = []
    drafts: dict[int, Draft] = {place: found for place, found in enumerate(read.work) if isinstance(found, Draft)}
    places = {draft.name: place for place, draft in drafts.items()}
    for place, found in enumerate(read.work):
        if isinstance(found, Draft):
            continue
        workload = read.owned.get((found.kind, found.job.workload))
        if workload is None:
            drafts[place] = found.alone()
            jobs.append(found.job)
        elif workload in places:
            job, drafts[places[workload]] = found.behind(drafts[places[workload]])
            jobs.append(job)
    in_order = [draft for _, draft in sorted(drafts.items())]
    _check_names_of(in_order)
    return in_order, tuple(jobs)


def _check_names_of(drafts: list[Draft]) -> None:
    seen: set[str] = set()
    for draft in drafts:
        if draft.name in seen:
            draft.at.error(f"two workloads would be called {draft.name}: rename one")
        seen.add(draft.name)


def _bound_pods(read: _Read, jobs: tuple[AnyJob, ...]) -> list[BoundPod]:
    names = {job.workload for job in jobs} | {name for _, name in read.owned}
    found = (read_bound_pod(manifest, names) for manifest in read.pods)
    return [pod for pod in found if pod is not None]


def _namespaces(names: Names, drafts: list[Draft]) -> dict[str, dict[str, str]]:
    """The objects of the file and of its work, by name."""
    implied = {draft.namespace: {NAMESPACE_LABEL: draft.namespace} for draft in drafts}
    return dict(sorted({**implied, **names.namespaces}.items()))
