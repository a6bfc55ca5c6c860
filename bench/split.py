"""The parts of the time of Q1_admit10k: the parts of a decision, each run alone on the same 10,000 gangs.

The rest is the loop between them: generators, calls, dispatch on the kind of decision, the gang's own record.
"""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

from bench.timing import Times, timed
from bench.world import gang, queue, thousand_pools
from runrig.domain.gangs import Assignment, Priority
from runrig.domain.plan import Admit, Release
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry, Pass
from runrig.engine.quota.quota_node import CHARGED, REAL, add, fits
from runrig.engine.scheduling.queue_order import QueueHeads

GANGS = 10_000


class Part(NamedTuple):
    name: str
    times: Times


def parts(runs: int) -> Iterator[Part]:
    yield Part("queue: draw the next in order, and remove it", timed(lambda: _alone(_draw), runs))
    yield Part("flavors: list them, look up the request", timed(lambda: _alone(_choose), runs))
    yield Part("tree: does it fit", timed(lambda: _alone(_fit), runs))
    yield Part("tree: hold it in both layers", timed(lambda: _alone(_hold), runs))
    yield Part("values: the action", timed(lambda: _alone(_make), runs))


def _alone(part: Callable[[Ledger], None]) -> float:
    ledger, pools = thousand_pools()
    queue(ledger, (gang(f"w{each:05}", pools[each % 1000], Priority.NORMAL, each) for each in range(GANGS)))
    start = perf_counter()
    part(ledger)
    return perf_counter() - start


def _draw(ledger: Ledger) -> None:
    """The same ten rounds of a thousand heads.  For a waiting gang, *Release* is the same as removing it."""
    for _ in range(10):
        for entry in QueueHeads(ledger.sleepers, list(ledger.sleepers.awake), Pass.FIRM):
            ledger.apply(Release(entry.gang.id), 0)


def _asks(ledger: Ledger) -> Iterator[tuple[Entry, int]]:
    """Each gang, and how many flavors are tried for it: the first is full for two of a pool's ten."""
    for at, entry in enumerate(ledger.entries.values()):
        yield entry, 2 if at >= 8000 else 1


def _choose(ledger: Ledger) -> None:
    for entry, tries in _asks(ledger):
        for _ in zip(range(tries), options(ledger, entry, entry.bucket.counts), strict=False):
            pass


def _fit(ledger: Ledger) -> None:
    request = _request(ledger)
    for entry, tries in _asks(ledger):
        leaf = ledger.leaf(entry)
        for _ in range(tries):
            fits(leaf, request)


def _hold(ledger: Ledger) -> None:
    request = _request(ledger)
    for entry in ledger.entries.values():
        leaf = ledger.leaf(entry)
        add(leaf, request, CHARGED)
        add(leaf, request, REAL)


def _make(ledger: Ledger) -> None:
    placement = (Assignment("main", "a100", 1),)
    for name in ledger.entries:
        Admit(name, placement)


def _request(ledger: Ledger) -> tuple[tuple[int, int], ...]:
    entry = next(iter(ledger.entries.values()))
    _, request = next(iter(options(ledger, entry, entry.bucket.counts)))
    return request
