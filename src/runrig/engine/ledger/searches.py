"""How far searches went, for the log (docs/event-export.md). No decision depends on it."""

from collections.abc import Iterator
from typing import NamedTuple

from runrig.engine.ledger.queue import Bucket


class Searched(NamedTuple):
    """*domains*: searched for gangs to stop. *sets*: of these gangs, tried with a placement. *limits*: how often a search reached one."""

    domains: int = 0
    sets: int = 0
    limits: int = 0


class Searches:
    """Counters of all searches so far. *nominations*: gang → the search for its nomination."""

    def __init__(self) -> None:
        self.domains = self.sets = self.limits = 0
        self.nominations: dict[str, Searched] = {}
        self._unproven: dict[Bucket, None] = {}

    def so_far(self) -> Searched:
        return Searched(self.domains, self.sets, self.limits)

    def since(self, before: Searched) -> Searched:
        return Searched(self.domains - before.domains, self.sets - before.sets, self.limits - before.limits)

    def found(self, bucket: Bucket, before: Searched, *, start: bool) -> None:
        """The head of *bucket* was evaluated. *before*: the counters then. *start*: it can start or be nominated."""
        if not start and self.limits != before.limits:
            self._unproven[bucket] = None
        elif self._unproven:
            self._unproven.pop(bucket, None)

    def unproven(self) -> Iterator[str]:
        """Yields the heads for which the last search found no start but reached its limit."""
        for bucket in [*self._unproven]:
            if bucket.waiting:
                yield bucket.waiting[0].gang.id
            else:
                del self._unproven[bucket]
