"""The decisions of imported queues: which workloads get quota, are preempted or wait, and why, cycle by cycle."""

import enum
from typing import NamedTuple

from runrig.domain.kueue import Decided
from runrig.kueue.declared import Granted


class PendingReason(enum.StrEnum):
    """Kueue's reason for not giving quota to a workload that was considered."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY = "TopologyPlacementFailed"
    WAITING_FOR_TARGETS = "WaitingForPreemptedWorkloads"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"


class PreemptionReason(enum.StrEnum):
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


class CycleReport(Decided[Admission]):
    """The decisions of one cycle."""

    __slots__ = ()
