"""Reads what all job kinds share: queue, pod sets and priority, and creates the draft of the workload."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runrig.kueue.declared import WorkloadPodSet
from runrig.kueue.read import marks
from runrig.kueue.read.drafts import POD_CLASS, WORKLOAD_CLASS, ClassRef, Draft
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.pods import Pod, check_total
from runrig.kueue.read.surroundings import DEFAULT_QUEUE, Surroundings
from runrig.kueue.read.topologies import check_count
from runrig.kueue.read.tree import Object, Value

MOST_POD_SETS = 18
_NO_LABEL = f"ignored: it has no label {marks.QUEUE}, and its namespace no LocalQueue {DEFAULT_QUEUE!r}"


class Queue(NamedTuple):
    """The LocalQueue of a job, and where the job names it."""

    name: str
    at: Value


def queue_of(manifest: Manifest, around: Surroundings) -> Queue | None:
    """The queue of a job; None, with a warning, if it has none."""
    found = manifest.meta.object("labels").get(marks.QUEUE)
    if found is not None and found.node.value != "":
        return Queue(found.text(), found)
    if manifest.namespace in around.defaulted:
        return Queue(DEFAULT_QUEUE, manifest.body.at)
    manifest.body.at.warn(_NO_LABEL)
    return None


def pod_set(name: str, count: int, least: int | None, pod: Pod, at: Value) -> WorkloadPodSet:
    check_total(pod, count, at)
    check_count(pod.topology, count, pod.topology_at or at)
    requests = tuple(sorted(pod.requests.items()))
    return WorkloadPodSet(name, count, least, requests, pod.nodes, pod.group, topology=pod.topology)


def class_of(template: Object) -> Value | None:
    """Location of the priority class in *template*; None if it has none."""
    at = template.object("spec").get("priorityClassName")
    return at if at is not None and at.node.value != "" else None


def _check_pod_sets(pod_sets: Sequence[WorkloadPodSet], at: Value) -> None:
    names = [each.name for each in pod_sets]
    if len(set(names)) < len(names):
        at.warn(f"duplicate pod set {next(name for name in names if names.count(name) > 1)}: Kueue rejects this job")
    if len(names) > MOST_POD_SETS:
        at.warn(f"{len(names)} pod sets: Kueue accepts up to {MOST_POD_SETS} and rejects this job")


def draft_of(
    manifest: Manifest,
    queue: Queue,
    pods: Sequence[Pod],
    pod_sets: tuple[WorkloadPodSet, ...],
    classes: Iterable[Value | None],
    refused: str | None = None,
) -> Draft:
    """*pods*: of each pod set. *classes*: of its pods; the first one is used, unless a label names another. *refused*: why Kueue
    rejects it, whatever its pods are.
    """
    _check_pod_sets(pod_sets, manifest.spec.at)
    gate = marks.waits_for(manifest)
    label = manifest.meta.object("labels").get(marks.CLASS)
    refs = [(WORKLOAD_CLASS, label), *((POD_CLASS, at) for at in classes)]
    return Draft(
        name=manifest.key,
        namespace=manifest.namespace,
        at=queue.at,
        local_queue=queue.name,
        pod_sets=pod_sets,
        classes=tuple(ClassRef(kind, at.text(), at) for kind, at in refs if at is not None),
        defaulted=label is None,
        boost=marks.boost_of(manifest),
        created_at=manifest.created,
        uid=manifest.meta.text("uid"),
        held=gate,
        gated=bool(gate),
        problem=refused or next((pod.problem for pod in pods if pod.problem), ""),
        near=tuple(pod.topology_at for pod in pods if pod.topology_at is not None),
        job=(manifest.kind, manifest.key),
        made=marks.mark_of(manifest, marks.MADE),
    )
