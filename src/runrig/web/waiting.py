"""Pending workflows by pool, with the first blocker of each.

Finding the reasons costs the engine work. So a thread does that pool by pool, and pages show what is known, after a
short wait at most.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.errors import NotFound, RunrigError
from runrig.domain.reasons import CLOSEST
from runrig.domain.shown.why import PoolWhy, WaitingAlike
from runrig.service.past.past import Then
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service

FIRST_S, WAIT_S = 2.0, 0.25
"""Seconds that a page waits for new and for outdated reasons."""
REST = 3.0
"""The thread pauses this many times as long as an answer took, up to LONGEST_REST_S, because others need the interpreter."""
LONGEST_REST_S = 1.0
OLD_S = 60.0
"""Seconds after which answers are no longer shown."""
MOST_KEPT = 2_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Card:
    """One blocker of a pool, and its pending workflows. *age_s*: seconds since the reasons were outdated; 0 if current."""

    pool: str
    held: WaitingAlike
    age_s: int = 0

    @property
    def law(self) -> str:
        return self.held.reason.law

    @property
    def part(self) -> int:
        """Returns the available part of the need, in percent."""
        reason = self.held.reason
        return 0 if reason.need <= 0 else max(0, min(100, 100 * reason.have // reason.need))

    @property
    def sentence(self) -> str:
        return self.held.reason.sentence.partition(CLOSEST)[0]


class _Known(NamedTuple):
    """*found* None: the pool was deleted. *revision*: the last commit when it was requested, *at*: time of the request."""

    found: PoolWhy | None
    revision: int
    at: float


Whys = list[tuple[PoolWhy, int]]
"""The waiting gangs of each pool with their reasons, and for how many seconds these have been outdated."""


def why_cards(whys: Whys) -> list[Card]:
    """Returns the cards of each pool, in order, the most frequent blocker of each first."""
    return [Card(why.pool, held, age_s) for why, age_s in whys for held in why.held]


def _asked(views: Service | Then, pool: str, visibility: Visibility) -> PoolWhy | None:
    try:
        return views.workflow_queries.pool_why(pool, visibility)
    except NotFound:
        return None


_Key = tuple[str, tuple[str, ...] | None]
"""A pool, and the visible top-level pools; None: all."""


class Reasons:
    """Answers are shared by users with the same visibility. Its thread ends when there is nothing to compute. Thread-safe."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._news = threading.Condition()
        self._kept: OrderedDict[_Key, _Known] = OrderedDict()
        self._wanted: OrderedDict[_Key, Visibility] = OrderedDict()
        self._at_work = False

    def whys(self, pools: Sequence[str], visibility: Visibility) -> Whys:
        """Returns what is known of *pools*, in order; deleted and unknown ones are left out."""
        found = (known for known in self._known(pools, visibility) if known is not None)
        return [(known.found, self._age_s(known)) for known in found if known.found is not None]

    def _known(self, pools: Sequence[str], visibility: Visibility) -> list[_Known | None]:
        keys: list[_Key] = [(pool, None if visibility.whole else visibility.tops) for pool in pools]
        with self._news:
            wanted = [key for key in keys if not self._is_new(key)]
            self._want(wanted, visibility)
            first = any(key not in self._kept for key in wanted)
            self._news.wait_for(lambda: not any(key in self._wanted for key in wanted), FIRST_S if first else WAIT_S)
            return [self._kept.get(key) for key in keys]

    def _is_new(self, key: _Key) -> bool:
        known = self._kept.get(key)
        if known is not None and known.revision != self._service.stored and self._age_s(known) > OLD_S:
            del self._kept[key]
        return known is not None and known.revision == self._service.stored

    def _age_s(self, known: _Known) -> int:
        current = known.revision == self._service.stored
        return 0 if current else int(time.monotonic() - known.at)

    def _want(self, keys: Sequence[_Key], visibility: Visibility) -> None:
        self._wanted |= {key: visibility for key in keys if key not in self._wanted}
        if self._wanted and not self._at_work:
            self._at_work = True
            threading.Thread(target=self._work, name="reasons", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._news:
                if not self._wanted:
                    self._at_work = False
                    return
                key, visibility = next(iter(self._wanted.items()))
            began, revision = time.monotonic(), self._service.stored
            try:
                known = _asked(self._service, key[0], visibility)
            except Exception as error:  # noqa: BLE001 - pages keep showing the old answer, and it is retried
                level = logging.DEBUG if isinstance(error, RunrigError) else logging.ERROR
                _log.log(level, "event=reasons_failed pool=%s", key[0], exc_info=error)
            else:
                self._keep(key, _Known(known, revision, began))
            with self._news:
                del self._wanted[key]
                self._news.notify_all()
            time.sleep(min(REST * (time.monotonic() - began), LONGEST_REST_S))

    def _keep(self, key: _Key, known: _Known) -> None:
        with self._news:
            self._kept[key] = known
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)


def whys_of(views: Service | Then, reasons: Reasons, pools: Sequence[str], visibility: Visibility) -> Whys:
    """Returns what is known of *pools*: from *reasons*, or for an earlier time computed on demand."""
    if not isinstance(views, Then):
        return reasons.whys(pools, visibility)
    found = (_asked(views, pool, visibility) for pool in pools)
    return [(why, 0) for why in found if why is not None]
