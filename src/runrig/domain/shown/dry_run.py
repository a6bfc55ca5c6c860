"""The effect of the next cycle on a submission."""

from dataclasses import dataclass

from runrig.domain.blockers import Verdict
from runrig.domain.reasons import Reason
from runrig.domain.value import Shown, example, shown_as


@dataclass(frozen=True, slots=True)
class GroupDryRun(Shown):
    """*nodes*: where it would start, by name. *stops*: the gangs that would have to stop. *reasons*: why it would wait."""

    group: str
    verdict: Verdict
    nodes: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


shown_as(GroupDryRun("main-group", Verdict.STARTS, ("node-1",)))


@dataclass(frozen=True, slots=True)
class WorkflowDryRun(Shown):
    """The effect of the next cycle. *verdict*: STARTS, STARTS_AFTER_STOPS, WAITS or NOT_PROVEN, the worst of its
    groups. An array STARTS if an element does.

    *sentence* says the same in words. Groups that wait for other groups of the workflow are left out.
    """

    verdict: Verdict
    sentence: str
    groups: tuple[GroupDryRun, ...]


shown_as(WorkflowDryRun(Verdict.STARTS, "would start now on node-1", (example(GroupDryRun),)))
