"""Work as one manifest says it, before queues, priority classes and the time of the file are known."""

from dataclasses import dataclass, field

from runrig.kueue.declared import Granted, WorkloadPodSet
from runrig.kueue.read.tree import Value

WORKLOAD_CLASS = "WorkloadPriorityClass"
POD_CLASS = "PriorityClass"


@dataclass(frozen=True, slots=True)
class ClassRef:
    """Which class gives the priority.  *kind*: WORKLOAD_CLASS or POD_CLASS."""

    kind: str
    name: str
    at: Value


@dataclass(frozen=True, slots=True)
class Reservation:
    """The quota that it holds at the start.  *reserved_at* None: since now."""

    queue: str
    granted: tuple[Granted, ...]
    reserved_at: float | None
    admitted: bool
    evicted: bool
    at: Value


@dataclass(frozen=True, slots=True)
class Draft:
    """*name* is namespace/name; *at*: where its queue is said, for warnings.  Times are None where they are not said.

    *queued_at*: infinite if it is evicted only now.
    *defaulted*: without a class of its own it gets the default one.  *owners*: (kind, name).
    *near*: where it asks for a topology.  *job*: (kind, namespace/name) of the job that it stands for; None: it is a Workload.
    *made*: the name of the Workload that somebody made for that job beforehand; empty: nobody did.
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
    owners: tuple[tuple[str, str], ...] = field(default=())
    near: tuple[Value, ...] = ()
    job: tuple[str, str] | None = None
    made: str = ""
