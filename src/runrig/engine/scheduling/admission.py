"""The decisions of one cycle about everything that waits (rules P4, P5, R4, A1).

1. Nominated gangs start once their targets have stopped. If their nodes are no longer usable, they are pending again.
2. HIGH and NORMAL, in order: start; otherwise preempt and be nominated.
3. LOW within its pool's nominal, in order: start.
4. LOW that borrows, in order (by share if weights differ): start.

Yields decisions; the caller applies each to the ledger before requesting the next. Also yields None: everything so far is
complete, and the cycle may be split here (`engine.cycle`). The number of Nones reflects how much work a gang took.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Set
from itertools import repeat

from runrig.domain.errors import At, FailedAt
from runrig.domain.gangs import Gang, GangState, Placement
from runrig.domain.plan import Admit, Decision, Nominate, Preempt, Withdraw
from runrig.domain.pools import Queueing
from runrig.domain.quantities import LARGEST
from runrig.engine.ledger.fit import find_place, starts_now, with_gpus
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Bucket, Entry, Order, Pass, in_order
from runrig.engine.placement.constraint_tree import holds_on
from runrig.engine.placement.partial import largest
from runrig.engine.preemption.targets import Targets, find_targets
from runrig.engine.scheduling.barriers import put_to_sleep
from runrig.engine.scheduling.put_off import is_promised, may_start
from runrig.engine.scheduling.queue_order import HeadsByShare, QueueHeads, borrowing_heads, low_heads, would_borrow

EFFORT_PER_STEP = 25
"""Effort (`Ledger.effort`) that takes about as long as evaluating a gang that does not fit."""

DRAWN_PER_STEP = 16
"""Gangs drawn, whatever happens to them, that take about as long as evaluating one."""


def decide(ledger: Ledger) -> Generator[Decision | None, None, None]:
    """Yields all decisions that are possible now, and None after each evaluated gang; several after a long search. If a gang that
    starts lets others pass a STRICT_FIFO head (rule W6), begins again with the first in order.
    """
    yield from _nominated(ledger)
    looked = _Looked(ledger)
    again = True
    while again:
        again = yield from _passes(ledger, looked)


_Steps = Generator[Decision | None, None, bool]
"""Returns True if the order has to be gone through again, because a gang that started let others pass."""


def _passes(ledger: Ledger, looked: "_Looked") -> _Steps:
    _ = ledger.tree  # update the tree first: a rebuilt tree wakes all buckets
    firm = [bucket for bucket in ledger.sleepers.awake if bucket.firm]
    put_off = may_start(ledger, firm=True)
    borrowing: list[Bucket] = []
    return (
        (yield from _firm(ledger, QueueHeads(ledger.sleepers, [*firm, *put_off], Pass.FIRM), looked, set(put_off)))
        or (yield from _within(ledger, low_heads(ledger), looked, borrowing))
        or (yield from _tried(ledger, borrowing_heads(ledger, borrowing), looked, Pass.BORROWING))
    )


class _Looked:
    """Which gangs this cycle skips: those that a limit of their user stops, refused ones, and those behind the head of a
    STRICT_FIFO pool.

    Buckets of a STRICT_FIFO pool do not sleep, because their head counts whether it is tried or not. They remember that they
    failed. A head that a limit of its user stops is passed over and sleeps like any other: it delays no other user (rule W6).
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nominated = strict_and_waiting(ledger)
        self._closed = set[str]()
        self.limited: dict[str, Entry] = {}  # closed pool → its head that failed, if its user has a limit

    def skips(self, entry: Entry, turn: Pass) -> bool:
        pool = entry.bucket.pool
        if (
            pool in self._closed
            or entry.bucket.asleep is not None
            or (self._nominated and is_behind(self._nominated, entry))
        ):
            return True
        if entry.bucket.key.user and self._ledger.user_holds_too_much(entry.bucket):
            put_to_sleep(self._ledger, entry, turn)
            return True
        if entry.gang.refused or entry.bucket.parked == self._ledger.sleepers.changes:
            self.failed(entry, turn)
            return True
        return False

    def failed(self, entry: Entry, turn: Pass) -> None:
        """Skips the bucket of *entry* until something that it lacks may be available: all of its gangs would get the same answer."""
        if self._ledger.pools[entry.gang.pool].queueing is Queueing.STRICT_FIFO:
            self._ledger.sleepers.park(entry.bucket)
            self._closed.add(entry.gang.pool)
            if entry.bucket.key.user:
                self.limited[entry.gang.pool] = entry
        else:
            put_to_sleep(self._ledger, entry, turn)

    def opens_again(self) -> bool:
        """Whether the head of a STRICT_FIFO pool no longer counts: since it failed, its user has reached a limit elsewhere."""
        waiting = {pool: entry for pool, entry in self.limited.items() if entry.state is GangState.PENDING}
        opened = [pool for pool, entry in waiting.items() if self._ledger.user_holds_too_much(entry.bucket)]
        for pool in opened:
            self._closed.discard(pool)
            del self.limited[pool]
        return bool(opened)


def strict_and_waiting(ledger: Ledger) -> dict[str, Order]:
    """STRICT_FIFO pools with a gang that is nominated but has not started, which no later one can pass (rule P4), and its order."""
    found: dict[str, Order] = {}
    for entry in ledger.nominated.values():
        pool = entry.gang.pool
        if ledger.pools[pool].queueing is Queueing.STRICT_FIFO:
            found[pool] = min(entry.order, found.get(pool, entry.order))
    return found


def is_behind(nominated: Mapping[str, Order], entry: Entry) -> bool:
    """Whether *entry* is later than the one in *nominated*, as from `strict_and_waiting`."""
    first = nominated.get(entry.gang.pool)
    return first is not None and entry.order > first


def _nominated(ledger: Ledger) -> Iterator[Decision | None]:
    for entry in sorted(ledger.nominated.values(), key=in_order):
        with At(entry.gang.workflow):
            step = next_step(ledger, entry)
        if step is not None:
            yield step
        yield None


def next_step(ledger: Ledger, entry: Entry) -> Admit | Withdraw | None:
    """The decision on the nominated *entry*; None: it keeps waiting for its targets."""
    if ledger.place and not _nodes_stand(ledger, entry):
        return Withdraw(entry.gang.id)
    if starts_now(ledger, entry):
        return _admit(ledger, entry.gang, entry.placement)
    if len(ledger.unclaimed) == len(ledger.stopping):
        return Withdraw(entry.gang.id)  # an edit took the quota of its reservation, and no target is left to wait for
    return None


def _nodes_stand(ledger: Ledger, entry: Entry) -> bool:
    """Whether all nodes of its placement exist, accept pods, have the granted flavor and are in the required domain."""
    if not all(
        ledger.nodes.takes(share.node, assignment.flavor)
        for assignment in entry.placement
        for share in assignment.shares
    ):
        return False
    constraints = ledger.constraints(entry, entry.placement)
    nodes = [[share.node for share in assignment.shares for _ in range(share.count)] for assignment in entry.placement]
    return constraints is not None and holds_on(constraints, ledger.nodes.topology(constraints.labels), nodes)


def _firm(ledger: Ledger, heads: QueueHeads, looked: _Looked, put_off: Set[Bucket]) -> _Steps:
    """Starts or nominates guaranteed work.
    *put_off*: buckets among *heads* that sleep until their turn, and are then woken if any of their guarantee is left.
    """

    def comes(entry: Entry) -> bool:
        if entry.bucket in put_off and is_promised(ledger, entry.bucket):
            ledger.sleepers.wake(entry.bucket)
        return True

    return _tried(ledger, heads, looked, Pass.FIRM, comes if put_off else None)


def _within(ledger: Ledger, heads: QueueHeads, looked: _Looked, borrowing: list[Bucket]) -> _Steps:
    """Starts LOW work that does not borrow. *borrowing*: collects the buckets that would, to be tried later."""

    def comes(entry: Entry) -> bool:
        try:  # no `At`, because this runs for every gang drawn
            borrows = would_borrow(ledger, entry)
        except Exception as error:
            raise FailedAt(entry.gang.workflow) from error
        if borrows:
            borrowing.append(entry.bucket)
        return not borrows

    return _tried(ledger, heads, looked, Pass.WITHIN, comes)


def _tried(
    ledger: Ledger,
    heads: QueueHeads | HeadsByShare,
    looked: _Looked,
    turn: Pass,
    comes: Callable[[Entry], bool] | None = None,
) -> _Steps:
    """Starts or nominates the gangs of *heads*. *comes*: called for each gang drawn; False: it is not tried in this pass."""
    for drawn, entry in enumerate(heads, start=1):
        if drawn % DRAWN_PER_STEP == 0:
            yield None
        if (comes is not None and not comes(entry)) or looked.skips(entry, turn):
            continue
        if turn is Pass.FIRM and ledger.candidates.behind and any(each.topology for each in entry.gang.pod_sets):
            # Its search for targets needs all candidates; adding many of them takes a part of its own.
            yield from repeat(None, ledger.candidates.refresh() // EFFORT_PER_STEP)
        before, searched = _effort(ledger), ledger.searches.so_far()
        found = _look(ledger, entry)
        ledger.searches.found(entry.bucket, searched, start=found is not None)
        if found is None:
            looked.failed(entry, turn)
            yield from _steps(ledger, before)
            continue
        if isinstance(found, Targets):
            ledger.searches.nominations[entry.gang.id] = ledger.searches.since(searched)
            yield Nominate(entry.gang.id, found.placement, found.gangs)
            for target in found.targets:
                yield Preempt(target.gang, entry.gang.id, target.law, target.spared)
            if ledger.pools[entry.gang.pool].queueing is Queueing.STRICT_FIFO:
                looked.failed(entry, turn)
        else:
            yield _admit(ledger, entry.gang, found)
        heads.next_of(entry.bucket)
        yield from _steps(ledger, before)
        if looked.limited and looked.opens_again():
            return True
    return False


def _effort(ledger: Ledger) -> int:
    """A counter of work other than trying a gang: searches for targets, and sorting nodes for a new topology."""
    return ledger.effort + ledger.nodes.indexed


def _steps(ledger: Ledger, before: int) -> Iterator[None]:
    """The steps that an evaluation took. *before*: the effort when it began."""
    return repeat(None, 1 + (_effort(ledger) - before) // EFFORT_PER_STEP)


Start = Placement | Targets
"""How a gang can start: immediately with a placement, or after its targets have stopped."""


def _look(ledger: Ledger, entry: Entry) -> Start | None:
    """`look_at`, but a bug is a FailedAt. An `At` around every gang would cost more than drawing it from the queue."""
    try:
        return look_at(ledger, entry)
    except Exception:
        with At(entry.gang.workflow):
            raise


def look_at(ledger: Ledger, entry: Entry) -> Start | None:
    """How the waiting *entry* would start if it were its turn now; None if it cannot. Does not change the ledger.

    Tries the full gang first, for HIGH and NORMAL also with preemption, then smaller gangs, largest first (rule A1). Sizes
    above a limit of its user are not tried (rule W6).
    """

    def attempt(counts: tuple[int, ...]) -> Start | None:
        placement = find_place(ledger, entry, counts)
        return find_targets(ledger, entry, counts) if placement is None else placement

    room = ledger.user_room(entry)
    if room == LARGEST:
        return attempt(entry.bucket.counts) or largest(entry.gang.pod_sets, attempt)

    def allowed(counts: tuple[int, ...]) -> bool:
        return entry.gang.gpus(counts) <= room

    full = attempt(entry.bucket.counts) if allowed(entry.bucket.counts) else None
    return full or largest(entry.gang.pod_sets, attempt, allowed)


def _admit(ledger: Ledger, gang: Gang, placement: Placement) -> Admit:
    return Admit(gang.id, with_gpus(ledger, gang, placement) if ledger.place else placement)
