"""Reads a Workload as a draft: its pod sets, its priority, and the quota and nodes in its status."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from runrig.domain.quantities import LARGEST, PODS, counted
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import Granted, WorkloadPodSet
from runrig.kueue.read.drafts import POD_CLASS, WORKLOAD_CLASS, ClassRef, Draft, Reservation
from runrig.kueue.read.manager import Manager
from runrig.kueue.read.marks import boost_of, waits_for, warn_of_marks
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.parts import ELSEWHERE
from runrig.kueue.read.pods import check_total, read_template
from runrig.kueue.read.podsets import MOST_POD_SETS
from runrig.kueue.read.surroundings import Surroundings
from runrig.kueue.read.topologies import check_count, read_assignment, read_request
from runrig.kueue.read.tree import INT32, Object, Value

_SPEC = (
    "podSets", "queueName", "priority", "priorityClassRef", "priorityClassName", "priorityClassSource", "active",
)  # fmt: skip
_UNSUPPORTED = {
    "maximumExecutionTimeSeconds": "ignored: run time is not simulated",
    "preemptionGates": "preemption gates are not supported: treated as open",
}
_POD_SET = ("name", "count", "minCount", "template", "topologyRequest")
_STATUS = (
    "conditions", "admission", "requeueState", "reclaimablePods", "admissionChecks", "resourceRequests", "schedulingStats",
    "accumulatedPastExecutionTimeSeconds",
    "accumulatedPastExexcutionTimeSeconds",
)  # fmt: skip
_UNSUPPORTED_STATUS = {
    "unhealthyNodes": "replacing failed nodes is not simulated: the pods keep their nodes",
    "nominatedClusterNames": ELSEWHERE,
    "clusterName": ELSEWHERE,
    "preemptionGates": "preemption gates are not supported: treated as open",
    "topologyAssignmentRecovery": "replacing failed nodes is not simulated: the pods keep their nodes",
}
READY = "Ready"
_CHECK = ("name", "state", "message", "lastTransitionTime", "requeueAfterSeconds", "retryCount")
_REQUEUE = ("count", "requeueAt")
_UNSUPPORTED_CHECK = {
    "podSetUpdates": "ignored: changes by admission checks to selectors and tolerations are not simulated"
}
_HELD_BY = "WaitingForReplacementPods"
_RETRY, _REJECTED = "Retry", "Rejected"
_GIVEN_UP = (_RETRY, _REJECTED)
_ENDING = "DeactivationTarget"
_ASSIGNMENT = ("name", "flavors", "resourceUsage", "count", "topologyAssignment", "delayedTopologyRequest")
_LATER = ("PodsReadyTimeout", "AdmissionCheck")
"""After an eviction for one of these reasons, it is queued by eviction time, even while it still uses quota; otherwise
by creation time.
"""


def read_workload(manifest: Manifest, around: Surroundings, manager: Manager) -> Draft | None:
    """Reads a Workload; None if it has finished."""
    if manifest.says("Finished"):
        return None
    spec, status = manifest.spec.only(_SPEC, _UNSUPPORTED), manifest.status
    warn_of_marks(manifest)
    near: list[Value] = []
    pod_sets, problem = _pod_sets(manifest, _reclaimable(status), near, around)
    evicted = manifest.condition("Evicted")
    admission = status.get("admission")
    late = evicted is not None and evicted.status and evicted.reason in _LATER[manager.by_creation :]
    status.only(_STATUS, _UNSUPPORTED_STATUS)
    states = dict(_states(status))
    given_up = any(state in _GIVEN_UP for state in states.values())
    held = _held(manifest)
    gate = "" if held else waits_for(manifest)
    return Draft(
        name=manifest.key,
        namespace=manifest.namespace,
        at=spec.get("queueName") or spec.at,
        local_queue=spec.text("queueName"),
        pod_sets=pod_sets,
        priority=spec.whole("priority", None, -INT32 - 1),
        classes=_classes(spec),
        boost=boost_of(manifest),
        created_at=manifest.created,
        queued_at=evicted.at if late and evicted else math.inf if _RETRY in states.values() else None,
        not_before=max(_again(status), default=None),
        preempting_since=_preempting_since(manifest),
        uid=manifest.meta.text("uid"),
        reservation=_reservation(manifest, admission, pod_sets, given_up=given_up) if admission else None,
        checks_open=any(state != READY for state in states.values()),
        checks_ready=tuple(sorted(name for name, state in states.items() if state == READY)),
        held=held or gate,
        gated=bool(gate),
        active=spec.flag("active", True) and not manifest.says(_ENDING) and _REJECTED not in states.values(),
        problem=problem,
        near=tuple(near),
    )


def _pod_sets(
    manifest: Manifest, reclaimable: dict[str, Value], near: list[Value], around: Surroundings
) -> tuple[tuple[WorkloadPodSet, ...], str]:
    """(the pod sets, why the workload is never considered or ""). Adds the locations of topology requests to *near*."""
    spec = manifest.spec
    found: list[WorkloadPodSet] = []
    problems: list[str] = []
    for item in spec.objects("podSets"):
        pod_set = _pod_set(item, problems, near, around, manifest.namespace)
        if any(pod_set.name == other.name for other in found):
            item.at.warn(f"duplicate pod set {pod_set.name!r}: names of pod sets must be unique")
        found.append(_reclaimed(pod_set, reclaimable.get(pod_set.name)))
    at = spec.get("podSets") or spec.at
    for name in sorted(set(reclaimable) - {pod_set.name for pod_set in found}):
        reclaimable[name].warn(f"ignored: unknown pod set {name!r}")
    if not found:
        at.warn("a workload needs at least one pod set: this one requests nothing")
    if len(found) > MOST_POD_SETS:
        at.warn(f"{len(found)} pod sets: Kueue accepts up to {MOST_POD_SETS}")
    if sum(pod_set.min_count is not None for pod_set in found) > 1:
        at.warn("several pod sets have minCount: Kueue accepts one; the simulation reduces all of them proportionally")
    return tuple(found), next(iter(problems), "")


def _pod_set(
    fields: Object, problems: list[str], near: list[Value], around: Surroundings, namespace: str
) -> WorkloadPodSet:
    fields.only(_POD_SET)
    topology = fields.object("topologyRequest")
    pod = read_template(fields.object("template"), around, namespace)
    request = read_request(topology)
    if request is not None or pod.topology is not None:
        near.append(topology.at if request is not None else pod.topology_at or fields.at)
    request = request or pod.topology
    problems.extend([pod.problem] if pod.problem else [])
    count = _count(fields)
    check_total(pod, count, fields.at)
    check_count(request, count, fields.at)
    return WorkloadPodSet(
        name=fields.text("name") or "main",
        count=count,
        min_count=_min_count(fields.get("minCount"), count, problems),
        requests=tuple(sorted(pod.requests.items())),
        nodes=pod.nodes,
        group=topology.text("podSetGroupName") or pod.group,
        topology=request,
    )


def _count(fields: Object) -> int:
    at = fields.get("count")
    if at is None:
        fields.at.warn("count is missing: treated as 1")
        return 1
    count = at.whole()
    if not count:
        at.warn("a pod set needs at least 1 pod: this one requests nothing")
    return count


def _min_count(at: Value | None, count: int, problems: list[str]) -> int | None:
    if at is None:
        return None
    least = at.whole()
    if not 1 <= least <= count:
        problem = f"minCount {least} must be from 1 to count, which is {count}"
        at.warn(f"{problem}: Kueue never considers this workload")
        problems.append(problem)
        return None
    return least


def _reclaimable(status: Object) -> dict[str, Value]:
    """Pod set → location of its number of pods that no longer need quota."""
    found = {}
    for item in status.objects("reclaimablePods", ("name", "count")):
        count = item.get("count")
        if count is not None:
            found[item.text("name") or "main"] = count
    return found


def _reclaimed(pod_set: WorkloadPodSet, at: Value | None) -> WorkloadPodSet:
    if at is None:
        return pod_set
    count = at.whole()
    if count > pod_set.count:
        at.warn(f"the pod set has {counted(pod_set.count, 'pod')}: treated as all of them")
    return replace(pod_set, reclaimable=min(count, pod_set.count))


def _classes(spec: Object) -> tuple[ClassRef, ...]:
    ref, name = spec.get("priorityClassRef"), spec.get("priorityClassName")
    if ref is not None:
        fields = ref.object().only(("group", "kind", "name"))
        kinds = {kind: kind for kind in (WORKLOAD_CLASS, POD_CLASS)}
        kind = fields.choice("kind", kinds, WORKLOAD_CLASS, otherwise=f"treated as {WORKLOAD_CLASS}")
        return (ClassRef(kind, fields.need("name"), ref),)
    if name is None or not name.text():
        return ()
    source = spec.text("priorityClassSource")
    return (ClassRef(POD_CLASS if source.startswith("scheduling.k8s.io") else WORKLOAD_CLASS, name.text(), name),)


def _states(status: Object) -> Iterator[tuple[str, str]]:
    """Yields (admission check, its state)."""
    for check in status.objects("admissionChecks"):
        check.only(_CHECK, _UNSUPPORTED_CHECK)
        yield check.text("name"), check.text("state")


def _again(status: Object) -> Iterator[float]:
    """Yields the earliest times at which it may be requeued: the pause after its eviction, and the retries of its
    checks.
    """
    pause = status.object("requeueState").only(_REQUEUE)
    at = pause.get("requeueAt")
    if at is not None:
        yield at.time(note=False)
    for check in status.objects("admissionChecks"):
        since = check.get("lastTransitionTime")
        if check.text("state") == _RETRY and since is not None and check.has("requeueAfterSeconds"):
            yield since.time() + check.whole("requeueAfterSeconds", 0)


def _held(manifest: Manifest) -> str:
    """Why its own status keeps it out of the queue; empty if it does not."""
    reserved, requeued = manifest.condition("QuotaReserved"), manifest.condition("Requeued")
    if reserved is not None and not reserved.status and reserved.reason == "OnHold":
        return "it is on hold (OnHold)"
    if manifest.says(_HELD_BY):
        return f"it waits for replacement pods ({_HELD_BY})"
    if requeued is not None and not requeued.status:
        return f"it was evicted and is not requeued yet ({requeued.reason or 'Requeued is False'})"
    return ""


def _preempting_since(manifest: Manifest) -> float | None:
    waits = manifest.condition("QuotaReserved")
    if waits is None or waits.status or waits.reason != PendingReason.WAITING_FOR_TARGETS.value:
        return None
    return waits.at or 0.0


# ---------------------------------------------------------------- quota


def _reservation(manifest: Manifest, at: Value, pod_sets: Sequence[WorkloadPodSet], *, given_up: bool) -> Reservation:
    """The quota and nodes of a workload. *given_up*: an admission check asked it to stop."""
    fields = at.object().only(("clusterQueue", "podSetAssignments"))
    reserved, admitted = manifest.condition("QuotaReserved"), manifest.condition("Admitted")
    named = {pod_set.name: pod_set for pod_set in pod_sets}
    granted = tuple(_granted(item, named) for item in fields.objects("podSetAssignments"))
    missing = sorted(set(named) - {item.pod_set for item in granted})
    if missing:
        at.warn(f"no assignment for the pod set {missing[0]!r}: it uses no quota")
    return Reservation(
        queue=fields.need("clusterQueue"),
        granted=granted,
        reserved_at=reserved.at if reserved and reserved.status else None,
        # Without either condition, the file was written by hand to declare a running workload.
        admitted=admitted.status if admitted else reserved is None,
        evicted=manifest.says("Evicted") or given_up,
        at=at,
    )


def _granted(fields: Object, named: dict[str, WorkloadPodSet]) -> Granted:
    fields.only(_ASSIGNMENT)
    later = fields.get("delayedTopologyRequest")
    if later is not None and later.text() != READY:
        later.warn("delayed placement is not simulated: it uses no nodes")
    stands = fields.get("topologyAssignment")
    placement = read_assignment(stands) if stands else ()
    name = fields.text("name") or "main"
    pod_set = named.get(name)
    if pod_set is None:
        fields.at.warn(f"unknown pod set {name!r}: its quota still counts")
    count = fields.whole("count", pod_set.count if pod_set else 1)
    if pod_set is not None:
        _check_admitted(fields.get("count") or fields.at, count, pod_set)
    flavors = fields.strings("flavors")
    usage = fields.get("resourceUsage")
    amounts = _usage(usage, flavors, count) if usage else _derived(fields, pod_set, flavors, count)
    return Granted(name, count, tuple(sorted(flavors.items())), tuple(sorted(amounts.items())), placement)


def _check_admitted(at: Value, count: int, pod_set: WorkloadPodSet) -> None:
    """Warns if admission cannot have granted *count* pods; reclaimed pods may be missing."""
    least = pod_set.count if pod_set.min_count is None else pod_set.min_count
    if not max(0, least - pod_set.reclaimable) <= count <= pod_set.count:
        allowed = f"{least} to {pod_set.count}" if least < pod_set.count else f"all {pod_set.count}"
        at.warn(
            f"{counted(count, 'pod is', 'pods are')} admitted, but the pod set requests {allowed}: its quota still counts"
        )


def _usage(at: Value, flavors: dict[str, str], count: int) -> dict[str, int]:
    found = {}
    for resource, value in at.object().pairs():
        amount = value.amount(resource)
        if resource not in flavors:
            value.warn(f"ignored: no flavor is assigned for {resource}")
            continue
        if count and amount % count:
            value.warn(f"{amount} is not a multiple of the {count} pods")
        found[resource] = amount
    return found


def _derived(fields: Object, pod_set: WorkloadPodSet | None, flavors: dict[str, str], count: int) -> dict[str, int]:
    """The requests of *count* pods for resources that have a flavor."""
    requests = {**dict(pod_set.requests if pod_set else ()), PODS: 1}
    found = {resource: requests.get(resource, 0) * count for resource in flavors}
    for resource, amount in found.items():
        if amount > LARGEST:
            fields.at.wrong(f"{count} × {requests[resource]} {resource} does not fit in 64 bits")
    return found
