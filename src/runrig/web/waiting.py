"""What waits, pool by pool, with the first blocker of each.

To find out why costs the engine work, so an answer is kept for a few seconds and shown to all who see as much.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from runrig.api.v1.answers.workflows import pool_why
from runrig.domain.errors import NotFound
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.wire import v1

KEPT_S = 5.0
MOST_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class Card:
    """One blocker of a pool, and who waits for it."""

    pool: str
    held: v1.Held

    @property
    def law(self) -> str:
        return self.held.reason.law

    @property
    def part(self) -> int:
        """How much of what is needed is there, in hundredths."""
        reason = self.held.reason
        return 0 if reason.need <= 0 else max(0, min(100, 100 * reason.have // reason.need))

    @property
    def sentence(self) -> str:
        return self.held.reason.sentence.partition(". The best: ")[0]


class Reasons:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, tuple[str, ...] | None], tuple[float, v1.PoolWhy]] = OrderedDict()

    def of(self, pool: str, visibility: Visibility) -> v1.PoolWhy | None:
        """None: the pool is gone by now."""
        key = (pool, None if visibility.whole else visibility.tops)
        with self._lock:
            at, found = self._kept.get(key, (0.0, None))
        if found is not None and time.monotonic() - at < KEPT_S:
            return found
        try:
            found = pool_why(self._service.workflow_queries.pool_why(pool, visibility))
        except NotFound:
            return None
        with self._lock:
            self._kept[key] = (time.monotonic(), found)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def cards(self, pools: Sequence[str], visibility: Visibility) -> list[Card]:
        """Returns the cards of *pools*, in their order, the most frequent blocker of each first."""
        answers = [(pool, self.of(pool, visibility)) for pool in pools]
        return [Card(pool, held) for pool, answer in answers if answer is not None for held in answer.held]
