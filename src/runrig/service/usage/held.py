"""GPU-hours that pools and users have held in this month: where the counting of a new budget begins (rule W7)."""

import logging
from collections import Counter
from collections.abc import Collection

from runrig.domain.budgets import HeldBefore, Owner, Scope, month_of
from runrig.domain.pools import top_level
from runrig.domain.usage import COLUMNS, HOUR_S, MICROSECONDS, WORK
from runrig.ports.usage import SumsQuery, UsageStore
from runrig.service.usage.follower import Follower
from runrig.service.usage.summed import summed

MOST_STEPS = 50
"""Parts of the log that are folded for a new budget. If there are more, it is not in force before the follower has caught up."""

_log = logging.getLogger(__name__)

_HELD = COLUMNS[WORK].index("held")


def held_so_far(store: UsageStore, follower: Follower, scopes: Collection[Scope]) -> HeldBefore | None:
    """Returns what *scopes* have held, as far as usage is known; None: too much of the log is not folded yet, or it cannot be."""
    try:
        behind = all(follower.step() for _ in range(MOST_STEPS))
        return None if behind else _held(store, follower, scopes)
    except Exception as error:  # noqa: BLE001 - work must start although usage cannot be read; the follower tries again
        _log.warning("event=budget_uncounted error=%r", error)
        return None


def _held(store: UsageStore, follower: Follower, scopes: Collection[Scope]) -> HeldBefore | None:
    with follower.lock:
        known = follower.open_hours()
        if known is None:
            return None
        until = known[1] / MICROSECONDS
        begin, end = int(month_of(until)), int(until // HOUR_S + 1) * HOUR_S
        found: Counter[Scope] = Counter()
        for of in sorted({of for of, _ in scopes}):
            names = tuple(sorted(name for owner, name in scopes if owner == of))
            pools, users = (names, ()) if of == Owner.POOL else ((), names)
            others = {"user": users} if users else {}
            for _, (name,), sums in summed(store, known[0], SumsQuery(WORK, begin, end, (of,), None, pools, others)):
                found[of, top_level(name) if of == Owner.POOL else name] += sums[_HELD]
    return HeldBefore(until, {scope: found[scope] for scope in scopes})
