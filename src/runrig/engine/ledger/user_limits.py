"""Limits of the GPUs that one user holds at the same time (rule W6).

Nominated, running and stopping gangs count, with the pods that were admitted, until they end. So a gang that its user's
limit stops is never worth a preemption, and an actual amount is never above the limit.
"""

from collections import Counter
from collections.abc import Iterator

from runrig.domain.gangs import Gang, Placement
from runrig.domain.pools import Pool, top_level
from runrig.domain.quantities import LARGEST

Holder = tuple[str, str]
"""Top-level pool and user."""


class UserLimits:
    """*held*: the GPUs of each holder, also where no limit applies."""

    def __init__(self) -> None:
        self.held: Counter[Holder] = Counter()

    def count(self, gang: Gang, user: str, placement: Placement, by: int) -> Holder:
        """Adds *by* times the GPUs of *placement*. O(pod sets)."""
        holder = top_level(gang.pool), user
        self.held[holder] += by * gang.gpus([each.count for each in placement])
        if not self.held[holder]:
            del self.held[holder]
        return holder

    def of(self, pool: Pool, user: str) -> Iterator[tuple[Holder, int]]:
        """Yields the limits of *user* in *pool*, each with what it counts."""
        if pool.user_gpus is not None:
            yield (top_level(pool.name), user), pool.user_gpus

    def left(self, holder: Holder, limit: int) -> int:
        """How many more GPUs *limit* allows; negative if it was lowered."""
        return limit - self.held[holder]

    def room(self, pool: Pool, user: str) -> int:
        """How many more GPUs *user* may hold in *pool*; `LARGEST` without a limit."""
        return min((self.left(*each) for each in self.of(pool, user)), default=LARGEST)
