"""What is spent of budgets, counted as gangs start and end (rule W7).

A lookup per gang that starts or ends, and two additions where a budget applies; a cycle pays nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from runrig.domain.budgets import Owner, Scope, Spent, month_of, next_month
from runrig.domain.gangs import Priority
from runrig.domain.plan import Action, Declaration, OwnerMove, PutLimits, PutPool, SetSpent
from runrig.domain.pools import BudgetReached, Pool, PoolState, paused_through, top_level
from runrig.domain.records import Loaded
from runrig.domain.replacing import replace
from runrig.domain.workflows import Workflow
from runrig.engine.ledger.queue import Entry

Budget = tuple[int, BudgetReached]
"""A budget in GPU-hours, and what happens when it is reached."""


class Budgets:
    """*declared*: the budgets. *spent*: what is counted; a budget is in force once the server has said where counting begins
    (`SetSpent`). *uncounted*: those that are not in force yet. *gpus*: what is held now, where something is counted. *due*: when
    the server has something to say about a budget; it may be too early, never too late. *aside*: the pools and users whose pause or
    budget could not be changed when the server last tried (rule W8); not stored, as a new server tries again.
    """

    def __init__(self) -> None:
        self.declared: dict[Scope, Budget] = {}
        self.spent: dict[Scope, Spent] = {}
        self.uncounted: set[Scope] = set()
        self.gpus: Counter[Scope] = Counter()
        self.due: dict[Scope, float] = {}
        self.aside: set[Scope] = set()

    def load(self, loaded: Loaded, entries: Iterable[Entry]) -> None:
        """Takes over the rows of a state with these gangs."""
        for pool in loaded.pools:
            self.declare(PutPool(pool))
        for limits in loaded.limits:
            self.declare(PutLimits(limits, limits))
        for spent in loaded.spent:
            self.set(SetSpent(spent, 0), entries)

    def declare(self, action: Declaration) -> None:
        if isinstance(action, PutPool):
            self.aside.discard((Owner.POOL, action.pool.name))
        if declared := _declared(action):
            self._declare(*declared)

    def new(self, actions: Iterable[Action]) -> set[Scope]:
        """The budgets that are not in force yet, with those that *actions* declare."""
        declared = [each for each in map(_declared, actions) if each is not None]
        return self.uncounted | {
            scope for scope, budget, _ in declared if budget is not None and scope not in self.spent
        }

    def _declare(self, scope: Scope, budget: int | None, reached: BudgetReached) -> None:
        before = self.declared.pop(scope, None)
        if budget is not None:
            self.declared[scope] = budget, reached
        (self.uncounted.discard if budget is None or scope in self.spent else self.uncounted.add)(scope)
        if scope in self.spent and before != self.declared.get(scope):
            self.due[scope] = 0.0

    def note(self, action: OwnerMove, entries: Iterable[Entry]) -> tuple[Scope, ...]:
        """Returns the budgets whose count changes. *entries*: see `set`."""
        if isinstance(action, SetSpent):
            return (self.set(action, entries),)
        self.aside.add((action.of, action.name))
        return ()

    def set(self, action: SetSpent, entries: Iterable[Entry]) -> Scope:
        """*entries*: all gangs, which are counted if counting begins."""
        scope = action.spent.scope
        self.aside.discard(scope)
        if action.budget is None:
            del self.spent[scope], self.gpus[scope], self.due[scope]
            return scope
        if scope not in self.spent:
            self.gpus[scope] = sum(gpus_held(entry) for entry in entries if scope in scopes_of(entry))
        self.uncounted.discard(scope)
        self.spent[scope] = action.spent
        self.look_again(scope, action.spent.since)
        return scope

    def look_again(self, scope: Scope, now: float) -> None:
        """Sets when the count of *scope*, which is as it must be *now*, has to be looked at: where it renews, or is reached."""
        self.due[scope] = self._next(self.moved(scope, now))

    def _next(self, spent: Spent) -> float:
        renews, declared = next_month(month_of(spent.since)), self.declared.get(spent.scope)
        if declared is None:
            return 0.0
        reached = None if spent.stops else spent.reached_at(declared[0], self.gpus[spent.scope])
        return renews if reached is None else min(renews, reached)

    def before(self, entry: Entry | None) -> int:
        """The GPUs of the gang *entry*, if anything is counted: pass it to `count` once it has changed."""
        return gpus_held(entry) if self.spent else 0

    def count(self, entry: Entry | None, before: int, at: float) -> Iterator[Scope]:
        """The gang *entry*, which held *before* GPUs, has changed *at* that time. Yields the budgets whose count changes."""
        by = gpus_held(entry) - before if self.spent else 0
        for scope in scopes_of(entry) if entry is not None and by else ():
            if scope in self.spent:
                self.spent[scope] = self.moved(scope, at)
                self.gpus[scope] += by
                self.due[scope] = min(self.due[scope], self._next(self.spent[scope]))
                yield scope

    def moved(self, scope: Scope, at: float) -> Spent:
        """What is spent until *at*."""
        spent = self.spent[scope]
        return replace(spent, held=spent.until(at, self.gpus[scope]), since=at)

    def that_stop(self, pool: str, user: str, priority: Priority) -> Iterator[Spent]:
        """Yields the reached budgets that keep such work from starting. O(1)."""
        for scope in ((Owner.POOL, top_level(pool)), (Owner.USER, user)):
            spent = self.spent.get(scope)
            if spent is not None and (spent.stops is BudgetReached.STOP or (spent.stops and not priority.preemptible)):
                yield spent

    def keep_back(self, pools: Mapping[str, Pool], workflow: Workflow) -> bool:
        """Whether nothing of *workflow* starts: its pool is paused (rule S8), or a budget is reached. O(1)."""
        reached = self.that_stop(workflow.pool, workflow.submitted_by, workflow.priority)
        return paused_through(pools, workflow.pool) is not None or any(reached)


def _declared(action: Action) -> tuple[Scope, int | None, BudgetReached] | None:
    match action:
        case PutPool(pool) if pool.parent is None:
            budget = None if pool.state is PoolState.ARCHIVED else pool.budget
            return (Owner.POOL, pool.name), budget, pool.budget_reached or BudgetReached.STOP
        case PutLimits(limits):
            return (Owner.USER, limits.user), limits.budget, BudgetReached.STOP
    return None


def scopes_of(entry: Entry) -> tuple[Scope, Scope]:
    return (Owner.POOL, top_level(entry.gang.pool)), (Owner.USER, entry.user)


def gpus_held(entry: Entry | None) -> int:
    """The GPUs that a gang holds, from its start until its end."""
    return entry.gang.gpus([each.count for each in entry.placement]) if entry is not None and entry.held else 0
