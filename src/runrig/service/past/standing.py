"""The state of the cluster at a revision: the engine's own state, changed by its own actions."""

from collections.abc import Iterable

from runrig.domain.errors import ServerFault
from runrig.domain.gangs import GangState
from runrig.domain.limits import Limits
from runrig.domain.plan import (
    Decision,
    DropCohort,
    DropNode,
    PutCohort,
    PutLimits,
    PutNode,
    PutPool,
    Release,
    SetFlavors,
)
from runrig.domain.records import Event, GangRow, Loaded
from runrig.domain.subjects import gang_id_of
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.rows import gang_row
from runrig.engine.state.state import State
from runrig.ports.past import ClusterAt, Declared, PastStore


class Stood:
    """*state*: without workflows, groups and tasks.

    Gangs that are pending in *base* are pending in it, except those whose ids are kept because they held more or have
    moved since.
    """

    def __init__(self, base: ClusterAt, *, fixed_nodes: bool = True, place: bool = True, topology: bool = True) -> None:
        self.state = State.load(loaded_of(base), fixed_nodes=fixed_nodes, place=place, topology=topology)
        self._waiting = base.waiting
        self._moved = {row.gang.id for row in base.gangs}

    def move(self, events: Iterable[Event], revision: int) -> None:
        """Applies *events*, the declarations and decisions up to *revision*."""
        for event in events:
            self.state.apply(event.action, event.time)
            if isinstance(event.action, Decision):
                self._moved.add(gang_id_of(event.action))
        self.state.revision = revision
        self.state.take_changes()  # These changes come from the log and must not be stored again.

    def turn(self, base: ClusterAt) -> bool:
        """Changes the state to *base*; returns False if it cannot, because it has a pool that did not exist yet.

        Leaves unchanged nodes and gangs alone. Compares only those pending gangs that may differ in *base*.
        """
        state, ledger = self.state, self.state.ledger
        if not state.pools.keys() <= {pool.name for pool in base.declared.pools}:
            return False
        wanted = self._wanted(base)
        for id in [id for id, row in wanted.items() if id in ledger.entries and not _stays(ledger.entries[id], row)]:
            ledger.apply(Release(id), base.time)
        _declare(state, base.declared, base.time)
        ledger.restore([row for id, row in wanted.items() if row is not None and id not in ledger.entries])
        state.revision = base.revision
        self._waiting, self._moved = base.waiting, {row.gang.id for row in base.gangs}
        return True

    def _wanted(self, base: ClusterAt) -> dict[str, GangRow | None]:
        """Returns the former row of each gang that may differ now; None: it did not exist."""
        waiting = set(base.waiting.unlike(self._waiting))
        ids = {gang.id for workflow in waiting for gang in self._waiting.of(workflow)} | self._moved
        there = waiting | {id.partition("/")[0] for id in ids}
        wanted: dict[str, GangRow | None] = dict.fromkeys(sorted(ids))
        wanted |= {gang.id: GangRow.waiting(gang) for workflow in sorted(there) for gang in base.waiting.of(workflow)}
        return wanted | {row.gang.id: row for row in base.gangs}


def moved(stood: Stood | None, store: PastStore, revision: int, *, fixed_nodes: bool, topology: bool) -> Stood:
    """Returns the state at *revision*: *stood*, changed, if that is less work.

    Requires a checkpoint at or before *revision*.
    """
    known = -1 if stood is None or stood.state.revision > revision else stood.state.revision
    base = store.base(revision, than=known)
    if base is not None and (stood is None or not stood.turn(base)):
        stood = Stood(base, fixed_nodes=fixed_nodes, topology=topology)
    if stood is None:
        raise ServerFault(
            f"the state at revision {revision} cannot be shown: its checkpoint is damaged. Choose a later time"
        )
    stood.move(store.steps(after=stood.state.revision, upto=revision), revision)
    return stood


def loaded_of(base: ClusterAt) -> Loaded:
    it, gangs = base.declared, tuple(base.rows())
    return Loaded(base.revision, it.flavors, it.nodes, it.cohorts, it.pools, gangs=gangs, limits=it.limits)


def _declare(state: State, declared: Declared, at: float) -> None:
    """Sets the cluster of *state* to *declared*."""
    if tuple(state.flavors.values()) != declared.flavors:
        state.apply(SetFlavors(declared.flavors), at)
    cohorts = {cohort.name: cohort for cohort in declared.cohorts}
    for cohort in [each for name, each in state.cohorts.items() if name not in cohorts]:
        state.apply(DropCohort(cohort), at)
    for cohort in declared.cohorts:
        if state.cohorts.get(cohort.name) != cohort:
            state.apply(PutCohort(cohort), at)
    for pool in sorted(declared.pools, key=lambda pool: pool.parent is not None):
        if state.pools.get(pool.name) != pool:
            state.apply(PutPool(pool), at)
    limits = {each.user: each for each in declared.limits}
    now = state.ledger.users.declared
    for user in sorted({*now, *limits}):
        there, before = limits.get(user, Limits(user=user)), now.get(user, Limits(user=user))
        if there != before:
            state.apply(PutLimits(there, before), at)
    nodes = {node.name for node in declared.nodes}
    for name in [name for name in state.nodes if name not in nodes]:
        state.apply(DropNode(name), at)
    for node in declared.nodes:
        here = state.nodes.get(node.name)
        if here is not node and here != node:
            state.apply(PutNode(node), at)


def _stays(entry: Entry, row: GangRow | None) -> bool:
    """Whether a gang needs no update. Gangs whose usage affects others (nominated or stopping) are removed and
    added again, and so are gangs that new declarations would move, such as refused ones.
    """
    known = row is not None and row.state in (GangState.PENDING, GangState.ADMITTED) and not row.gang.refused
    return known and gang_row(entry) == row
