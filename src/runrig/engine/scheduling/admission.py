"""The decisions of one cycle over everything that waits (laws P4, P5, R4, A1).

1. Nominated gangs start once their targets are gone; if their nodes went away, they wait again.
2. HIGH and NORMAL, in order: start; else preempt and be nominated.
3. LOW that stays within its pool's nominal, in order: start.
4. LOW that borrows, in order (where weights differ: by share): start.

Yields decisions.  The caller applies each to the ledger before it asks for the next.  None: what was decided so far is complete,
and a cycle may be cut here (`engine.cycle`); the more of them, the longer the look at a gang took.
"""

from collections.abc import Generator, Iterator, Set
from itertools import repeat

from runrig.domain.errors import At, FailedAt
from runrig.domain.gangs import Gang, Placement
from runrig.domain.plan import Admit, Decision, Nominate, Preempt, Withdraw
from runrig.domain.pools import Queueing
from runrig.engine.ledger.fit import find_place, starts_now, with_gpus
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Bucket, Entry, Pass, in_order
from runrig.engine.placement.constraint_tree import holds_on
from runrig.engine.placement.partial import largest
from runrig.engine.preemption.targets import Targets, find_targets
from runrig.engine.scheduling.barriers import put_to_sleep
from runrig.engine.scheduling.put_off import is_promised, may_start
from runrig.engine.scheduling.queue_order import (
    HeadsByShare,
    QueueHeads,
    borrowing_heads,
    low_heads,
    would_borrow,
)

EFFORT_PER_STEP = 25
"""So much effort (`Ledger.effort`) is as long as a look at a gang that does not fit, or no longer."""

DRAWN_PER_STEP = 16
"""So many gangs that are drawn, whatever becomes of them, are as long as a look at one."""


def decide(ledger: Ledger, *, heads_per_pool: int | None = None) -> Generator[Decision | None, None, None]:
    """Yields everything that can be decided now, and behind each gang that was looked at None, several times after a long search.

    *heads_per_pool*: how many gangs of a pool are tried; None tries all.
    """
    yield from _nominated(ledger)
    looked = _Looked(ledger, heads_per_pool)
    _ = ledger.tree  # brought up to date first: one that is built anew wakes everybody
    firm = [bucket for bucket in ledger.sleepers.awake if bucket.firm]
    put_off = may_start(ledger, firm=True)
    if firm or put_off:  # their searches need all candidates; where many have come, that is a part of its own
        yield from repeat(None, ledger.candidates.refresh() // EFFORT_PER_STEP)
    yield from _firm(ledger, QueueHeads(ledger.sleepers, [*firm, *put_off], Pass.FIRM), looked, set(put_off))
    borrowing: list[Bucket] = []
    yield from _low(ledger, low_heads(ledger), looked, borrowing)
    yield from _low(ledger, borrowing_heads(ledger, borrowing), looked, None)


class _Looked:
    """Knows which gangs this cycle skips untried: refused ones, and those behind the head of a STRICT_FIFO pool.

    Buckets of such a pool do not sleep, because who heads it counts whether it is tried or not; they remember that they failed.
    """

    def __init__(self, ledger: Ledger, heads_per_pool: int | None) -> None:
        self._ledger = ledger
        self._most = heads_per_pool
        self._count: dict[str, int] = {}
        self._closed = strict_and_waiting(ledger)

    def skips(self, entry: Entry, turn: Pass) -> bool:
        pool = entry.bucket.pool
        if pool in self._closed or entry.bucket.asleep is not None:
            return True
        if entry.gang.refused or entry.bucket.parked == self._ledger.sleepers.changes:
            self.failed(entry, turn)
            return True
        if self._most is not None:
            seen = self._count[pool] = self._count.get(pool, 0) + 1
            return seen > self._most
        return False

    def enough_of(self, pool: str) -> bool:
        """True if this cycle has tried as many gangs of *pool* as it may."""
        return self._most is not None and self._count[pool] >= self._most

    def failed(self, entry: Entry, turn: Pass) -> None:
        """The bucket of *entry* is left alone until something that it lacks may be there: all of it would get the same answer."""
        if self._ledger.pools[entry.gang.pool].queueing is Queueing.STRICT_FIFO:
            self._ledger.sleepers.park(entry.bucket)
            self._closed.add(entry.gang.pool)
        else:
            put_to_sleep(self._ledger, entry, turn)


def strict_and_waiting(ledger: Ledger) -> set[str]:
    """STRICT_FIFO pools whose head has a place but has not started: nobody may pass it (law P4)."""
    waiting = {entry.gang.pool for entry in ledger.nominated.values()}
    return {pool for pool in waiting if ledger.pools[pool].queueing is Queueing.STRICT_FIFO}


def _nominated(ledger: Ledger) -> Iterator[Decision | None]:
    for entry in sorted(ledger.nominated.values(), key=in_order):
        with At(entry.gang.workflow):
            step = next_step(ledger, entry)
        if step is not None:
            yield step
        yield None


def next_step(ledger: Ledger, entry: Entry) -> Admit | Withdraw | None:
    """Returns what becomes of *entry*, which is nominated, as things stand; None: it goes on waiting for its targets."""
    if ledger.place and not _nodes_stand(ledger, entry):
        return Withdraw(entry.gang.id)
    if starts_now(ledger, entry):
        return _admit(ledger, entry.gang, entry.placement)
    if len(ledger.unclaimed) == len(ledger.stopping):
        return Withdraw(entry.gang.id)  # an edit took what it was promised, and no target is left to wait for
    return None


def _nodes_stand(ledger: Ledger, entry: Entry) -> bool:
    """True if every node of its placement still exists, takes new pods, has the granted flavor and lies in the required domain."""
    if not all(
        ledger.nodes.takes(share.node, assignment.flavor)
        for assignment in entry.placement
        for share in assignment.shares
    ):
        return False
    constraints = ledger.constraints(entry, tuple(assignment.count for assignment in entry.placement))
    nodes = [[share.node for share in assignment.shares for _ in range(share.count)] for assignment in entry.placement]
    return constraints is not None and holds_on(constraints, ledger.nodes.topology(constraints.labels), nodes)


def _firm(ledger: Ledger, heads: QueueHeads, looked: _Looked, put_off: Set[Bucket]) -> Iterator[Decision | None]:
    """Starts firm work, or nominates it.  The buckets of *put_off*, which are among *heads*, sleep until their turn: then those wake
    for which something is left of their promise.
    """
    for drawn, entry in enumerate(heads, start=1):
        if drawn % DRAWN_PER_STEP == 0:
            yield None
        if entry.bucket in put_off and is_promised(ledger, entry.bucket):
            ledger.sleepers.wake(entry.bucket)
        if looked.skips(entry, Pass.FIRM):
            continue
        before = _effort(ledger)
        with At(entry.gang.workflow):
            found = look_at(ledger, entry)
        if found is None:
            looked.failed(entry, Pass.FIRM)
            yield from _steps(ledger, before)
            continue
        if isinstance(found, Targets):
            yield Nominate(entry.gang.id, found.placement, found.gangs)
            for target in found.targets:
                yield Preempt(target.gang, entry.gang.id, target.law, target.spared)
            if ledger.pools[entry.gang.pool].queueing is Queueing.STRICT_FIFO:
                looked.failed(entry, Pass.FIRM)
        else:
            yield _admit(ledger, entry.gang, found)
        if not looked.enough_of(entry.bucket.pool):
            heads.next_of(entry.bucket)
        yield from _steps(ledger, before)


def _effort(ledger: Ledger) -> int:
    """Grows with what a look does beside trying one gang: a search for targets, and tables of nodes that nobody needed before."""
    return ledger.effort + ledger.nodes.indexed


def _steps(ledger: Ledger, before: int) -> Iterator[None]:
    """A look has ended; *before*: the effort when it began."""
    return repeat(None, 1 + (_effort(ledger) - before) // EFFORT_PER_STEP)


Start = Placement | Targets
"""How a gang may start: at once in a placement, or after targets have left it."""


def look_at(ledger: Ledger, entry: Entry) -> Start | None:
    """How *entry*, which waits, would start if its turn were now; None if it cannot.  The ledger stays as it is.

    Tries the full gang now, for HIGH and NORMAL also by preemption, then smaller gangs, largest first (law A1).
    """

    def attempt(counts: tuple[int, ...]) -> Start | None:
        placement = find_place(ledger, entry, counts)
        return find_targets(ledger, entry, counts) if placement is None else placement

    found = attempt(entry.bucket.counts)
    if found is None:
        found = largest(entry.gang.pod_sets, attempt)
    return found


def _low(
    ledger: Ledger, heads: QueueHeads | HeadsByShare, looked: _Looked, borrowing: list[Bucket] | None
) -> Iterator[Decision | None]:
    """*borrowing* collects the buckets that would borrow, to be tried afterwards; None lets them borrow."""
    turn = Pass.BORROWING if borrowing is None else Pass.WITHIN
    for drawn, entry in enumerate(heads, start=1):
        if drawn % DRAWN_PER_STEP == 0:
            yield None
        try:  # no `At`: this is done for everybody who is drawn
            borrows = borrowing is not None and would_borrow(ledger, entry)
        except Exception as error:
            raise FailedAt(entry.gang.workflow) from error
        if borrowing is not None and borrows:
            borrowing.append(entry.bucket)
            continue
        if looked.skips(entry, turn):
            continue
        before = _effort(ledger)
        with At(entry.gang.workflow):
            found = look_at(ledger, entry)
        if found is None:
            looked.failed(entry, turn)
            yield from _steps(ledger, before)
            continue
        assert not isinstance(found, Targets), f"{entry.gang.id} may not preempt"
        yield _admit(ledger, entry.gang, found)
        if not looked.enough_of(entry.bucket.pool):
            heads.next_of(entry.bucket)
        yield from _steps(ledger, before)


def _admit(ledger: Ledger, gang: Gang, placement: Placement) -> Admit:
    return Admit(gang.id, with_gpus(ledger, gang, placement) if ledger.place else placement)
