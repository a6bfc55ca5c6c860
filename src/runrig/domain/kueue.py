"""Imported queues: what Kueue's manifests declare and what a cycle over them decides, as values.

The Kueue dialect of `simulate` keeps that system's words at its door: a *cluster queue* is one plain leaf of the quota tree
(law Q1), a *workload* is a gang with a number for a priority and its queue's policies (law P1).
Amounts are integers: cpu in milli-cores, memory in bytes, everything else in whole units.  Times are seconds since 1970.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from runrig.domain.nodes import Node, Taint
from runrig.domain.pools import Queueing, Quotas
from runrig.domain.quantities import Requests
from runrig.domain.reasons import Reason


class Policy(enum.Enum):
    """Who may be preempted.  LOWER_OR_NEWER: also equal priority that was queued later (own queue only).  ANY: reclaim only."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class Policies:
    """What the work of a queue may preempt.  *borrow_max_priority* None: no threshold."""

    within_queue: Policy = Policy.NEVER
    reclaim: Policy = Policy.NEVER
    borrow: Policy = Policy.NEVER
    borrow_max_priority: int | None = None


class Preference(enum.Enum):
    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the next flavor is tried although this one would do: *next_if_borrows*, *next_if_preempts*."""

    next_if_borrows: bool = False
    next_if_preempts: bool = True
    preference: Preference = Preference.BORROWING_OVER_PREEMPTION


class StopPolicy(enum.Enum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that one pod set takes from one flavor; *flavors* in order of preference."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatchExpression:
    """``key operator values`` over labels; operators are Kubernetes' (In, NotIn, Exists, DoesNotExist, Gt, Lt)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Matches where all hold; one without labels and expressions matches everything."""

    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[MatchExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A leaf of the quota tree.  *cohort* None: on its own.  *namespaces* None: takes work from none."""

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Quotas = field(default_factory=dict)
    cohort: str | None = None
    queueing: Queueing = Queueing.BEST_EFFORT_FIFO
    policies: Policies = Policies()
    fungibility: Fungibility = Fungibility()
    weight: Fraction = Fraction(1)
    stop: StopPolicy = StopPolicy.NONE
    namespaces: LabelSelector | None = LabelSelector()


@dataclass(frozen=True, slots=True)
class QueueCohort:
    """An inner node of the quota tree.  *parent* None: a root."""

    name: str
    parent: str | None = None
    quotas: Quotas = field(default_factory=dict)
    weight: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Toleration:
    """As in Kubernetes.  *key* empty: every key; *effect* empty: every effect; *operator* Equal or Exists."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """Nodes of one kind.  *tolerations* are given to every pod that gets it.  *topology*: name of a Topology."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Which nodes a pod accepts.  *terms*: required node affinity, one of them must hold whole; empty: no affinity.

    *preferred*: (weight, term): counts only among nodes of a topology, where the gate for it is on.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[MatchExpression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, tuple[MatchExpression, ...]], ...] = ()


class TopologyMode(enum.Enum):
    """How close the pods of a pod set must be.  SLICES: only the pods of each slice; UNCONSTRAINED: anywhere."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"
    SLICES = "slices"


@dataclass(frozen=True, slots=True)
class Slices:
    """Every *size* pods of a pod set, one after the other, stand in one domain of *level*, a node label."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """*level*: a node label, empty where *near* needs none.  *slices*: from the outermost layer in."""

    near: TopologyMode = TopologyMode.UNCONSTRAINED
    level: str = ""
    slices: tuple[Slices, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """*count* pods in one domain of the lowest level, by its values from the topmost level down.

    Read from a file, it may have the values of the lowest levels only.
    """

    domain: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class WorkloadPodSet:
    """*count* equal pods that ask *requests* each, sorted by resource (zeros too, as they take a flavor all the same).

    *min_count* None: no fewer will do.
    *group*: pod sets of one group take the same flavors.  *reclaimable*: pods that need no quota any more.
    *topology* None: it does not ask where its pods stand.
    """

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    requests: Requests = ()
    nodes: NodeChoice = NodeChoice()
    group: str | None = None
    reclaimable: int = 0
    topology: TopologyRequest | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """What a pod set holds: *flavors* by resource, *usage* by resource in total, both sorted by resource.

    *placement*: where its pods stand, sorted; empty where no topology is asked for.
    """

    pod_set: str
    count: int
    flavors: tuple[tuple[str, str], ...] = ()
    usage: tuple[tuple[str, int], ...] = ()
    placement: tuple[Placed, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """*name* is namespace/name.  *queue*: the cluster queue; empty if its local queue is unknown.

    *queued_at*: its time in the order of the queue; not *created_at* only after certain evictions.
    *granted* None: pending; else it holds quota since *reserved_at*.  *admitted* False with quota: some checks are open.
    *evicted*: it is told to stop, and still holds its quota.  *checks_open*: when it gets quota it is not admitted yet.
    *stop*: of its local queue.  *active* False: its owner holds it back.  *problem*: why it is never looked at.
    *boost*: is added to *priority* where the gate PriorityBoost is on.
    """

    name: str
    queue: str
    pod_sets: tuple[WorkloadPodSet, ...]
    priority: int = 0
    created_at: float = 0.0
    queued_at: float = 0.0
    uid: str = ""
    namespace: str = "default"
    granted: tuple[Granted, ...] | None = None
    reserved_at: float = 0.0
    admitted: bool = True
    evicted: bool = False
    checks_open: bool = False
    stop: StopPolicy = StopPolicy.NONE
    active: bool = True
    problem: str = ""
    boost: int = 0


class Strategy(enum.Enum):
    """When fair sharing may take from a queue: by the preemptor's share with its request against the target's, after or before."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


FAIR = (Strategy.FINAL_SHARE, Strategy.INITIAL_SHARE)
"""The strategies of fair sharing where none are named."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is set for the whole manager there.  *strategies* None: classical; else fair sharing.  *gates*: Kueue's names."""

    strategies: tuple[Strategy, ...] | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Warned:
    """Something in a manifest that is not understood or not supported.  *document* counts from 1."""

    document: int
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels of nodes, coarse to fine, as node labels."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class System:
    """All that a scenario declares.  *namespaces*: labels by name; *now*: the latest time in it (T0)."""

    cohorts: tuple[QueueCohort, ...] = ()
    queues: tuple[ClusterQueue, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    workloads: tuple[Workload, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    now: float = 0.0


# ---------------------------------------------------------------- what comes out


class PendingReason(enum.Enum):
    """Kueue's word for why a workload that was looked at has no quota."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY = "TopologyPlacementFailed"
    WAITING_FOR_TARGETS = "WaitingForPreemptedWorkloads"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"


class PreemptionReason(enum.Enum):
    """By which right a target is preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


@dataclass(frozen=True, slots=True)
class Admission:
    workload: str
    queue: str
    granted: tuple[Granted, ...]
    reserved_only: bool = False


@dataclass(frozen=True, slots=True)
class Preemption:
    workload: str
    queue: str
    by: str
    reason: PreemptionReason


@dataclass(frozen=True, slots=True)
class Waiting:
    """*considered*: it was looked at in the cycle.  *parked*: it waits until something changes.  *pending_reason*: of the considered."""

    workload: str
    queue: str
    considered: bool
    parked: bool
    pending_reason: PendingReason | None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What one cycle did.  *skipped*: preemptions per queue that were chosen and not made, as an earlier entry was in the way."""

    admitted: tuple[Admission, ...] = ()
    preempted: tuple[Preemption, ...] = ()
    pending: tuple[Waiting, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Balance:
    """Of one node and (flavor, resource): the terms of law Q3 and Q4.  *available* may be negative."""

    nominal: int
    subtree: int
    local: int
    usage: int
    balance: int
    available: int
    potential: int


@dataclass(frozen=True, slots=True)
class Share:
    """Dominant share of what a node's parent could ever get, per mille over its weight, rounded up.

    2**63 - 1: it borrows with weight 0.  *resource*: the dominant one, empty if there is none.
    """

    value: int
    resource: str
    borrowing: bool


@dataclass(frozen=True, slots=True)
class Inactive:
    """A queue or cohort in which nothing new starts.  *kind*: ClusterQueue or Cohort."""

    name: str
    kind: str
    reason: str
