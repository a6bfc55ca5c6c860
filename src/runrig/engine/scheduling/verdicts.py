"""The decision of the next cycle on a gang, without running it: sleeping buckets wait, and the first ones are evaluated
here.

Waiting gangs use nothing, so as long as no gang ahead starts, a gang's turn comes in the current state. Does not change
the ledger.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import GangState
from runrig.domain.plan import Admit, Withdraw
from runrig.domain.pools import Queueing
from runrig.domain.steps import Steps
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Bucket, Entry, Pass, in_order
from runrig.engine.preemption.targets import Targets
from runrig.engine.scheduling.admission import Start, is_behind, look_at, next_step, strict_and_waiting
from runrig.engine.scheduling.queue_order import Standing, goes_by_share, kind_of, standing, would_borrow

MOST_LOOKS = 16
"""Maximum number of gangs ahead that are evaluated; if there are more, the result is unknown."""


class Turn(NamedTuple):
    """*verdict* None: unknown, because a gang ahead starts or too many are ahead. *start*: how it starts, if it does."""

    verdict: Verdict | None
    start: Start | None = None


_WAITS = Turn(Verdict.WAITS)
_UNKNOWN = Turn(None)


def at_rest(ledger: Ledger) -> bool:
    """Whether the next cycle does nothing: nothing was submitted, ended or declared since the last one. O(awake buckets)."""
    return not _acting(ledger) and next(_tried(ledger), None) is None


def next_turn(ledger: Ledger, entry: Entry) -> Steps[Turn]:
    """The decision of the next cycle on *entry*, which is waiting or nominated.

    O(buckets that it may try), and at most MOST_LOOKS evaluations.
    """
    acting = _acting(ledger)
    if entry.state is GangState.NOMINATED:
        first = acting[0] if acting else None
        if isinstance(first, Admit) and first.gang == entry.gang.id:
            return Turn(Verdict.STARTS, entry.placement)
        return _WAITS if first is None else _UNKNOWN
    if acting:
        return _UNKNOWN
    yield
    tried: set[Bucket] = set()
    before: list[Bucket] = []
    for bucket in _tried(ledger):
        if bucket not in tried and _comes_before(ledger, bucket, entry):
            before.append(bucket)
            if len(before) > MOST_LOOKS:
                return _UNKNOWN
        tried.add(bucket)
    for bucket in before:
        yield
        if look_at(ledger, bucket.waiting[0]) is not None:
            return _UNKNOWN
    yield
    if entry.bucket not in tried or entry.bucket in before:
        return _WAITS
    start = look_at(ledger, entry)
    if start is None:
        return _WAITS
    return Turn(Verdict.STARTS_AFTER_STOPS if isinstance(start, Targets) else Verdict.STARTS, start)


def _acting(ledger: Ledger) -> list[Admit | Withdraw]:
    """The decisions of the next cycle on nominated gangs, in order. Updates the tree first, as a cycle does."""
    _ = ledger.tree
    steps = (next_step(ledger, entry) for entry in sorted(ledger.nominated.values(), key=in_order))
    return [step for step in steps if step is not None]


def _comes_before(ledger: Ledger, bucket: Bucket, entry: Entry) -> bool:
    """Whether the head of *bucket* is, or may be, evaluated before *entry*. Shares of borrowers are not computed."""
    kind, mine = kind_of(ledger, bucket), kind_of(ledger, entry.bucket)
    if kind != mine or goes_by_share(ledger, kind):
        return kind <= mine and bucket.waiting[0] is not entry
    return bucket.waiting[0].order < entry.order


def _tried(ledger: Ledger) -> Iterator[Bucket]:
    """Yields buckets whose head the next cycle may try, in the current state; possibly more than once."""
    nominated = strict_and_waiting(ledger)
    heads: dict[str, tuple[Standing, Bucket]] = {}
    for bucket in chain(ledger.sleepers.awake, _waking(ledger)):
        if ledger.user_holds_too_much(bucket):
            continue  # passed over, also as the head of a STRICT_FIFO pool (rule W6)
        if ledger.pools[bucket.pool].queueing is not Queueing.STRICT_FIFO:
            if _may_start(ledger, bucket):
                yield bucket
        elif not is_behind(nominated, bucket.waiting[0]):
            head = standing(ledger, bucket.waiting[0])
            if bucket.pool not in heads or head < heads[bucket.pool][0]:
                heads[bucket.pool] = head, bucket
    yield from (bucket for _, bucket in heads.values() if _may_start(ledger, bucket))


def _may_start(ledger: Ledger, bucket: Bucket) -> bool:
    return not bucket.key.refused and bucket.parked != ledger.sleepers.changes


def _waking(ledger: Ledger) -> Iterator[Bucket]:
    """Yields sleeping buckets that may have room now, possibly more than once. O(those, and needs at barriers with releases)."""
    sleepers = ledger.sleepers
    for turn in Pass:
        for barrier in dict.fromkeys(sleepers.risen[turn]):
            for need in barrier.needs(turn):
                yield from barrier.asleep_for(turn, need)
    yield from (each for each in sleepers.borrowers(sleepers.eased) if not would_borrow(ledger, each.waiting[0]))
