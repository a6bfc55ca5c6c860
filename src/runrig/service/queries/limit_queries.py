"""Limits of users, with what counts towards them (rule W6). O(users who hold GPUs or wait)."""

from collections.abc import Collection, Iterator, Mapping

from runrig.domain.access import Permission, allows
from runrig.domain.limits import EVERYWHERE, LimitValues
from runrig.domain.pools import Pool, PoolState, top_level
from runrig.domain.shown.limits import Limit, LimitKind
from runrig.engine.state.state import State
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Transactor


class LimitQueries:
    def __init__(self, transactor: Transactor) -> None:
        self._transactor = transactor

    def limits(
        self, visibility: Visibility, *, users: Collection[str] = (), pools: Collection[str] = ()
    ) -> list[Limit]:
        """Returns the limits that the asker may see, in the order of `place`: their own, those of the pools that they see, and
        those of others where they are an administrator.

        *users*: only theirs, also where they use nothing. *pools*: only those of these pools, not those over all pools.
        """
        tops = {top_level(name) for name in pools}
        with self._transactor.reading() as state:
            found = [] if pools else [*_over_all(state, visibility, users)]
            for pool in state.pools.values():
                there = pool.parent is None and pool.state is not PoolState.ARCHIVED and visibility.sees(pool.name)
                if there and (not pools or pool.name in tops):
                    found += _of_pool(state, pool, visibility, users)
        return sorted(found, key=place)

    def users(self) -> Collection[str]:
        """Returns the users who have limits over all pools."""
        with self._transactor.reading() as state:
            return tuple(state.ledger.users.declared)


def place(limit: Limit) -> tuple[str, str, str]:
    return limit.user or "", limit.pool or "", str(limit.limit)


def above(state: State, values: LimitValues, pool: str | None, users: Collection[str] = ()) -> tuple[Limit, ...]:
    """Returns who uses more than *values* allow, of *users* or of all: in a top-level pool, or over all pools (None)."""
    found: list[Limit] = []
    for kind, most in _each(values):
        counts = _used(state, kind, pool or EVERYWHERE)
        over = {user: used for user, used in counts.items() if used > most and (not users or user in users)}
        found += [Limit(user, pool, kind, most, used) for user, used in over.items()]
    return tuple(sorted(found, key=place))


def _over_all(state: State, visibility: Visibility, users: Collection[str]) -> Iterator[Limit]:
    who = visibility.identity
    for user, declared in state.ledger.users.declared.items():
        if (not users or user in users) and (visibility.everything or (who is not None and who.user == user)):
            for kind, most in _each(LimitValues.of(declared)):
                counts = _used(state, kind, EVERYWHERE)
                used = None if kind is LimitKind.GPUS_PER_WORKFLOW else counts.get(user, 0)
                yield Limit(user, None, kind, most, used)


def _of_pool(state: State, pool: Pool, visibility: Visibility, users: Collection[str]) -> Iterator[Limit]:
    who = visibility.identity
    all_users = visibility.everything or (who is not None and allows(who, Permission.CHANGE_POOL, pool=pool.name))
    for kind, most in _each(LimitValues.of_pool(pool)):
        if kind is LimitKind.GPUS_PER_WORKFLOW or not users:
            yield Limit(None, pool.name, kind, most, None)
        counts = _used(state, kind, pool.name)
        for user in sorted({*counts, *users}) if kind is not LimitKind.GPUS_PER_WORKFLOW else ():
            seen = all_users or (who is not None and who.user == user)
            if seen and (not users or user in users):
                yield Limit(user, pool.name, kind, most, counts.get(user, 0))


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
