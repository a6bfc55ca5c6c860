"""What the next cycle would do with a submission."""

from dataclasses import dataclass

from runrig.domain.blockers import Verdict
from runrig.domain.reasons import Reason
from runrig.domain.value import Shown, example, shown_as


@dataclass(frozen=True, slots=True)
class GroupDryRun(Shown):
    """*nodes*: where it would start, by name; *stops*: the gangs that would have to stop for it; *reasons*: why it would wait."""

    group: str
    verdict: Verdict
    nodes: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


shown_as(GroupDryRun("main-group", Verdict.STARTS, ("node-1",)))


@dataclass(frozen=True, slots=True)
class WorkflowDryRun(Shown):
    """What the next cycle would do.  *verdict*: STARTS, STARTS_AFTER_STOPS, WAITS or NOT_PROVEN, the gravest of its groups';
    *sentence* tells it.  Groups that wait for others of the workflow are left out."""

    verdict: Verdict
    sentence: str
    groups: tuple[GroupDryRun, ...]


shown_as(WorkflowDryRun(Verdict.STARTS, "would start now on node-1", (example(GroupDryRun),)))
