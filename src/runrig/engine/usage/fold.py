"""Folds the event log into usage per hour: who held, waited for, borrowed, lent and lost how many GPUs.

It applies the declarations and decisions of the log to a state of its own, so usage has the same numbers as everything else.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from runrig.domain.plan import Decision, DropNode, Preempt, PutNode, Queue, Refuse, Release, Stop
from runrig.domain.quantities import GPU, gpus_in
from runrig.domain.records import Event
from runrig.domain.subjects import gang_id_of
from runrig.domain.usage import ANY, FLAVOR, MICROSECONDS, UNKNOWN, WORK, Folded, Hour, Key, microseconds
from runrig.domain.workflows import Status
from runrig.engine.ledger.options import flavors_of
from runrig.engine.ledger.queue import Entry
from runrig.engine.quota.quota_node import REAL
from runrig.engine.state.state import State
from runrig.engine.usage.integrals import Integrals
from runrig.engine.usage.quota_sums import QuotaSums
from runrig.engine.usage.recent import Recent

PREEMPTED, OTHER, NOTHING = "lost_preempted", "lost_other", ""

_ASKED, _UNPLACED = "asked", "unplaced"
"""GPUs per flavor that waiting gangs can use, and that gangs hold without nodes: they count, but are not summed up."""
_LOSES = {Status.FAILED_EVICTED: OTHER, Status.FAILED_BACKEND_ERROR: OTHER, Status.FAILED_PREEMPTED: PREEMPTED}

Count = tuple[tuple[Key, int], ...]


class Fold:
    """Continues from *base*. Reads only declarations and decisions (`PastStore.steps`), in order.

    *at*: the time of the last event, in microseconds. O(depth + siblings + nodes of the gang) per decision; a declaration costs
    the whole tree, once for all declarations with the same time.
    """

    def __init__(self, base: Folded) -> None:
        self._state = State.load(base.cluster)
        self.revision = base.revision
        self.at = base.at
        self._users, self._causes = dict(base.users), dict(base.causes)
        self._sums = Integrals(base.open, base.at)
        self._recent: Recent | None = None
        self._quota = QuotaSums()
        self._counted: dict[str, Count] = {}
        self._plain: Counter[Key] = Counter()
        self._nodes: dict[str, tuple[str, int, int, int]] = {}
        self._gpus: Counter[tuple[str, str]] = Counter()
        self._changed = self._declared = True
        self._used: set[str] = set()
        self._touched: set[str] = set()
        for gang in self._state.ledger.entries:
            self._count(gang)

    def apply(self, events: Iterable[Event], submitters: Mapping[str, str]) -> Iterator[Hour]:
        """Yields the hours that end before the last event. *submitters*: user by workflow, of all gangs that are queued."""
        for event in events:
            time = microseconds(event.time)
            if time > self.at:
                # Several revisions share a time; what lasts for 0 seconds does not count.
                self._number()
                if self._recent is not None:
                    self._recent.move(time)
                self.at = time
                yield from self._sums.close(time)
            self._apply(event, submitters)
            self.revision = event.revision
        self._state.take_changes()  # These changes come from the log and must not be stored again.

    def folded(self) -> Folded:
        """From which another fold continues with the same sums."""
        self._number()
        self._state.revision = self.revision
        return Folded(self._state.rows(), self.at, dict(self._users), dict(self._causes), self._sums.sums(self.at))

    def until(self, at: int) -> list[Hour]:
        """The open hours up to *at* if nothing more happens, the last one possibly empty. Later events may be earlier than *at*."""
        self._number()
        return self._sums.until(max(at, self.at))

    def count_minutes(self) -> None:
        """From now on, `minutes` knows the last hour by minute. Costs O(all sums) per minute."""
        if self._recent is None:
            self._number()
            self._recent = Recent(self._sums.values(), self.at)

    def minutes(self, at: int) -> tuple[int, list[Hour]]:
        """The minutes of the last hour up to *at*, and since when they are known, in seconds. Those without sums are missing."""
        self._number()
        return (at // MICROSECONDS, []) if self._recent is None else self._recent.until(max(at, self.at))

    # ------------------------------------------------------------ events

    def _apply(self, event: Event, submitters: Mapping[str, str]) -> None:
        action = event.action
        self._changed = True
        if not isinstance(action, Decision):
            self._state.apply(action, event.time)
            self._declared = True
            if isinstance(action, PutNode | DropNode):
                self._touched.add(action.node.name if isinstance(action, PutNode) else action.name)
            return
        gang = gang_id_of(action)
        if isinstance(action, Queue):
            self._users[gang] = submitters.get(action.gang.workflow, UNKNOWN)
        entry = self._state.ledger.entries.get(gang)
        if entry is not None:
            self._touch(entry)
            self._note_loss(action, entry)
        self._state.apply(action, event.time)
        self._count(gang)
        entry = self._state.ledger.entries.get(gang)
        if entry is not None:
            self._touch(entry)
        else:
            self._users.pop(gang, None)
            self._causes.pop(gang, None)

    def _touch(self, entry: Entry) -> None:
        if entry.held:
            self._used.add(entry.gang.pool)
            self._touched.update(share.node for each in entry.placement for share in each.shares)

    def _note_loss(self, action: Decision, entry: Entry) -> None:
        """The first cause counts; what was held is lost when it is released."""
        match action:
            case Preempt():
                self._causes.setdefault(action.gang, PREEMPTED)
            case Stop(gang, cause) | Refuse(gang, _, cause):
                self._causes.setdefault(gang, _LOSES.get(cause, NOTHING))
            case Release(gang) if entry.held and (why := self._causes.get(gang, NOTHING)):
                assert entry.admitted_at is not None
                lasted = self.at - microseconds(entry.admitted_at)
                for key, gpus in self._counted.get(gang, ()):  # Work without GPUs is not counted.
                    if key[0] == WORK:
                        self._sums.add((*key[:-1], why), gpus * lasted, self.at)

    # ------------------------------------------------------------ gangs

    def _count(self, gang: str) -> None:
        """Counts what *gang* holds or waits for now, instead of before."""
        before = self._counted.pop(gang, ())
        entry = self._state.ledger.entries.get(gang)
        now = () if entry is None else tuple(_held(entry, self._users[gang]) if entry.held else self._waits(entry))
        if now:
            self._counted[gang] = now
        if now != before:
            for key, gpus in before:
                self._change(key, -gpus)
            for key, gpus in now:
                self._change(key, gpus)

    def _change(self, key: Key, by: int) -> None:
        if key[0] == WORK:
            self._sums.change(key, by, self.at)
            if self._recent is not None:
                self._recent.change(key, by, self.at)
        else:
            self._plain[key] += by

    def _waits(self, entry: Entry) -> Iterator[tuple[Key, int]]:
        gang, ledger = entry.gang, self._state.ledger
        for pod_set in gang.pod_sets:
            gpus = pod_set.count * gpus_in(pod_set.requests)
            flavors = flavors_of(ledger, ledger.pools[gang.pool], pod_set) if gpus else ()
            if gpus:
                flavor = flavors[0] if len(flavors) == 1 else ANY
                yield (WORK, gang.pool, flavor, gang.priority.value, self._users[gang.id], "waited"), gpus
            for each in flavors:
                yield (_ASKED, each), gpus

    # ------------------------------------------------------------ when time moves on

    def _number(self) -> None:
        """Takes the numbers that depend on several gangs, as they are from *at* on."""
        if not self._changed:
            return
        ledger = self._state.ledger
        if self._declared:
            for gang in [gang for gang, entry in ledger.entries.items() if not entry.held]:
                self._count(gang)  # It may be able to use other flavors.
            self._touched.update(self._nodes, ledger.nodes.by_name)
            changes = self._quota.declared(ledger.tree)
        else:
            changes = self._quota.used(ledger.tree, self._used) if self._used else iter(())
        for key, value in changes:
            self._sums.put(key, value, self.at)
            if self._recent is not None:
                self._recent.put(key, value, self.at)
        self._number_nodes()
        self._changed = self._declared = False
        self._used, self._touched = set(), set()

    def _number_nodes(self) -> None:
        columns = ("capacity", "free", "down")
        for name in self._touched:
            before, now = self._nodes.pop(name, None), self._gpus_of(name)
            for counts, sign in ((before, -1), (now, 1)):
                for column, gpus in zip(columns, counts[1:], strict=True) if counts is not None else ():
                    assert counts is not None
                    self._gpus[counts[0], column] += sign * gpus
            if now is not None:
                self._nodes[name] = now
        for flavor in {flavor for flavor, _ in self._gpus}:
            free = max(0, self._gpus[flavor, "free"] - self._plain[_UNPLACED, flavor])
            self._sums.put((FLAVOR, flavor, "capacity"), self._gpus[flavor, "capacity"], self.at)
            self._sums.put((FLAVOR, flavor, "down"), self._gpus[flavor, "down"], self.at)
            self._sums.put((FLAVOR, flavor, "free"), free, self.at)
            self._sums.put((FLAVOR, flavor, "idle_asked"), min(free, self._plain[_ASKED, flavor]), self.at)

    def _gpus_of(self, node: str) -> tuple[str, int, int, int] | None:
        """(flavor, GPUs, free GPUs if it is open, otherwise down); None if there is no such node."""
        room = self._state.ledger.nodes.by_name.get(node)
        if room is None:
            return None
        free = max(0, room.free[REAL].get(GPU, 0))
        opened = room.node.open
        return room.node.flavor, room.node.resources.get(GPU, 0), free if opened else 0, 0 if opened else free


def _held(entry: Entry, user: str) -> Iterator[tuple[Key, int]]:
    gang = entry.gang
    for pod_set, each in zip(gang.pod_sets, entry.placement, strict=True):
        if gpus := each.count * gpus_in(pod_set.requests):
            yield (WORK, gang.pool, each.flavor, gang.priority.value, user, "held"), gpus
            if not each.shares:
                yield (_UNPLACED, each.flavor), gpus
