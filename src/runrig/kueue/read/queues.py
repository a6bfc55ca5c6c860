"""Reads ClusterQueue, Cohort and LocalQueue."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from runrig.domain.pools import Queueing
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    LabelSelector,
    Policies,
    Policy,
    Preference,
    QueueCohort,
    StopPolicy,
)
from runrig.kueue.read.amounts import SMALLEST_WEIGHT
from runrig.kueue.read.names import Manifest, check_name
from runrig.kueue.read.quota import Groups, read_groups
from runrig.kueue.read.selectors import read_selector
from runrig.kueue.read.tree import INT32, Object, Value

_QUEUE = (
    "resourceGroups", "cohort", "cohortName", "queueingStrategy", "namespaceSelector", "flavorFungibility", "preemption",
    "admissionChecks", "admissionChecksStrategy", "stopPolicy", "fairSharing", "admissionScope", "concurrentAdmissionPolicy",
)  # fmt: skip
_COHORT = ("parent", "parentName", "resourceGroups", "fairSharing")
_LOCAL = ("clusterQueue", "stopPolicy", "fairSharing")
_PREEMPTION = ("withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort")
_BORROW = ("policy", "maxPriorityThreshold")
_FUNGIBILITY = ("whenCanBorrow", "whenCanPreempt", "preference")

_QUEUEINGS = {"BestEffortFIFO": Queueing.BEST_EFFORT_FIFO, "StrictFIFO": Queueing.STRICT_FIFO}
_STOPS = {policy.value: policy for policy in StopPolicy}
_WITHIN = {policy.value: policy for policy in (Policy.NEVER, Policy.LOWER, Policy.LOWER_OR_NEWER)}
_RECLAIM = {policy.value: policy for policy in (Policy.NEVER, Policy.LOWER, Policy.ANY)}
_BORROWING = {policy.value: policy for policy in (Policy.NEVER, Policy.LOWER)}
_PREFERENCES = {preference.value: preference for preference in Preference}
_NEXT = {"MayStopSearch": False, "TryNextFlavor": True}
_GOING = "it is being deleted: nothing new starts"
_CHECKS = "admission checks never become ready in the simulation: workloads get quota but do not start"
_STATUS = (
    "conditions", "flavorsReservation", "flavorsUsage", "flavorUsage", "flavors", "pendingWorkloads", "reservingWorkloads",
    "admittedWorkloads", "fairSharing", "pendingWorkloadsStatus",
)  # fmt: skip
_FAIR_STATUS = ("weightedShare", "admissionFairSharingStatus")
_TOLD_ELSEWHERE = ("Stopped", "FlavorNotFound", "CohortCycle", "Ready", "")
"""Reasons for an inactive queue that other objects also show; those objects may have changed since."""


@dataclass(frozen=True, slots=True)
class ReadQueue:
    queue: ClusterQueue
    at: Value
    groups: Groups


@dataclass(frozen=True, slots=True)
class ReadCohort:
    cohort: QueueCohort
    at: Value
    groups: Groups


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A LocalQueue. *name*: namespace/name."""

    name: str
    cluster_queue: str
    stop: StopPolicy
    at: Value


def read_cluster_queue(manifest: Manifest) -> ReadQueue:
    spec = manifest.spec.only(_QUEUE)
    cohort = _reference(spec, *_renamed(manifest, "v1beta1", "cohortName", "cohort"))
    groups = read_groups(spec, "ClusterQueue", root=cohort is None)
    _warn_of_unsupported(manifest, spec)
    queue = ClusterQueue(
        name=manifest.name,
        groups=tuple(groups.groups),
        quotas=groups.quotas,
        cohort=cohort,
        queueing=spec.choice(
            "queueingStrategy", _QUEUEINGS, Queueing.BEST_EFFORT_FIFO, otherwise="treated as BestEffortFIFO"
        ),
        policies=_policies(spec.object("preemption")),
        fungibility=_fungibility(spec.object("flavorFungibility")),
        weight=_weight(spec),
        stop=_stop(spec),
        namespaces=_namespaces(manifest, spec),
        checks=tuple(_checks(spec)),
        closed=_closed(manifest),
    )
    return ReadQueue(queue, manifest.body.at, groups)


def read_cohort(manifest: Manifest) -> ReadCohort:
    spec = manifest.spec.only(_COHORT)
    _check_status(manifest)
    names = _renamed(manifest, "v1alpha1", "parentName", "parent")
    parent = _reference(spec, *names)
    groups = read_groups(spec, "Cohort", root=parent is None)
    return ReadCohort(
        QueueCohort(manifest.name, parent, groups.quotas, _weight(spec)),
        (spec.get(names[0]) or spec.get(names[1]) or manifest.body.at),
        groups,
    )


def read_local_queue(manifest: Manifest) -> LocalQueue:
    spec = manifest.spec.only(_LOCAL)
    spec.object("fairSharing").only(("weight",))
    _check_status(manifest)
    spec.unsupported({"fairSharing": "ignored: fair sharing between local queues is not simulated"})
    target = spec.get("clusterQueue")
    if target is None:
        spec.at.warn("clusterQueue is missing: this queue cannot be used")
    stop = _stop(spec)
    if manifest.meta.has("deletionTimestamp"):
        manifest.meta.at.warn(_GOING)
        stop = StopPolicy.HOLD if stop is StopPolicy.NONE else stop
    at = target or manifest.body.at
    return LocalQueue(manifest.key, target.text() if target else "", stop, at)


def _renamed(manifest: Manifest, old: str, now: str, before: str) -> tuple[str, str]:
    """(the name of a field in the version of *manifest*, its name in the other version). *before*: in version *old*."""
    return (before, now) if manifest.version == old else (now, before)


def _reference(spec: Object, name: str, other: str) -> str | None:
    found = spec.either(name, other)
    text = found.text() if found else ""
    if found is not None and text:
        check_name(found, text)
    return text or None


def _policies(preemption: Object) -> Policies:
    preemption.only(_PREEMPTION)
    borrow = preemption.object("borrowWithinCohort").only(_BORROW)
    policies = Policies(
        preemption.choice("withinClusterQueue", _WITHIN, Policy.NEVER, otherwise="treated as Never"),
        preemption.choice("reclaimWithinCohort", _RECLAIM, Policy.NEVER, otherwise="treated as Never"),
        borrow.choice("policy", _BORROWING, Policy.NEVER, otherwise="treated as Never"),
        borrow.whole("maxPriorityThreshold", None, -INT32 - 1),
    )
    if policies.reclaim is Policy.NEVER and policies.borrow is not Policy.NEVER:
        borrow.at.warn("Kueue rejects this without reclaimWithinCohort")
    return policies


def _fungibility(fields: Object) -> Fungibility:
    fields.only(_FUNGIBILITY)
    found = Fungibility(
        fields.choice("whenCanBorrow", {**_NEXT, "Borrow": False}, False, otherwise="treated as MayStopSearch"),
        fields.choice("whenCanPreempt", {**_NEXT, "Preempt": False}, True, otherwise="treated as TryNextFlavor"),
        fields.choice("preference", _PREFERENCES, Preference.BORROWING_OVER_PREEMPTION, otherwise="ignored"),
    )
    preference = fields.get("preference")
    if preference is not None and not (found.next_if_borrows and found.next_if_preempts):
        preference.warn("Kueue rejects a preference unless whenCanBorrow and whenCanPreempt are TryNextFlavor")
    return found


def _weight(spec: Object) -> Fraction:
    fair = spec.object("fairSharing").only(("weight",))
    found = fair.get("weight")
    weight = found.weight() if found else Fraction(1)
    if found and 0 < weight <= SMALLEST_WEIGHT:
        found.warn("a weight must be 0 or more than 1e-9")
    return weight


def _stop(spec: Object) -> StopPolicy:
    return spec.choice("stopPolicy", _STOPS, StopPolicy.NONE, otherwise="treated as None")


def _namespaces(manifest: Manifest, spec: Object) -> LabelSelector | None:
    found = spec.get("namespaceSelector")
    if found is None:
        manifest.body.at.warn(
            "namespaceSelector is missing, so this queue accepts no workloads; {} selects all namespaces"
        )
        return None
    return read_selector(found.object())


def _warn_of_unsupported(manifest: Manifest, spec: Object) -> None:
    spec.unsupported(
        {
            "admissionChecks": _CHECKS,
            "admissionChecksStrategy": _CHECKS,
            "concurrentAdmissionPolicy": "ignored: concurrent admission is not simulated",
        }
    )
    scope = spec.object("admissionScope").only(("admissionMode",))
    mode = scope.get("admissionMode")
    if mode is not None and mode.text() != "NoAdmissionFairSharing":
        mode.warn("ignored: usage-based fair sharing between local queues is not simulated")
    _check_status(manifest)
    if manifest.meta.has("deletionTimestamp"):
        manifest.meta.at.warn(_GOING)


def _check_status(manifest: Manifest) -> None:
    """Warns of unknown fields in the status of a queue or a cohort. The simulation computes usage itself."""
    manifest.status.only(_STATUS).object("fairSharing").only(_FAIR_STATUS)


def _checks(spec: Object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields (admission check, the flavors it applies to; empty: all)."""
    for name in spec.texts("admissionChecks"):
        yield name, ()
    strategy = spec.object("admissionChecksStrategy").only(("admissionChecks",))
    for item in strategy.objects("admissionChecks", ("name", "onFlavors")):
        yield item.need("name"), item.texts("onFlavors")


def _closed(manifest: Manifest) -> str:
    """Why it starts nothing new, if only its own status shows that; empty if it does."""
    if manifest.meta.has("deletionTimestamp"):
        return "Terminating"
    active = manifest.condition("Active")
    if active is None or active.status or active.reason in _TOLD_ELSEWHERE:
        return ""
    manifest.body.at.warn(
        f"its status is inactive ({active.reason}), so nothing new starts; remove the condition to see what would start"
    )
    return active.reason
