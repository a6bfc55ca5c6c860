"""Reads a server's event log from its first revision on, and says at which one a promise about pools was broken.

The log alone is believed: a state of the witness's own follows it, action by action, and must be the stored one in the end.
The sums are its own, straight from what pools declare and gangs hold; each decision is looked at by `runrig verify`, and free
nodes and what had to stop by the second opinion of the engine's tests.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from runrig.domain.gangs import Gang, GangState
from runrig.domain.plan import DropCohort, DropNode, Nominate, PutCohort, PutNode, PutPool, SetFlavors, Submit, Withdraw
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import Event
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.placement.partial import least_counts
from runrig.engine.state.state import State
from runrig.service.runtime.transactor import ENGINE
from runrig.store import SqlStore
from runrig.verify.verify import Checker
from tests.properties.machine import check_nodes, check_nomination
from tests.properties.oracle import asked, holds_now
from tests.worlds.lawful import commit_of

KEY = FlavorResource("default", GPU)
LEGAL = {
    (None, "ACTIVE"),
    ("ACTIVE", "ACTIVE"),
    ("ACTIVE", "ARCHIVED"),
    ("ACTIVE", "DELETING"),
    ("DELETING", "ARCHIVED"),
    ("ARCHIVED", "ACTIVE"),
}
EDITS = (PutPool, PutCohort, DropCohort, PutNode, DropNode, SetFlavors)
PARTS = 5
"""Revisions that a cycle as short as these may have: one for each of its steps."""


@dataclass(frozen=True)
class Sums:
    """The sums of one revision.  *promise*: pool -> GPUs for its own HIGH and NORMAL; *whole*: top-level pool -> its quota.

    *used*: pool -> GPUs that its own HIGH and NORMAL hold; *held*: gangs that hold anything.
    """

    promise: Mapping[str, int]
    whole: Mapping[str, int]
    used: Counter[str]
    below: Counter[str]
    held: frozenset[tuple[str, int, GangState]]

    @classmethod
    def of(cls, state: State) -> "Sums":
        live = {name: pool for name, pool in state.pools.items() if pool.state is not PoolState.ARCHIVED}
        promise = {name: gpus(pool) for name, pool in live.items()}
        for pool in live.values():
            if pool.parent is not None:
                promise[pool.parent] -= gpus(pool)
        holding = [entry for entry in state.ledger.entries.values() if holds_now(entry)]
        used: Counter[str] = Counter()
        below: Counter[str] = Counter()
        for entry in holding:
            if not entry.gang.priority.may_borrow:
                amount = asked(entry.gang, entry.placement).get(KEY, 0)
                used[entry.gang.pool] += amount
                below[live[entry.gang.pool].parent or entry.gang.pool] += amount
        whole = {name: gpus(pool) for name, pool in live.items() if pool.parent is None}
        held = frozenset((entry.gang.id, entry.gang.attempt, entry.state) for entry in holding)
        return cls(promise, whole, used, below, held)

    def excess(self) -> Counter[str]:
        """Own HIGH and NORMAL above the promise."""
        return +Counter({name: self.used[name] - most for name, most in self.promise.items()})

    def excess_below(self) -> Counter[str]:
        """The same of a top-level pool with its subpools: what then stands on the guarantees of others."""
        return +Counter({name: self.below[name] - most for name, most in self.whole.items()})


class Witness:
    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.state = State()
        self._checker = Checker()
        self._shaken: set[str] = set()
        self._parts_left: dict[str, int] = {}

    def follow(self) -> Sequence[Event]:
        """Looks at what was committed since the last time, and that the store agrees."""
        events = tuple(self.store.log.events(after=self.state.revision))
        for revision, group in groupby(events, key=lambda event: event.revision):
            assert revision == self.state.revision + 1, "a revision is missing in the log"
            self._revision(tuple(group))
            self.state.revision = revision
        self.state.take_changes()
        assert replace(self.state.rows(), specs={}) == replace(self.store.load(), specs={}), "log and state differ"
        return events

    def _revision(self, events: Sequence[Event]) -> None:
        before = Sums.of(self.state)
        edited = any(isinstance(event.action, EDITS) for event in events)
        if edited:
            self._shaken |= set(self.state.ledger.nominated)
        for event in events:
            self._before(event)
            self.state.apply(event.action, event.time)
        after = Sums.of(self.state)
        self._check_pools()
        self._check_growth(before, after, [event.action for event in events if isinstance(event.action, PutPool)])
        self._check_drained(by_engine=events[0].actor == ENGINE)
        if edited and events[0].actor != ENGINE:
            self._check_nothing_stopped(before, after)
        check_nodes(self.state)
        actions = [event.action for event in events]
        commit = commit_of(events[0].revision, events[0].time, actions, self.state.specs, end=None)
        assert [str(each) for each in self._checker.take(commit)] == []

    # ------------------------------------------------------------ each action

    def _before(self, event: Event) -> None:
        """What must be true of the state that it meets."""
        match event.action:
            case Submit(workflow):
                self.state.specs.update(self.store.specs([workflow.spec_hash]))
                self._check_gate(event.action)
            case PutPool(pool, before):
                self._check_edit(pool, before)
            case Nominate(gang, placement, targets):
                check_nomination(self.state, gang, placement, targets)
                self._shaken.discard(gang)
            case Withdraw(gang):
                assert gang in self._shaken, f"{gang} lost its nomination though nothing was edited"

    def _check_gate(self, submit: Submit) -> None:
        """Laws P3, S2: what is above the promise of its pool never came in; nor anything into a pool that is closed."""
        workflow = submit.workflow
        pool = self.state.pools[workflow.pool]
        assert pool.state is PoolState.ACTIVE, f"{workflow.id} came into {pool.name}, which is {pool.state.value}"
        promise = Sums.of(self.state).promise[pool.name]
        for group in self.state.specs[workflow.spec_hash].groups:
            gang = gang_of(workflow, group)
            if not gang.priority.may_borrow:
                assert least(gang) <= promise, f"{gang.id} asks {least(gang)} of {promise}, and came in"

    def _check_edit(self, pool: Pool, before: Pool | None) -> None:
        """No edit is lost: each goes out from what the last one left.  Law S6: nothing leaves the table of pools."""
        assert before == self.state.pools.get(pool.name), f"an edit of {pool.name} went out from an older one"
        change = (before and before.state.value, pool.state.value)
        assert change in LEGAL, f"{pool.name} went from {change[0]} to {change[1]}"
        if before is not None and before.state is PoolState.DELETING:
            assert pool == replace(before, state=PoolState.ARCHIVED), f"{pool.name} was changed while DELETING"

    # ------------------------------------------------------------ each revision

    def _check_pools(self) -> None:
        """Law S1, and of Q1: firm leaf + sum of the subpools = parent, as the ledger has it."""
        tree = self.state.ledger.tree
        for name, children in families(self.state.pools.values()):
            given, whole = sum(map(gpus, children)), gpus(self.state.pools[name])
            assert given <= whole, f"the subpools of {name} have {given}, and it has {whole}"
            if KEY in tree.index_of:
                leaf = tree.firm[name].nominal[tree.index_of[KEY]]
                assert leaf + given == whole, f"{name} has {whole}: its subpools {given}, and it keeps {leaf}"

    def _check_growth(self, before: Sums, after: Sums, edits: Sequence[PutPool]) -> None:
        """Nothing is admitted above a promise: only an edit of the pool, or of a subpool of it, puts it above."""
        smaller = {name for name, most in after.promise.items() if most < before.promise.get(name, 0)}
        grown = {name for name, over in after.excess().items() if over > before.excess()[name]}
        assert grown <= smaller, f"{grown - smaller} got more than was promised: {after.used} of {after.promise}"
        assert not grown or edits
        smaller = {name for name, most in after.whole.items() if most < before.whole.get(name, 0)}
        grown = {name for name, over in after.excess_below().items() if over > before.excess_below()[name]}
        assert grown <= smaller, f"{grown - smaller} stands on what others were promised: {after.below}"

    def _check_drained(self, *, by_engine: bool) -> None:
        """Law S3: ARCHIVED in the very cycle in which the last of its work ended; a command may make that cycle go on longer."""
        alive = {each.pool for each in self.state.workflows.values() if not each.status.finished}
        idle = {each.name for each in self.state.pools.values() if each.state is PoolState.DELETING} - alive
        left = self._parts_left if by_engine else {}
        self._parts_left = {name: left.get(name, PARTS + 1) - 1 for name in idle}
        late = sorted(name for name, parts in self._parts_left.items() if not parts)
        assert not late, f"{late} are still DELETING, and nothing is alive there"

    @staticmethod
    def _check_nothing_stopped(before: Sums, after: Sums) -> None:
        """Law R7."""
        assert before.held == after.held, f"an edit stopped {before.held - after.held}"


def gpus(pool: Pool) -> int:
    return sum(quota.nominal for key, quota in pool.quotas.items() if key == KEY)


def least(gang: Gang) -> int:
    counts = zip(gang.pod_sets, least_counts(gang.pod_sets), strict=True)
    return sum(count * dict(pod_set.requests).get(GPU, 0) for pod_set, count in counts)


def families(pools: Iterable[Pool]) -> Iterator[tuple[str, list[Pool]]]:
    """Each top-level pool that is not ARCHIVED, with its subpools that are not."""
    live = [each for each in pools if each.state is not PoolState.ARCHIVED]
    for top in live:
        if top.parent is None:
            yield top.name, [each for each in live if each.parent == top.name]
