"""Pools that are closed to submissions, and opened again (rule S7)."""

from dataclasses import replace

from runrig.domain.errors import Conflict, InvalidInput
from runrig.domain.plan import Plan, PutPool
from runrig.domain.pools import Pool, PoolState
from runrig.domain.settings import LONGEST_TEXT
from runrig.engine.lifecycle import subpools
from runrig.engine.state.state import State


def close(state: State, name: str, *, user: str, now: float, reason: str = "") -> Plan:
    """Closes the pool and its subpools to submissions; queued work still starts (rule S7).

    *now*: in seconds since the epoch. Raises NotFound, Conflict unless the pool is ACTIVE and open, InvalidInput for the
    reason.
    """
    pool = _active(state, name)
    if pool.closed_by is not None:
        raise Conflict(f"pool {name} was already closed by {pool.closed_by}. Reopen it with `runrig pool open {name}`")
    check_reason(reason)
    return Plan((PutPool(replace(pool, closed_by=user, closed_since=now, closed_reason=reason), pool),))


def open_again(state: State, name: str) -> Plan:
    """Undoes `close`; an empty plan if the pool is open.

    Raises NotFound, and Conflict if the pool is not ACTIVE or is closed through its parent.
    """
    pool = _active(state, name)
    if pool.closed_by is None:
        parent = state.pools.get(pool.parent or "")
        if parent is not None and parent.closed_by is not None:
            raise Conflict(
                f"pool {name} is closed through its parent {parent.name}. Reopen both with `runrig pool open {parent.name}`"
            )
        return Plan()
    return Plan((PutPool(replace(pool, closed_by=None, closed_since=None, closed_reason=""), pool),))


def check_reason(reason: str) -> None:
    """Raises InvalidInput unless *reason* is one printable line."""
    if len(reason) > LONGEST_TEXT or not reason.isprintable():
        raise InvalidInput.one(f"the reason must be one line of at most {LONGEST_TEXT} printable characters", "reason")


def _active(state: State, name: str) -> Pool:
    pool = subpools.existing(state.pools, name)
    if pool.state is not PoolState.ACTIVE:
        raise Conflict(
            f"pool {name} is {pool.state.value}: it accepts no submissions, so it cannot be closed or opened"
        )
    return pool
