"""Consequences of an edit: the difference of two branches of one state, one with the edit and one without.

What happens anyway, because the next cycles would do it, is in both and so in no difference.  Lists are in the order of the ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runrig.domain.gangs import Law, Placement
from runrig.domain.plan import DropNode, PutNode, PutPool, SetFlavors
from runrig.domain.workflows import Status
from runrig.engine.foresight.branch import Edit
from runrig.engine.foresight.outcome import Drain, Excess, Outcome, Party, PoolRow


@dataclass(frozen=True, slots=True)
class Start:
    """*placement*: where it runs, in the branch in which it does."""

    party: Party
    placement: Placement


@dataclass(frozen=True, slots=True)
class Preempted:
    """*by*: the gang that starts instead.  *again*: it has found another place at once."""

    party: Party
    by: str
    law: Law
    again: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """Work that ran, and is stopped or over.  *then*: "queued" (it waits again), "elsewhere" (it runs again), or its last status."""

    party: Party
    cause: str
    then: str


@dataclass(frozen=True, slots=True)
class Never:
    party: Party
    why: str


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the table: a pool with and without the edit."""

    pool: str
    before: PoolRow
    after: PoolRow


@dataclass(frozen=True, slots=True)
class Consequences:
    """*revision*: of the state that both branches began with.  *rests* False: a budget ended, so it is what follows at first.

    *cycles*: that it took.  *starts*: run with the edit, and would wait without it; *waits*: the other way round.  *spared*: would be
    preempted without it.  *moves*: go on with some pods on other nodes.  *loses*: stop for another reason than preemption.
    *cancels*: waited and is over.  *exposed*: lose the protection of law R2.  *never*: can no longer run at all.
    *stays*: goes on to its end on nodes that are drained.
    """

    revision: int
    rests: bool
    cycles: int
    starts: tuple[Start, ...]
    waits: tuple[Start, ...]
    preempted: tuple[Preempted, ...]
    spared: tuple[Preempted, ...]
    moves: tuple[Party, ...]
    loses: tuple[Loss, ...]
    cancels: tuple[Party, ...]
    exposed: tuple[Excess, ...]
    never: tuple[Never, ...]
    drains: tuple[Drain, ...]
    stays: tuple[Party, ...]
    pools: tuple[Change, ...]

    @property
    def empty(self) -> bool:
        found = (self.starts, self.waits, self.preempted, self.spared, self.moves, self.loses, self.cancels, self.stays)
        return not (any(found) or self.exposed or self.never or self.drains or self.pools)


def concerns_nodes(edit: Edit) -> bool:
    """Whether what fits on empty nodes may be another with the edit."""
    return any(
        isinstance(each, PutNode | DropNode | SetFlavors) or (isinstance(each, PutPool) and _other_nodes(each))
        for each in edit.actions
    )


def _other_nodes(action: PutPool) -> bool:
    old, new = action.before, action.pool
    return old is None or (old.flavors, old.topology_keys) != (new.flavors, new.topology_keys)


def consequences(without: Outcome, with_it: Outcome) -> Consequences:
    """Compares two branches that began with the same state."""
    both = _Both(without, with_it)
    return Consequences(
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
        never=tuple(Never(*found) for gang, found in with_it.never.items() if gang not in without.never),
        drains=tuple(each for name, each in with_it.drains.items() if name not in without.drains),
        stays=with_it.stays,
        pools=tuple(_changes(without.pools, with_it.pools)),
    )


class _Both:
    def __init__(self, without: Outcome, with_it: Outcome) -> None:
        self._old, self._new = without, with_it
        self._gangs = sorted({**without.runs, **with_it.runs})

    def _runs(self, outcome: Outcome, gang: str) -> Placement | None:
        """A gang that only the other branch touched stands as it did at first."""
        return outcome.runs[gang] if gang in outcome.runs else self._ran(gang)

    def _ran(self, gang: str) -> Placement | None:
        return (self._new if gang in self._new.ran else self._old).ran[gang]

    def starts(self) -> Iterator[Start]:
        for gang in self._gangs:
            placement = self._runs(self._new, gang)
            if placement is not None and self._runs(self._old, gang) is None:
                yield Start(_party(self._new, self._old, gang), placement)

    def waits(self) -> Iterator[Start]:
        """Over, like what a deleted pool cancels, is not waiting."""
        for gang in self._gangs:
            placement = self._runs(self._old, gang)
            if placement is None or self._runs(self._new, gang) is not None:
                continue
            if self._ran(gang) is None and gang not in self._new.ended:
                yield Start(_party(self._old, self._new, gang), placement)

    def loses(self) -> Iterator[Loss]:
        for gang in self._gangs:
            why = self._new.stopped.get(gang)
            ended = self._new.ended.get(gang)
            if self._ran(gang) is None or gang not in self._new.runs or (why is not None and why.law is not None):
                continue
            if (why is None and ended is None) or self._same(gang):
                continue
            then = _then(ended, runs=self._new.runs[gang] is not None)
            yield Loss(self._new.parties[gang], "" if why is None else why.cause, then)

    def _same(self, gang: str) -> bool:
        """It stops, or ends, without the edit too."""
        old, new = self._old, self._new
        return (old.stopped.get(gang), old.ended.get(gang)) == (new.stopped.get(gang), new.ended.get(gang))

    def cancels(self) -> Iterator[Party]:
        for gang in self._gangs:
            if gang in self._new.ended and gang not in self._old.ended and self._ran(gang) is None:
                yield self._new.parties[gang]


def _then(ended: Status | None, *, runs: bool) -> str:
    if ended is not None:
        return ended.value
    return "elsewhere" if runs else "queued"


def _party(first: Outcome, second: Outcome, gang: str) -> Party:
    return first.parties[gang] if gang in first.parties else second.parties[gang]


def _preempted(here: Outcome, there: Outcome) -> Iterator[Preempted]:
    """Yields the gangs that are preempted *here* and not *there*."""
    for gang, why in sorted(here.stopped.items()):
        other = there.stopped.get(gang)
        if why.law is not None and (other is None or other.law is None):
            yield Preempted(here.parties[gang], why.by, why.law, here.runs[gang] is not None)


def _exposed(without: Outcome, with_it: Outcome) -> Iterator[Excess]:
    """Yields the gangs that run in both and that law R2 protects only without the edit."""
    before = {gang.gang for excess in without.excesses.values() for gang in excess.gangs}
    for excess in with_it.excesses.values():
        gangs = tuple(gang for gang in excess.gangs if gang.gang not in before and not _began(with_it, gang.gang))
        if gangs:
            yield Excess(excess.pool, excess.resource, excess.held, excess.nominal, gangs)


def _began(outcome: Outcome, gang: str) -> bool:
    return gang in outcome.began


def _changes(before: Mapping[str, PoolRow], after: Mapping[str, PoolRow]) -> Iterator[Change]:
    for name in sorted({**before, **after}):
        old, new = before.get(name, PoolRow()), after.get(name, PoolRow())
        if old != new:
            yield Change(name, old, new)
