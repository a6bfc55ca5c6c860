"""Would it start if: for each dial, the first value with which the next cycle starts a waiting gang.

Every reported answer was run by the engine as a complete cycle in a what-if run. A value is skipped only if a necessary
condition for a start does not hold. For the owner's changes in a settled state, it is also skipped if evaluating the
gang finds nothing, since no gang ahead would be evaluated. Nothing is assumed to be monotone: with more quota, another
gang may take the nodes. A dial whose search limit is reached is NOT_PROVEN, never "none".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from runrig.domain.blockers import Verdict
from runrig.domain.changes import Change, Ended, Fate, Who
from runrig.domain.gangs import Placement
from runrig.domain.plan import Admit, Nominate, Preempt, Queue, Release, Withdraw
from runrig.domain.pools import PoolState, Queueing
from runrig.domain.shown.changes import ForeseenEffect, TriedDial
from runrig.domain.steps import Steps
from runrig.engine.foresight.dials import Dial, Reach, changed_gang, dials, edits_of, holders, own_dials
from runrig.engine.foresight.ended_work import EndedWork
from runrig.engine.foresight.on_trial import OnTrial
from runrig.engine.foresight.refuting import NEVER, counts_asked, lacks
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.scheduling.admission import look_at

MOST_RUNS = 64
"""Maximum number of values of a dial that are run."""

MOST_SET_RUNS = 16
"""Maximum number of sets of ending workflows that are run, and of runs to find members that are not needed."""

MOST_REFUTED = 256
"""Maximum number of values of a dial that are refuted individually; each needs a what-if run of its own."""

MOST_PAIRS = 2500
"""Maximum number of pairs of the owner's changes that are examined."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The engine's decision on a gang after *changes*: one, or a pair of the owner's.

    *counts*: pods per pod set that start. *stops*: gangs that are preempted for it. *instead_of*: other differences
    from the next cycle without the changes.
    """

    who: Who
    changes: tuple[Change, ...]
    verdict: Verdict
    counts: tuple[int, ...] = ()
    placement: Placement = ()
    stops: tuple[str, ...] = ()
    instead_of: tuple[ForeseenEffect, ...] = ()


@dataclass(frozen=True, slots=True)
class Foreseen:
    """*at_rest* False: the next cycle does something even without a change. *answers*: at most one per dial."""

    at_rest: bool
    answers: tuple[Counterfactual, ...]
    tried: tuple[TriedDial, ...]


@dataclass(frozen=True, slots=True)
class TrialCycle:
    """The result of a cycle for one gang, and for all: *fates* by gang."""

    verdict: Verdict
    placement: Placement
    stops: tuple[str, ...]
    fates: dict[str, Fate]


@dataclass(slots=True)
class _Effort:
    """How many values were *refuted* and run so far. *proven* False: a limit was reached before the last one."""

    refuted: int = 0
    runs: int = 0
    proven: bool = True


class Search:
    """The search for one gang, *entry*, which waits in *ledger*. *now*: the time of the next cycle."""

    def __init__(self, ledger: Ledger, entry: Entry, reach: Reach, now: float) -> None:
        self._ledger, self._reach, self._now = ledger, reach, now
        self._gang, self._group = entry.gang, entry.gang.id.partition("/")[2]
        self._baseline = self._cycle(())
        self._at_rest = not self._baseline.fates and self._baseline.verdict is Verdict.WAITS

    @property
    def _entry(self) -> Entry:
        return self._ledger.entries[self._gang.id]

    def run(self, *, depth: int = 1) -> Steps[Foreseen]:
        """Yields after each value. In between, the ledger is unchanged, and the search may be paused."""
        yield from counts_asked(self._ledger, self._entry)
        answers: list[Counterfactual] = []
        tried: list[TriedDial] = []
        for dial in dials(self._ledger, self._entry, self._reach) if not self._baseline.verdict.starts else ():
            found = yield from self._turn(dial, tried)
            answers += [] if found is None else [found]
        if depth > 1 and not any(answer.who is Who.OWNER for answer in answers):
            effort = _Effort()
            found = yield from self._first(Who.OWNER, self._pairs(effort), effort)
            tried.append(self._tried(Who.OWNER, "two changes", effort.refuted + effort.runs, effort, found))
            answers += [] if found is None else [found]
        return Foreseen(self._at_rest, tuple(answers), tuple(tried))

    def _first(
        self, who: Who, values: Iterable[Sequence[Change] | None], effort: _Effort
    ) -> Steps[Counterfactual | None]:
        """The first of *values* that starts the gang immediately; otherwise the first that starts it after others have stopped.

        None among *values*: some were refuted.
        """
        second: Counterfactual | None = None
        for changes in values:
            if changes is None:
                yield None
                continue
            effort.runs += 1
            found = self.try_out(changes, who)
            yield None
            if found.verdict is Verdict.STARTS:
                return found
            second = second or (found if found.verdict.starts else None)
        return second

    def _turn(self, dial: Dial, tried: list[TriedDial]) -> Steps[Counterfactual | None]:
        """`_first` of the values of *dial*. If no workflow is enough that ends alone, several together."""
        effort = _Effort()
        work = None
        if dial.size and isinstance(dial.at(0), Ended):
            work = EndedWork(self._ledger, self._entry, holders(self._ledger, self._entry, self._reach))
        values = self._values(dial, effort) if work is None else _each_alone(work, dial, effort)
        found = yield from self._first(dial.who, values, effort)
        if work is not None and found is None and dial.size > 1:
            found = yield from self._set(work, dial)
        tried.append(self._tried(dial.who, dial.name, dial.size, effort, found))
        return found

    def _values(self, dial: Dial, effort: _Effort) -> Iterator[Sequence[Change] | None]:
        """Yields the values of *dial* that may start it."""
        refutations = number = 0
        while number < dial.size:
            change = dial.at(number)
            if refutations == MOST_REFUTED:
                effort.proven = False
                return
            skip = self._refuted(change, dial)
            if not skip and effort.runs == MOST_RUNS:
                effort.proven = False
                return
            refutations += skip > 0
            effort.refuted += min(skip, dial.size - number)
            number += skip or 1
            yield None if skip else (change,)

    def _tried(self, who: Who, name: str, size: int, effort: _Effort, found: Counterfactual | None) -> TriedDial:
        verdict = found.verdict if found else Verdict.WAITS if effort.proven else Verdict.NOT_PROVEN
        return TriedDial(self._group, who, name, size, effort.refuted, effort.runs, verdict)

    def try_out(self, changes: Sequence[Change], who: Who) -> Counterfactual:
        """The decision of the next cycle on the gang after *changes*."""
        found = self._cycle(changes)
        gone = {name for change in changes if isinstance(change, Ended) for name in change.workflows}
        effects = tuple(
            effect for effect in _effects(self._baseline, found) if effect.gang.partition("/")[0] not in gone
        )
        own = {self._gang.id, *found.stops}
        return Counterfactual(
            who,
            tuple(changes),
            found.verdict,
            tuple(each.count for each in found.placement),
            found.placement,
            found.stops,
            tuple(effect for effect in effects if effect.gang not in own) if found.verdict.starts else (),
        )

    def _cycle(self, changes: Sequence[Change]) -> TrialCycle:
        """Runs a cycle after *changes* and undoes it. Stops early if the gang had its turn and did not start."""
        verdict, placement = Verdict.WAITS, Placement()
        stops: list[str] = []
        fates: dict[str, Fate] = {}
        with OnTrial(self._ledger, self._now) as trial:
            for edit in edits_of(self._ledger, self._gang, changes, self._reach.gangs_of):
                trial.apply(edit)
            turn = self._entry.bucket
            if changes and turn.asleep is not None:
                self._ledger.sleepers.wake(turn)  # waking too many buckets never changes the plan
            for action in trial.cycle():
                match action:
                    case None:
                        if changes and turn.asleep is not None and not verdict.starts:
                            return TrialCycle(Verdict.WAITS, Placement(), (), {})
                    case Admit(gang, where) | Nominate(gang, where):
                        fates[gang] = Fate.STARTS
                        if gang == self._gang.id:
                            at_once = isinstance(action, Admit)
                            verdict = Verdict.STARTS if at_once else Verdict.STARTS_AFTER_STOPS
                            placement = where
                        elif changes and not verdict.starts and self._too_late():
                            return TrialCycle(Verdict.WAITS, Placement(), (), {})
                    case Preempt(gang, by):
                        fates[gang] = Fate.STOPS
                        if by == self._gang.id:
                            stops.append(gang)
                    case Withdraw(gang):
                        fates[gang] = Fate.WAITS
        return TrialCycle(verdict, placement, tuple(stops), fates)

    def _too_late(self) -> bool:
        """Whether others have taken what it needs. Nothing that LOW work could use is released during a cycle."""
        return not self._entry.bucket.firm and lacks(self._ledger, self._entry) > 0

    # ------------------------------------------------------------ refuting

    def _refuted(self, change: Change, dial: Dial) -> int:
        """How many values, from *change* on, cannot start it; 0 if *change* must be run."""
        ledger, gang = self._ledger, self._gang
        if dial.who is Who.OWNER:
            return int(self._owner_in_vain((change,)))
        if dial.gentle and self._no_quota_would_do:
            return dial.size
        with OnTrial(ledger, self._now, cycles=False) as trial:
            for edit in edits_of(ledger, gang, (change,)):
                trial.apply(edit)
            short = lacks(ledger, self._entry)
        return short if dial.gentle else int(short > 0)

    @cached_property
    def _no_quota_would_do(self) -> bool:
        return lacks(self._ledger, self._entry) == NEVER

    def _owner_in_vain(self, changes: Sequence[Change]) -> bool:
        """Whether the gate would reject the changed gang or, in a settled state, if evaluating it finds nothing."""
        ledger, changed = self._ledger, self._gang
        for change in changes:
            changed = changed_gang(changed, change)
        if ledger.pools[changed.pool].state is not PoolState.ACTIVE:
            return True
        strict = any(ledger.pools[name].queueing is Queueing.STRICT_FIFO for name in (self._gang.pool, changed.pool))
        with OnTrial(ledger, self._now, cycles=False) as trial:
            trial.apply(Release(changed.id))
            trial.apply(Queue(changed))
            if lacks(ledger, self._entry):
                return True
            # Only in a STRICT_FIFO pool can another gang become head because this one moved.
            if self._at_rest and not strict and look_at(ledger, self._entry) is None:
                return True
        return not self._reach.accepts(changed)  # Last, because few changes get here.

    # ------------------------------------------------------------ several changes

    def _set(self, work: EndedWork, dial: Dial) -> Steps[Counterfactual | None]:
        """Workflows that must all end for the gang to start; each of them is needed.

        Starts with the set that is enough by arithmetic. While other gangs take what it frees, one more workflow is added.
        """
        together = work.least_set()
        if together is None:
            return None
        rest = iter(sorted({*range(dial.size)}.difference(together)))
        for _ in range(MOST_SET_RUNS):
            found = self._try_ended(dial, together)
            yield None
            if found is not None:
                return (yield from self._without_spare(work, dial, together, found))
            more = next(rest, None)
            if more is None:
                return None
            together = sorted([*together, more])
        return None

    def _without_spare(
        self, work: EndedWork, dial: Dial, together: list[int], found: Counterfactual
    ) -> Steps[Counterfactual | None]:
        """*found*, which starts with *together*, or a result with fewer; None if the limit is reached before all of them are needed."""
        runs, tried = 0, list(together)
        while tried:
            fewer = [number for number in together if number != tried[0]]
            if not work.may_start_with(fewer):
                tried = tried[1:]
                continue
            if runs == MOST_SET_RUNS:
                return None
            runs += 1
            starts = self._try_ended(dial, fewer)
            yield None
            if starts is None:
                tried = tried[1:]
            else:
                found, together, tried = starts, fewer, list(fewer)
        return found

    def _try_ended(self, dial: Dial, together: Sequence[int]) -> Counterfactual | None:
        """None if it does not start, or for single workflows, which have already been run or refuted."""
        if len(together) < 2:
            return None
        names = tuple(name for number in together for name in _ended(dial.at(number)))
        found = self.try_out((Ended(names),), dial.who)
        return found if found.verdict.starts else None

    def _pairs(self, effort: _Effort) -> Iterator[Sequence[Change] | None]:
        """Yields the pairs of the owner's changes, of two dials, that may start it."""
        for changes in self._every_pair():
            if effort.refuted + effort.runs == MOST_PAIRS or effort.runs == MOST_RUNS:
                effort.proven = False
                return
            in_vain = self._owner_in_vain(changes)
            effort.refuted += in_vain
            yield None if in_vain else changes

    def _every_pair(self) -> Iterator[tuple[Change, Change]]:
        """Yields the pairs, smallest steps first."""
        turned = list(own_dials(self._ledger, self._entry, self._reach))
        pairs = [
            (first + second, at, first, second)
            for at, (one, other) in enumerate(combinations(turned, 2))
            for first in range(min(one.size, MOST_RUNS))
            for second in range(min(other.size, MOST_RUNS))
        ]
        dials_of = list(combinations(turned, 2))
        for _, at, first, second in sorted(pairs):
            yield dials_of[at][0].at(first), dials_of[at][1].at(second)


def _each_alone(work: EndedWork, dial: Dial, effort: _Effort) -> Iterator[Sequence[Change]]:
    """Yields the workflows of *dial* that may be enough alone."""
    may: list[int] = work.alone().nonzero()[0].tolist()
    for runs, number in enumerate(may[:MOST_RUNS], start=1):
        effort.refuted = number + 1 - runs
        yield (dial.at(number),)
    effort.refuted, effort.proven = dial.size - len(may), len(may) <= MOST_RUNS


def _ended(change: Change) -> tuple[str, ...]:
    assert isinstance(change, Ended)
    return change.workflows


def _effects(baseline: TrialCycle, found: TrialCycle) -> Iterator[ForeseenEffect]:
    """Yields the differences from the cycle without a change, by gang."""
    for gang in sorted({*baseline.fates, *found.fates}):
        before, after = baseline.fates.get(gang), found.fates.get(gang)
        if after is not None and after is not before:
            yield ForeseenEffect(gang, after)
        elif after is None:
            yield ForeseenEffect(gang, Fate.WAITS if before is Fate.STARTS else Fate.STAYS)
