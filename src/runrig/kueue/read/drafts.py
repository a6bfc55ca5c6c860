"""Drafts: work as one manifest declares it, before queues, priority classes and the time of the files are known."""

from dataclasses import dataclass

from runrig.kueue.declared import Granted, WorkloadPodSet
from runrig.kueue.read.tree import Value

WORKLOAD_CLASS = "WorkloadPriorityClass"
POD_CLASS = "PriorityClass"


@dataclass(frozen=True, slots=True)
class ClassRef:
    """A reference to a priority class. *kind*: WORKLOAD_CLASS or POD_CLASS."""

    kind: str
    name: str
    at: Value


@dataclass(frozen=True, slots=True)
class Reservation:
    """The quota that a workload has at the start. *reserved_at* None: it got the quota now."""

    queue: str
    granted: tuple[Granted, ...]
    reserved_at: float | None
    admitted: bool
    evicted: bool
    at: Value


@dataclass(frozen=True, slots=True)
class Draft:
    """A workload to be completed. *name*: namespace/name. *at*: location of its queue name, for warnings.

    Times are None if the manifest does not set them. *queued_at*: infinite if it is only being evicted now.
    *defaulted*: without a class of its own, it gets the default class.
    *near*: locations of its topology requests. *job*: (kind, namespace/name) of the job it represents; None for a
    Workload.
    *made*: the name of a Workload created in advance for that job; empty if there is none.
    """

    name: str
    namespace: str
    at: Value
    local_queue: str
    pod_sets: tuple[WorkloadPodSet, ...]
    priority: int | None = None
    classes: tuple[ClassRef, ...] = ()
    defaulted: bool = False
    boost: int = 0
    created_at: float | None = None
    queued_at: float | None = None
    not_before: float | None = None
    preempting_since: float | None = None
    uid: str = ""
    reservation: Reservation | None = None
    checks_open: bool = False
    checks_ready: tuple[str, ...] = ()
    held: str = ""
    gated: bool = False
    active: bool = True
    problem: str = ""
    near: tuple[Value, ...] = ()
    job: tuple[str, str] | None = None
    made: str = ""
