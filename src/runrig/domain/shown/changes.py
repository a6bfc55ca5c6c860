"""Changes that would start a waiting workflow, each with its effects."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.blockers import Verdict
from runrig.domain.changes import Fate, Who
from runrig.domain.quantities import listed
from runrig.domain.value import Shown, at, example, shown_as, utc


@dataclass(frozen=True, slots=True)
class ForeseenEffect(Shown):
    """The effect on another gang: it `starts`, `stops`, `waits` or `stays`."""

    gang: str
    becomes: Fate


shown_as(ForeseenEffect("eval-5", Fate.WAITS))


@dataclass(frozen=True, slots=True)
class WouldStart(Shown):
    """*changes*: one change, or two by the owner, as sentences. *who* can make it: owner or admin; wait: it only takes
    time.

    *verdict*: STARTS, or STARTS_AFTER_STOPS of the gangs in *stops*. *pods*: how many pods of each pod set would start.
    *instead_of*: what else would differ in the next cycle.
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
    """*dial*: the setting that was tried with *values* values: *refuted* were ruled out without a cycle, *run* with
    one.

    *verdict*: WAITS: no value starts it. NOT_PROVEN: the search limit was reached before all values were tried.
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
class ForeseenStart(Shown):
    """When a waiting group starts if nothing is submitted or changed, and all work runs until its time limit.

    *after*: workflows that reach their limit then. *sentence*: the condition and the time.
    """

    group: str
    at: datetime
    after: tuple[str, ...]
    sentence: str


MOST_NAMED = 3


def foreseen_start(group: str, moment: float, after: tuple[str, ...]) -> ForeseenStart:
    named, more = after[:MOST_NAMED], len(after) - MOST_NAMED
    who = listed((*named, f"{more:,} more") if more > 0 else named)
    reach = "reaches its time limit" if len(after) == 1 else "reach their time limits"
    when = f", when {who} {reach}" if after else ""
    return ForeseenStart(group, at(moment), after, f"nothing changes until {utc(at(moment))}{when}")


shown_as(foreseen_start("main-group", 1769881200.0, ("sft-75",)))


@dataclass(frozen=True, slots=True)
class WorkflowChanges(Shown):
    """*at_rest* false: the next cycle does something even without a change. *revision*: the state that was examined.

    *starts*: groups that start at a later time without a change. A group is not in it if it waits for work without a time
    limit, or if the answer would need too many steps.

    Workflows in pools that you cannot see appear as `work of another pool`.
    """

    revision: int
    at_rest: bool
    would_start: tuple[WouldStart, ...]
    tried: tuple[TriedDial, ...]
    starts: tuple[ForeseenStart, ...]


shown_as(WorkflowChanges(18342, True, (example(WouldStart),), (example(TriedDial),), (example(ForeseenStart),)))
