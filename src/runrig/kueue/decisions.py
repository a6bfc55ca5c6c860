"""The decisions of imported queues: which workloads get quota, are preempted or wait, and why, cycle by cycle."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runrig.domain.reasons import Reason
from runrig.kueue.declared import Granted


class PendingReason(enum.Enum):
    """Kueue's reason for not giving quota to a workload that was considered."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY = "TopologyPlacementFailed"
    WAITING_FOR_TARGETS = "WaitingForPreemptedWorkloads"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"


class PreemptionReason(enum.Enum):
    """Kueue's name for the rule that allows a preemption."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


class Admission(NamedTuple):
    workload: str
    queue: str
    granted: tuple[Granted, ...]
    reserved_only: bool = False


class Preemption(NamedTuple):
    workload: str
    queue: str
    by: str
    reason: PreemptionReason


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending workload. *considered*: it was evaluated in this cycle. *parked*: it waits until something changes.

    *pending_reason* None: it was not considered.
    """

    workload: str
    queue: str
    considered: bool
    parked: bool
    pending_reason: PendingReason | None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class CycleReport:
    """The decisions of one cycle.

    *skipped*: queue → number of preemptions that were chosen but not carried out, because an earlier entry prevented them.
    """

    admitted: tuple[Admission, ...] = ()
    preempted: tuple[Preemption, ...] = ()
    pending: tuple[Waiting, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
