"""What would let a workflow start: changes, each with what the engine does then."""

from dataclasses import dataclass

from runrig.domain.blockers import Verdict
from runrig.domain.changes import Fate, Who
from runrig.domain.value import Shown, example, shown_as


@dataclass(frozen=True, slots=True)
class ForeseenEffect(Shown):
    """What becomes of another gang instead: it `starts`, `stops`, `waits` or `stays`."""

    gang: str
    becomes: Fate


shown_as(ForeseenEffect("eval-5", Fate.WAITS))


@dataclass(frozen=True, slots=True)
class WouldStart(Shown):
    """*who* can do it: owner, admin; wait: nobody, it takes waiting.  *changes*: one, or two of the owner's, as sentences.

    *verdict*: STARTS, or STARTS_AFTER_STOPS of the gangs in *stops*.  *pods*: how many of each pod set would start.  *instead_of*: what
    else would be different in the next cycle.
    """

    group: str
    who: Who
    kinds: tuple[str, ...]
    changes: tuple[str, ...]
    verdict: Verdict
    pods: tuple[int, ...]
    stops: tuple[str, ...]
    instead_of: tuple[ForeseenEffect, ...]


shown_as(
    WouldStart(
        group="main-group",
        who=Who.OWNER,
        kinds=("FewerPods",),
        changes=("request 7 pods for main (now 8)",),
        verdict=Verdict.STARTS,
        pods=(7,),
        stops=(),
        instead_of=(example(ForeseenEffect),),
    )
)


@dataclass(frozen=True, slots=True)
class TriedDial(Shown):
    """*dial*: what was turned.  Of *values* so many were *refuted* without a cycle, and so many *run*.

    *verdict* WAITS: none of the values starts it; NOT_PROVEN: the budget ended before all were tried.
    """

    group: str
    who: Who
    dial: str
    values: int
    refuted: int
    run: int
    verdict: Verdict


shown_as(TriedDial("main-group", Who.ADMIN, "quota of pool vision (default/gpu)", 8, 6, 2, Verdict.WAITS))


@dataclass(frozen=True, slots=True)
class WorkflowChanges(Shown):
    """*at_rest* False: the next cycle does something even without a change.  *revision*: of the state that this is about.

    Work of pools that you do not see appears as `work of another pool`."""

    revision: int
    at_rest: bool
    would_start: tuple[WouldStart, ...]
    tried: tuple[TriedDial, ...]


shown_as(WorkflowChanges(18342, True, (example(WouldStart),), (example(TriedDial),)))
