"""Reads the manifests of one or more files as a System: every object is read, then names are resolved.

Unknown or unsupported fields cause warnings. The errors of all files are raised together.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from runrig.domain.kueue import Settings, Warned
from runrig.domain.nodes import Node
from runrig.kueue.declared import ResourceFlavor, System, Topology
from runrig.kueue.read.checks import check_names, check_topologies
from runrig.kueue.read.cluster import read_node, with_room_taken
from runrig.kueue.read.drafts import Draft
from runrig.kueue.read.jobkinds import CLUSTER_RUNTIME, RUNTIME
from runrig.kueue.read.jobs import AnyJob
from runrig.kueue.read.joined import Names, join
from runrig.kueue.read.kinds import NAMESPACE_LABEL, read_class, read_flavor, read_topology
from runrig.kueue.read.manager import Manager, in_config_map, read_manager
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.objects import manifests
from runrig.kueue.read.queues import (
    LocalQueue,
    ReadCohort,
    ReadQueue,
    read_cluster_queue,
    read_cohort,
    read_local_queue,
)
from runrig.kueue.read.surroundings import DEFAULT_QUEUE, EXEMPT, Surroundings, read_limit_range, read_runtime_class
from runrig.kueue.read.texts import File, read_files
from runrig.kueue.read.tree import Object, Report, Value
from runrig.kueue.read.work import find_work


@dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of one scenario. *jobs*: the jobs among the workloads of *system*, for the patches to them
    (`jobs.started`).

    *settings*: the manager's, as far as the files set them.
    """

    system: System
    warnings: tuple[Warned, ...] = ()
    jobs: tuple[AnyJob, ...] = ()
    settings: Settings = field(default_factory=Settings)


@dataclass(slots=True)
class _Read:
    """All objects read so far, by kind, in the order of the files."""

    names: Names = field(default_factory=Names)
    queues: list[ReadQueue] = field(default_factory=list)
    cohorts: list[ReadCohort] = field(default_factory=list)
    locals: list[LocalQueue] = field(default_factory=list)
    flavors: list[tuple[ResourceFlavor, Value]] = field(default_factory=list)
    topologies: list[Topology] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    around: Surroundings = field(default_factory=Surroundings)
    manager: Manager | None = None
    runtimes: dict[tuple[str, str], Object] = field(default_factory=dict)
    work: list[Manifest] = field(default_factory=list)


def read_manifests(text: bytes | str, name: str) -> Manifests:
    """Reads the scenario in *text*. *name*: of the file, for messages. Raises InvalidInput with all errors."""
    return read_all((File("", text),), f"file {name}")


def read_all(files: Iterable[File], what: str = "file") -> Manifests:
    """Reads the scenario in *files*, as if they were one. Raises InvalidInput with all errors."""
    report = Report()
    read = _Read()
    found = list(manifests(read_files(files, report, what)))
    # Objects that affect how work is read come first, wherever they are in the files.
    for manifest in found:
        taker = _FIRST.get(manifest.kind)
        if taker is not None:
            taker(manifest, read)
    read.work = [manifest for manifest in found if manifest.kind not in _FIRST]
    result = _result(read, report)
    report.raise_if_any()
    return result


# ---------------------------------------------------------------- object by object


def _take_local_queue(manifest: Manifest, read: _Read) -> None:
    read.locals.append(read_local_queue(manifest))
    if manifest.name == DEFAULT_QUEUE and manifest.namespace not in EXEMPT:
        read.around.defaulted.add(manifest.namespace)


def _take_flavor(manifest: Manifest, read: _Read) -> None:
    read.flavors.append((read_flavor(manifest), manifest.body.at))


def _take_namespace(manifest: Manifest, read: _Read) -> None:
    read.names.namespaces[manifest.name] = {**manifest.labels, NAMESPACE_LABEL: manifest.name}


def _take_class(manifest: Manifest, read: _Read) -> None:
    names = read.names
    classes = names.pod_classes if manifest.kind == "PriorityClass" else names.workload_classes
    classes[manifest.name] = read_class(manifest)


def _take_settings(manifest: Manifest, read: _Read) -> None:
    body = manifest.body if manifest.kind == "Configuration" else in_config_map(manifest)
    if body is None:
        manifest.body.at.warn("ignored: this ConfigMap does not contain the configuration of Kueue")
    elif read.manager is not None:
        body.at.warn("duplicate configuration of the manager: only the first one is used")
    else:
        read.manager = read_manager(body, read.around)


def _take_runtime(manifest: Manifest, read: _Read) -> None:
    read.runtimes[manifest.namespace, manifest.name] = manifest.spec


_FIRST: Mapping[str, Callable[[Manifest, _Read], None]] = {
    "ClusterQueue": lambda manifest, read: read.queues.append(read_cluster_queue(manifest)),
    "Cohort": lambda manifest, read: read.cohorts.append(read_cohort(manifest)),
    "LocalQueue": _take_local_queue,
    "ResourceFlavor": _take_flavor,
    "Topology": lambda manifest, read: read.topologies.append(read_topology(manifest)),
    "Namespace": _take_namespace,
    "WorkloadPriorityClass": _take_class,
    "PriorityClass": _take_class,
    "Node": lambda manifest, read: read.nodes.append(read_node(manifest)),
    "LimitRange": lambda manifest, read: read_limit_range(manifest, read.around),
    "RuntimeClass": lambda manifest, read: read_runtime_class(manifest, read.around),
    "Configuration": _take_settings,
    "ConfigMap": _take_settings,
    CLUSTER_RUNTIME: _take_runtime,
    RUNTIME: _take_runtime,
}


# ---------------------------------------------------------------- resolving names


def _result(read: _Read, report: Report) -> Manifests:
    manager = read.manager or Manager()
    work = find_work(read.work, read.around, manager, read.runtimes)
    names = read.names
    names.queues = {found.queue.name: found.queue for found in read.queues}
    names.locals = {found.name: found for found in read.locals}
    names.latest = report.latest
    names.ignores_undeclared = manager.ignores_undeclared
    workloads = join(work.drafts, names)
    check_names(read.queues, read.cohorts, read.locals, read.flavors, read.topologies)
    check_topologies(read.flavors, read.topologies, read.nodes, work.drafts)
    system = System(
        cohorts=tuple(found.cohort for found in read.cohorts),
        queues=tuple(found.queue for found in read.queues),
        flavors=tuple(flavor for flavor, _ in read.flavors),
        workloads=workloads,
        namespaces=_namespaces(names, work.drafts),
        nodes=with_room_taken(read.nodes, work.pods),
        topologies=tuple(read.topologies),
        now=names.now,
    )
    return Manifests(system, report.warnings(), work.jobs, manager.settings)


def _namespaces(names: Names, drafts: Iterable[Draft]) -> dict[str, dict[str, str]]:
    """Name → labels of each namespace: those in the files, and those that work refers to."""
    implied = {draft.namespace: {NAMESPACE_LABEL: draft.namespace} for draft in drafts}
    return dict(sorted({**implied, **names.namespaces}.items()))
