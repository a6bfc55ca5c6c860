"""The values that answers consist of.  They stand on all the rest of `domain`, which knows nothing of them."""

from runrig.domain.blockers import Blocker, QuotaLeft
from runrig.domain.reasons import Concerned, DomainRoom, Reason
from runrig.domain.shown.changes import ForeseenEffect, TriedDial, WorkflowChanges, WouldStart
from runrig.domain.shown.dry_run import GroupDryRun, WorkflowDryRun
from runrig.domain.shown.why import (
    GroupWhy,
    Held,
    PoolEnding,
    PoolWhy,
    Preemption,
    Standstill,
    WorkflowCause,
    WorkflowWhy,
)

__all__ = [
    "Blocker",
    "Concerned",
    "DomainRoom",
    "ForeseenEffect",
    "GroupDryRun",
    "GroupWhy",
    "Held",
    "PoolEnding",
    "PoolWhy",
    "Preemption",
    "QuotaLeft",
    "Reason",
    "Standstill",
    "TriedDial",
    "WorkflowCause",
    "WorkflowChanges",
    "WorkflowDryRun",
    "WorkflowWhy",
    "WouldStart",
]
