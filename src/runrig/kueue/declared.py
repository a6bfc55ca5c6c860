"""Imported queues: the objects in Kueue manifests, as values.

Names are Kueue's: a *cluster queue* is a leaf of the quota tree (rule Q1); a *workload* is a gang with a numeric priority, to
which the policies of its queue apply (rule P1). Amounts are integers: cpu in milli-cores, memory in bytes, everything else in
whole units. Times are in seconds since the epoch.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from runrig.domain.nodes import Node, Taint
from runrig.domain.pools import Queueing, Quotas
from runrig.domain.quantities import Requests

GATES: Mapping[str, bool | None] = {
    "AdmissionGatedBy": True,
    "AdmissionFairSharing": None,
    "ConcurrentAdmission": None,
    "ElasticJobsViaWorkloadSlices": None,
    "ElasticJobsViaWorkloadSlicesWithTAS": None,
    "FairSharingPreemptWithinNominal": True,
    "FairSharingPrioritizeNonBorrowing": True,
    "FlavorFungibility": None,
    "FlavorFungibilityPreserveScanProgress": True,
    "HierarchicalCohorts": None,
    "KueueDRAIntegration": None,
    "KueueDRAIntegrationExtendedResource": None,
    "MultiKueue": None,
    "MultiKueueOrchestratedPreemption": None,
    "PartialAdmission": True,
    "PriorityBoost": False,
    "PrioritizePreemptorWorkloads": None,
    "PrioritySortingWithinCohort": True,
    "QuotaCheckStrategy": None,
    "ReclaimablePods": True,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
    "SchedulingEquivalenceHashing": True,
    "TASBalancedPlacement": False,
    "TASFailedNodeReplacement": None,
    "TASHandleOverlappingFlavors": True,
    "TASMultiLayerTopology": True,
    "TASProfileLeastFreeCapacity": False,
    "TASProfileMixed": True,
    "TASRecomputeAssignmentWithinSchedulingCycle": True,
    "TASRespectNodeAffinityPreferred": False,
    "TopologyAwareScheduling": True,
    "UnadmittedWorkloadsObservability": None,
    "VisibilityOnDemand": None,
    "WorkloadPriorityClassDefaulting": None,
}
"""Feature gates of Kueue that affect admission, with their defaults; None: ignored here, but for `PREEMPTORS_FIRST` without rule R5."""


class Policy(enum.Enum):
    """Which work may be preempted.

    LOWER_OR_NEWER: also work of equal priority that was queued later, in the same queue. ANY: only for reclaim.
    """

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class Policies:
    """Which work a queue may preempt. *borrow_max_priority* None: no threshold."""

    within_queue: Policy = Policy.NEVER
    reclaim: Policy = Policy.NEVER
    borrow: Policy = Policy.NEVER
    borrow_max_priority: int | None = None


class Preference(enum.Enum):
    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


@dataclass(frozen=True, slots=True)
class Fungibility:
    """Whether to try the next flavor if this one would need borrowing or preemption."""

    next_if_borrows: bool = False
    next_if_preempts: bool = True
    preference: Preference = Preference.BORROWING_OVER_PREEMPTION


class StopPolicy(enum.Enum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a pod set gets from the same flavor. *flavors*: in order of preference."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


NODE_NAME = "metadata.name (field)"
"""The key of an expression that matches the node's name; labels cannot have this key."""


@dataclass(frozen=True, slots=True)
class MatchExpression:
    """``key operator values`` over labels, with Kubernetes' operators (In, NotIn, Exists, DoesNotExist, Gt, Lt).

    *key* may also be NODE_NAME.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Matches if all labels and expressions match; an empty selector matches everything."""

    labels: tuple[tuple[str, str], ...] = ()
    expressions: tuple[MatchExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A leaf of the quota tree. *cohort* None: not in a cohort. *namespaces* None: it accepts no workloads.

    *checks*: (admission check, the flavors that it applies to; empty: all). *closed*: why, by its status, nothing new starts in
    it, if nothing else in the manifests explains that; empty if it is open.
    """

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
    checks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    closed: str = ""


@dataclass(frozen=True, slots=True)
class QueueCohort:
    """An inner node of the quota tree. *parent* None: a root."""

    name: str
    parent: str | None = None
    quotas: Quotas = field(default_factory=dict)
    weight: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A Kubernetes toleration. *key* empty: every key. *effect* empty: every effect. *operator*: Equal or Exists."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A kind of node. *tolerations*: added to every pod with this flavor. *topology*: name of a Topology; None: no topology."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Which nodes a pod can use. *terms*: required node affinity, where all expressions of one term must match; empty:
    none.

    *preferred*: (weight, term) pairs. They have an effect only with a topology, and only if their feature gate is on.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[MatchExpression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, tuple[MatchExpression, ...]], ...] = ()


class TopologyMode(enum.Enum):
    """How close together the pods of a pod set must be. SLICES: only the pods of the same slice. UNCONSTRAINED: anywhere."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"
    SLICES = "slices"


@dataclass(frozen=True, slots=True)
class Slices:
    """Every *size* consecutive pods of a pod set go into one domain of *level*, a node label."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """*level*: a node label; empty if *near* does not need one. *slices*: outermost layer first."""

    near: TopologyMode = TopologyMode.UNCONSTRAINED
    level: str = ""
    slices: tuple[Slices, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """*count* pods in one domain of the lowest level.

    *domain*: its label values, topmost level first; in a file, it may have only the values of the lowest levels.
    """

    domain: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class WorkloadPodSet:
    """*count* identical pods. *requests*: per pod, sorted by resource; zeros are kept, because they need a flavor too.

    *min_count* None: it needs all *count* pods. *group*: pod sets of the same group get the same flavors. *reclaimable*: how
    many pods no longer need quota. *topology* None: its pods can go to any node.
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
    """The quota and nodes of one pod set.

    *flavors*: (resource, flavor). *usage*: (resource, total amount). Both are sorted by resource. *placement*: sorted; empty if
    no topology was requested.
    """

    pod_set: str
    count: int
    flavors: tuple[tuple[str, str], ...] = ()
    usage: tuple[tuple[str, int], ...] = ()
    placement: tuple[Placed, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload. *name*: namespace/name. *queue*: the cluster queue; empty if its local queue is unknown.

    *queued_at*: the time that determines its queue position; it differs from *created_at* only after certain evictions.
    *preempting_since*: since when it waits for workloads that it preempted; None: it does not.
    *granted* None: pending; otherwise it has had quota since *reserved_at*. *admitted* False with quota: waiting for admission
    checks.
    *evicted*: it was asked to stop and still uses its quota.
    *checks_open*: after it gets quota it waits for admission checks, whatever its queue requires; *checks_ready*: the checks
    that are done.
    *stop*: the stop policy of its local queue. *active* False: suspended by its owner.
    *held*: why it is not queued now; empty if it is. *gated*: this only applies with the gate AdmissionGatedBy.
    *problem*: why it is never considered; empty if it is.
    *boost*: added to *priority* if the gate PriorityBoost is on.
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
    preempting_since: float | None = None
    reserved_at: float = 0.0
    admitted: bool = True
    evicted: bool = False
    checks_open: bool = False
    checks_ready: tuple[str, ...] = ()
    stop: StopPolicy = StopPolicy.NONE
    active: bool = True
    held: str = ""
    gated: bool = False
    problem: str = ""
    boost: int = 0


@dataclass(frozen=True, slots=True)
class Topology:
    """A node hierarchy. *levels*: node labels, coarse to fine."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class System:
    """Everything that a scenario declares. *namespaces*: name → labels. *now*: the latest time in it (T0)."""

    cohorts: tuple[QueueCohort, ...] = ()
    queues: tuple[ClusterQueue, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    workloads: tuple[Workload, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    topologies: tuple[Topology, ...] = ()
    now: float = 0.0
