"""Limits of the GPUs that one user uses at the same time, in a pool and over all pools (rule W6).

Nominated, running and stopping gangs count, with the pods that were admitted, until they end. So a gang that its user's
limit stops is never worth a preemption, and an actual amount is never above the limit.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from runrig.domain.limits import EVERYWHERE, Limits
from runrig.domain.pools import Pool, top_level
from runrig.domain.quantities import LARGEST
from runrig.engine.ledger.queue import Entry

Holder = tuple[str, str]
"""Top-level pool, or `EVERYWHERE`, and user."""


@lru_cache(maxsize=100_000)
def holders_of(pool: str, user: str) -> tuple[Holder, Holder]:
    return (top_level(pool), user), (EVERYWHERE, user)


class UserLimits:
    """*declared*: the limits of users who have any. *placed*: the gangs that count."""

    def __init__(self, placed: Mapping[str, Entry]) -> None:
        self.declared: dict[str, Limits] = {}
        self._placed = placed
        self._held: Counter[Holder] | None = None

    @property
    def held(self) -> Counter[Holder]:
        """The GPUs of each holder, also where no limit applies. O(gangs) for the first call, then kept up to date."""
        if self._held is None:
            self._held = Counter()
            for entry in self._placed.values():
                self.count(entry, 1)
        return self._held

    def put(self, limits: Limits) -> None:
        if limits.none:
            self.declared.pop(limits.user, None)
        else:
            self.declared[limits.user] = limits

    def limits_of(self, user: str) -> Limits:
        """The limits of *user* over all pools."""
        return self.declared.get(user) or Limits(user=user)

    def count(self, entry: Entry, by: int) -> tuple[Holder, ...]:
        """Adds *by* times the GPUs of the placement of *entry*. Returns whose GPUs are counted. O(pod sets)."""
        held = self._held
        if held is None:
            return ()
        holders = holders_of(entry.gang.pool, entry.user)
        gpus = by * entry.gang.gpus([each.count for each in entry.placement])
        for holder in holders if gpus else ():
            left = held.get(holder, 0) + gpus
            if left:
                held[holder] = left
            else:
                del held[holder]
        return holders

    def of(self, pool: Pool, user: str) -> Iterator[tuple[Holder, int]]:
        """Yields the limits of *user* in *pool*, each with what it counts. O(1)."""
        if pool.user_gpus is not None:
            yield (top_level(pool.name), user), pool.user_gpus
        own = self.declared.get(user)
        if own is not None and own.gpus is not None:
            yield (EVERYWHERE, user), own.gpus

    def exceeded(self, pool: Pool, user: str, need: int) -> Iterator[tuple[Holder, int]]:
        """Yields those of `of` that *need* more GPUs would exceed."""
        return ((holder, limit) for holder, limit in self.of(pool, user) if need > self.left(holder, limit))

    def left(self, holder: Holder, limit: int) -> int:
        """How many more GPUs *limit* allows; negative if it was lowered."""
        return limit - self.held[holder]

    def room(self, pool: Pool, user: str) -> int:
        """How many more GPUs *user* may hold in *pool*; `LARGEST` without a limit."""
        return min((self.left(*each) for each in self.of(pool, user)), default=LARGEST)
