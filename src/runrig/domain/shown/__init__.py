"""The values that answers consist of.  They stand on all the rest of `domain`, which knows nothing of them."""

from runrig.domain.blockers import Blocker, QuotaLeft
from runrig.domain.nodes import Flavor, Taint
from runrig.domain.reasons import Concerned, DomainRoom, Reason
from runrig.domain.shown.changes import ForeseenEffect, TriedDial, WorkflowChanges, WouldStart
from runrig.domain.shown.declared import DeclaredChange
from runrig.domain.shown.dry_run import GroupDryRun, WorkflowDryRun
from runrig.domain.shown.nodes import FlavorPage, GpuHolder, Node, NodePage, NodesDrained, NodesMarked
from runrig.domain.shown.plans import (
    Plan,
    PlanDrain,
    PlanExposed,
    PlanGang,
    PlanLoss,
    PlanNever,
    PlanPool,
    PlanPoolRow,
    PlanPreempted,
    PlanStart,
    PlanUnseen,
)
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
    "DeclaredChange",
    "DomainRoom",
    "Flavor",
    "FlavorPage",
    "ForeseenEffect",
    "GpuHolder",
    "GroupDryRun",
    "GroupWhy",
    "Held",
    "Node",
    "NodePage",
    "NodesDrained",
    "NodesMarked",
    "Plan",
    "PlanDrain",
    "PlanExposed",
    "PlanGang",
    "PlanLoss",
    "PlanNever",
    "PlanPool",
    "PlanPoolRow",
    "PlanPreempted",
    "PlanStart",
    "PlanUnseen",
    "PoolEnding",
    "PoolWhy",
    "Preemption",
    "QuotaLeft",
    "Reason",
    "Standstill",
    "Taint",
    "TriedDial",
    "WorkflowCause",
    "WorkflowChanges",
    "WorkflowDryRun",
    "WorkflowWhy",
    "WouldStart",
]
