"""The consequences of an edit: the difference between two branches of one state, with and without the edit.

Effects that the next cycles would have anyway are in both, so they are not listed. Lists are in the order of ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from runrig.domain.gangs import Placement, nodes_of
from runrig.domain.plan import DropNode, PutNode, PutPool, SetFlavors
from runrig.domain.shown.plans import (
    Plan,
    PlanExposed,
    PlanGang,
    PlanLoss,
    PlanNever,
    PlanPool,
    PlanPoolRow,
    PlanPreempted,
    PlanStart,
)
from runrig.domain.workflows import Status
from runrig.engine.foresight.branch import Edit
from runrig.engine.foresight.outcome import Outcome

K = TypeVar("K", bound=PlanGang)


def concerns_nodes(edit: Edit) -> bool:
    """Whether the edit can change what fits on empty nodes."""
    return any(
        isinstance(each, PutNode | DropNode | SetFlavors) or (isinstance(each, PutPool) and _other_nodes(each))
        for each in edit.actions
    )


def _other_nodes(action: PutPool) -> bool:
    old, new = action.before, action.pool
    return old is None or (old.flavors, old.topology_keys) != (new.flavors, new.topology_keys)


def consequences(without: Outcome, with_it: Outcome) -> Plan:
    """Compares two branches that began with the same state."""
    both = _Both(without, with_it)
    return Plan(
        revision=without.revision,
        rests=without.rests and with_it.rests,
        cycles=max(without.cycles, with_it.cycles),
        starts=tuple(both.starts()),
        waits=tuple(both.waits()),
        preempted=tuple(_preempted(with_it, without)),
        spared=tuple(_preempted(without, with_it)),
        moves=tuple(with_it.parties[gang] for gang in sorted(with_it.moved - without.moved)),
        loses=tuple(both.loses()),
        cancels=tuple(both.cancels()),
        exposed=tuple(_exposed(without, with_it)),
        never=tuple(
            _planned(PlanNever, who, why=why) for gang, (who, why) in with_it.never.items() if gang not in without.never
        ),
        drains=tuple(each for name, each in with_it.drains.items() if name not in without.drains),
        stays=with_it.stays,
        pools=tuple(_changes(without.pools, with_it.pools)),
    )


class _Both:
    def __init__(self, without: Outcome, with_it: Outcome) -> None:
        self._old, self._new = without, with_it
        self._gangs = sorted({**without.runs, **with_it.runs})

    def _runs(self, outcome: Outcome, gang: str) -> Placement | None:
        """The gang's placement at the end. A gang that only the other branch touched is unchanged."""
        return outcome.runs[gang] if gang in outcome.runs else self._ran(gang)

    def _ran(self, gang: str) -> Placement | None:
        return (self._new if gang in self._new.ran else self._old).ran[gang]

    def starts(self) -> Iterator[PlanStart]:
        for gang in self._gangs:
            placement = self._runs(self._new, gang)
            if placement is not None and self._runs(self._old, gang) is None:
                yield _planned(PlanStart, _party(self._new, self._old, gang), nodes=nodes_of(placement))

    def waits(self) -> Iterator[PlanStart]:
        """Yields gangs that no longer start. Ended gangs, such as those of a deleted pool, are not included."""
        for gang in self._gangs:
            placement = self._runs(self._old, gang)
            if placement is None or self._runs(self._new, gang) is not None:
                continue
            if self._ran(gang) is None and gang not in self._new.ended:
                yield _planned(PlanStart, _party(self._old, self._new, gang), nodes=nodes_of(placement))

    def loses(self) -> Iterator[PlanLoss]:
        for gang in self._gangs:
            why = self._new.stopped.get(gang)
            ended = self._new.ended.get(gang)
            if self._ran(gang) is None or gang not in self._new.runs or (why is not None and why.law is not None):
                continue
            if (why is None and ended is None) or self._same(gang):
                continue
            then = _then(ended, runs=self._new.runs[gang] is not None)
            yield _planned(PlanLoss, self._new.parties[gang], cause="" if why is None else why.cause, then=then)

    def _same(self, gang: str) -> bool:
        """Whether it stops or ends in the same way without the edit."""
        old, new = self._old, self._new
        return (old.stopped.get(gang), old.ended.get(gang)) == (new.stopped.get(gang), new.ended.get(gang))

    def cancels(self) -> Iterator[PlanGang]:
        for gang in self._gangs:
            if gang in self._new.ended and gang not in self._old.ended and self._ran(gang) is None:
                yield self._new.parties[gang]


def _then(ended: Status | None, *, runs: bool) -> str:
    if ended is not None:
        return ended.value
    return "elsewhere" if runs else "queued"


def _planned(kind: type[K], who: PlanGang, **more: Any) -> K:
    return kind(who.gang, who.pool, who.priority, who.gpus, **more)


def _party(first: Outcome, second: Outcome, gang: str) -> PlanGang:
    return first.parties[gang] if gang in first.parties else second.parties[gang]


def _preempted(here: Outcome, there: Outcome) -> Iterator[PlanPreempted]:
    """Yields the gangs that are preempted *here* and not *there*."""
    for gang, why in sorted(here.stopped.items()):
        other = there.stopped.get(gang)
        if why.law is not None and (other is None or other.law is None):
            again = here.runs[gang] is not None
            yield _planned(PlanPreempted, here.parties[gang], by=why.by, law=why.law, again=again)


def _exposed(without: Outcome, with_it: Outcome) -> Iterator[PlanExposed]:
    """Yields gangs that run in both branches and that rule R2 protects only without the edit."""
    before = {gang.gang for excess in without.excesses.values() for gang in excess.gangs}
    for excess in with_it.excesses.values():
        gangs = tuple(gang for gang in excess.gangs if gang.gang not in before and gang.gang not in with_it.began)
        if gangs:
            yield replace(excess, gangs=gangs)


def _changes(before: Mapping[str, PlanPoolRow], after: Mapping[str, PlanPoolRow]) -> Iterator[PlanPool]:
    for name in sorted({**before, **after}):
        old, new = before.get(name, PlanPoolRow()), after.get(name, PlanPoolRow())
        if old != new:
            yield PlanPool(name, old, new)
