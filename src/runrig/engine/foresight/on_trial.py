"""What-if runs: decisions and declarations take effect on the live ledger, and are undone at the end.

  with OnTrial(ledger, now) as trial:
      trial.apply(PutPool(larger))
      decisions = list(trial.cycle())

Nothing is copied, and each step is undone individually, so a run costs what its steps cost. This includes sleeping buckets
(`Sleepers.begin_trial`). Pure, like the whole engine: nothing reaches the state, its rows or the log.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import Self

from runrig.domain.gangs import GangState
from runrig.domain.plan import (
    Decision,
    Nominate,
    PutCohort,
    PutLimits,
    PutNode,
    PutPool,
    TryAgain,
)
from runrig.domain.subjects import gang_id_of
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.ledger.searches import Searches
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.rejections import rejected_in, rejected_on

TrialEdit = PutPool | PutLimits | PutCohort | PutNode
"""Declarations that can be undone. Flavors cannot, because they change the whole tree."""

Stands = tuple[str, Entry | None, Entry | None]
"""A gang: its id, its entry and a copy of that; None: it did not exist."""


class OnTrial:
    """*now*: the time at which everything happens, in seconds since the epoch. Only one run per ledger at a time.

    *cycles* False: `cycle` will not be called, so sleepers need not be notified.
    *same_nodes*: set at the end; False if an edit removed nodes from the tree. The next cycle then evaluates everything.
    """

    def __init__(self, ledger: Ledger, now: float, *, cycles: bool = True) -> None:
        self._ledger, self._now, self._cycles = ledger, now, cycles
        self._undo: list[Callable[[], None]] = []
        self.same_nodes = True

    def __enter__(self) -> Self:
        _ = self._ledger.tree  # applies earlier declarations now, because undoing the run must not undo them
        self._effort, self._searches = self._ledger.effort, self._ledger.searches
        self._ledger.searches = Searches()
        self._ledger.sleepers.begin_trial()
        if not self._cycles:
            self._ledger.sleepers.be_deaf()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.sleepers.be_deaf()
        while self._undo:
            self._undo.pop()()
        self.same_nodes = self._ledger.sleepers.end_trial()
        self._ledger.effort, self._ledger.searches = self._effort, self._searches

    def apply(self, action: Decision | TrialEdit) -> None:
        """Like `State.apply`, for the ledger only. Raises IllegalStep."""
        match action:
            case PutPool() | PutLimits() | PutCohort() | PutNode():
                self._declare(action)
            case _:
                self._undo.append(partial(self._put_back, self._standings(action)))
                self._ledger.apply(action, self._now)

    def cycle(self) -> Iterator[Decision | None]:
        """`decide`, with each decision applied before the next. Callers may stop early."""
        assert self._cycles
        with closing(decide(self._ledger)) as decisions:
            for action in decisions:
                if action is not None:
                    self.apply(action)
                yield action

    # ------------------------------------------------------------ gangs

    def _standings(self, action: Decision) -> list[Stands]:
        """Everything that *action* may change: the gang, its targets, and gangs that wait for it."""
        ledger = self._ledger
        gang = gang_id_of(action)
        entry = ledger.entries.get(gang)
        concerned = {gang: entry}
        if entry is not None:
            concerned |= {name: ledger.entries[name] for name in entry.waits_for}
            concerned |= {each.gang.id: each for each in ledger.waiting_for(gang)}
        if isinstance(action, Nominate):
            concerned |= {name: ledger.entries[name] for name in action.targets}
        return [(name, each, None if each is None else each.copy()) for name, each in concerned.items()]

    def _put_back(self, standings: list[Stands]) -> None:
        ledger = self._ledger
        now = [ledger.entries[name] for name, _, _ in standings if name in ledger.entries]
        for each in now:
            ledger.take_out(each)
        for each in now:
            del ledger.entries[each.gang.id]
        for _, entry, was in standings:
            if entry is not None and was is not None:
                ledger.put_back(entry, was)

    # ------------------------------------------------------------ declarations

    def _declare(self, edit: TrialEdit) -> None:
        ledger = self._ledger
        match edit:
            case PutPool(pool):
                before = ledger.pools.get(pool.name)
                assert before is not None, f"pool {pool.name} does not exist: what-if runs do not create pools"
                if (before.user_gpus is None) != (pool.user_gpus is None):
                    self._move_buckets(ledger.waiting_in(pool.name))
                self._edit(partial(ledger.put_pool, pool), partial(ledger.put_pool, before))
                again = rejected_in(ledger, pool.name.__eq__)
            case PutLimits(limits):
                known_limits = ledger.users.limits_of(limits.user)
                if (known_limits.gpus is None) != (limits.gpus is None):
                    self._move_buckets(each for each in ledger.of_user(limits.user) if each.state is GangState.PENDING)
                self._edit(partial(ledger.put_limits, limits), partial(ledger.put_limits, known_limits))
                again = []
            case PutCohort(cohort):
                known = ledger.cohorts.get(cohort.name)
                drop = partial(ledger.drop_cohort, cohort.name)
                self._edit(
                    partial(ledger.put_cohort, cohort), drop if known is None else partial(ledger.put_cohort, known)
                )
                again = []
            case PutNode(node):
                there = ledger.nodes.by_name[node.name].node  # what-if runs do not add nodes
                self._edit(partial(ledger.put_node, node), partial(ledger.put_node, there))
                again = rejected_on(ledger, {node.flavor, there.flavor})
        for gang in again:
            self.apply(TryAgain(gang))

    def _move_buckets(self, waiting: Iterable[Entry]) -> None:
        """The next edit moves *waiting* to other buckets: undoing moves them back to those in which they may sleep."""
        stands: list[Stands] = [(each.gang.id, each, each.copy()) for each in waiting]
        self._undo.append(partial(self._put_back, stands))

    def _edit(self, edit: Callable[[], None], back: Callable[[], None]) -> None:
        """Updates the tree immediately, also when undoing, so that later steps are undone in the same tree."""
        self._undo.append(partial(self._follow, back))
        self._follow(edit)

    def _follow(self, edit: Callable[[], None]) -> None:
        edit()
        _ = self._ledger.tree
