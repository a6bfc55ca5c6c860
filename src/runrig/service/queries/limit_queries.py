"""Limits of users, with what counts towards them (rules W6, W7). O(users who hold GPUs or wait)."""

from collections.abc import Collection, Iterator, Mapping

from runrig.domain.access import Permission, allows
from runrig.domain.budgets import HOUR, Owner, Scope, month_of, next_month
from runrig.domain.limits import EVERYWHERE, LimitValues
from runrig.domain.pools import Pool, PoolState, top_level
from runrig.domain.shown.limits import Limit, LimitKind
from runrig.domain.value import at
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Transactor


class LimitQueries:
    def __init__(self, transactor: Transactor, clock: Clock) -> None:
        self._transactor = transactor
        self._clock = clock

    def limits(
        self, visibility: Visibility, *, users: Collection[str] = (), pools: Collection[str] = ()
    ) -> list[Limit]:
        """Returns the limits that the asker may see, in the order of `place`: their own, those of the pools that they see, and
        those of others where they are an administrator.

        *users*: only theirs, also where they use nothing. *pools*: only those of these pools, not those over all pools.
        """
        tops, now = {top_level(name) for name in pools}, self._clock.now()
        with self._transactor.reading() as state:
            found = [] if pools else [*_over_all(state, visibility, users, now)]
            for pool in state.pools.values():
                there = pool.parent is None and pool.state is not PoolState.ARCHIVED and visibility.sees(pool.name)
                if there and (not pools or pool.name in tops):
                    found += _of_pool(state, pool, visibility, users, now)
        return sorted(found, key=place)

    def budget(self, pool: Pool) -> Limit | None:
        """Returns the budget of the top-level *pool*; None: it has none."""
        with self._transactor.reading() as state:
            scope, now = (Owner.POOL, pool.name), self._clock.now()
            return None if pool.budget is None else _budget(state, scope, pool.budget, now)

    def users(self) -> Collection[str]:
        """Returns the users who have limits over all pools."""
        with self._transactor.reading() as state:
            return tuple(state.ledger.users.declared)


def place(limit: Limit) -> tuple[str, str, str]:
    return limit.user or "", limit.pool or "", str(limit.limit)


def above(
    state: State, values: LimitValues, pool: str | None, users: Collection[str] = (), *, now: float
) -> tuple[Limit, ...]:
    """Returns who uses more than *values* allow, of *users* or of all: in a top-level pool, or over all pools (None)."""
    found: list[Limit] = []
    for kind, most in _each(values):
        if kind is LimitKind.BUDGET:
            scope = (Owner.USER, *users) if pool is None else (Owner.POOL, pool)
            budget = _budget(state, (scope[0], scope[1]), most, now)
            found += [budget] if budget.used is not None and budget.used > most else []
            continue
        counts = _used(state, kind, pool or EVERYWHERE)
        over = {user: used for user, used in counts.items() if used > most and (not users or user in users)}
        found += [Limit(user, pool, kind, most, used) for user, used in over.items()]
    return tuple(sorted(found, key=place))


def _over_all(state: State, visibility: Visibility, users: Collection[str], now: float) -> Iterator[Limit]:
    who = visibility.identity
    for user, declared in state.ledger.users.declared.items():
        if (not users or user in users) and (visibility.everything or (who is not None and who.user == user)):
            for kind, most in _each(LimitValues.of(declared)):
                if kind is LimitKind.BUDGET:
                    yield _budget(state, (Owner.USER, user), most, now)
                    continue
                counts = _used(state, kind, EVERYWHERE)
                used = None if kind is LimitKind.GPUS_PER_WORKFLOW else counts.get(user, 0)
                yield Limit(user, None, kind, most, used)


def _of_pool(state: State, pool: Pool, visibility: Visibility, users: Collection[str], now: float) -> Iterator[Limit]:
    who = visibility.identity
    all_users = visibility.everything or (who is not None and allows(who, Permission.CHANGE_POOL, pool=pool.name))
    for kind, most in _each(LimitValues.of_pool(pool)):
        if kind is LimitKind.BUDGET:
            yield _budget(state, (Owner.POOL, pool.name), most, now)
            continue
        if kind is LimitKind.GPUS_PER_WORKFLOW or not users:
            yield Limit(None, pool.name, kind, most, None)
        counts = _used(state, kind, pool.name)
        for user in sorted({*counts, *users}) if kind is not LimitKind.GPUS_PER_WORKFLOW else ():
            seen = all_users or (who is not None and who.user == user)
            if seen and (not users or user in users):
                yield Limit(user, pool.name, kind, most, counts.get(user, 0))


def _budget(state: State, scope: Scope, most: int, now: float) -> Limit:
    of, name = scope
    used = state.budgets.moved(scope, now).held // HOUR if scope in state.budgets.spent else None
    user, pool = (None, name) if of == Owner.POOL else (name, None)
    return Limit(user, pool, LimitKind.BUDGET, most, used, at(next_month(month_of(now))))


def _each(values: LimitValues) -> Iterator[tuple[LimitKind, int]]:
    for kind in LimitKind:
        most: int | None = getattr(values, kind.value)
        if most is not None:
            yield kind, most


def _used(state: State, kind: LimitKind, pool: str) -> Mapping[str, int]:
    """User → what counts towards a limit of *kind* in *pool*, or `EVERYWHERE`."""
    if kind is LimitKind.GPUS_PER_WORKFLOW:
        return {}
    counted = state.ledger.users.held if kind is LimitKind.GPUS else state.waiting
    return {user: amount for (where, user), amount in counted.items() if where == pool and amount}
