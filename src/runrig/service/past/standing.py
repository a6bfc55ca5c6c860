"""A state that stands as the cluster stood at some revision: the engine's own, moved by the engine's own actions."""

from runrig.domain.gangs import GangState
from runrig.domain.plan import DropCohort, DropNode, PutCohort, PutNode, PutPool, Release, SetFlavors
from runrig.domain.records import GangRow, Loaded
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.changed_rows import gang_row
from runrig.engine.state.state import State
from runrig.ports.past import PastStore, Standing


def moved(state: State | None, store: PastStore, revision: int, *, fixed_nodes: bool, topology: bool) -> State:
    """A state as of *revision*, without workflows, groups and tasks; *state* itself, changed, where that is less work.

    The caller knows that there is a checkpoint at or before *revision*.
    """
    known = -1 if state is None or state.revision > revision else state.revision
    base = store.base(revision, than=known)
    if base is not None and (state is None or not turned(state, base)):
        loaded = loaded_of(base)
        state = State.load(loaded, fixed_nodes=fixed_nodes, topology=topology)
    assert state is not None, f"nothing is kept of revision {revision}"
    for event in store.steps(after=state.revision, upto=revision):
        state.apply(event.action, event.time)
    state.revision = revision
    state.take_changes()  # nobody stores them
    return state


def loaded_of(base: Standing) -> Loaded:
    declared = base.declared
    return Loaded(
        base.revision,
        declared.flavors,
        declared.nodes,
        declared.cohorts,
        declared.pools,
        (),
        (),
        (),
        base.gangs,
        {},
        {},
    )


def turned(state: State, base: Standing) -> bool:
    """Makes *state* stand as *base*; False where it cannot, because it knows a pool that was not there yet.

    What stays is left alone: nodes that are the same, and gangs that wait or run now as they did then.
    """
    declared, at = base.declared, base.time
    if not state.pools.keys() <= {pool.name for pool in declared.pools}:
        return False
    rows = {row.gang.id: row for row in base.gangs}
    left = [id for id, entry in state.ledger.entries.items() if not _stays(entry, rows.get(id))]
    for id in left:
        state.ledger.apply(Release(id), at)
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
    nodes = {node.name for node in declared.nodes}
    for name in [name for name in state.nodes if name not in nodes]:
        state.apply(DropNode(name), at)
    for node in declared.nodes:
        here = state.nodes.get(node.name)
        if here is not node and here != node:
            state.apply(PutNode(node), at)
    there = state.ledger.entries
    state.ledger.restore([row for id, row in rows.items() if id not in there])
    state.revision = base.revision
    return True


def _stays(entry: Entry, row: GangRow | None) -> bool:
    """Whoever is nominated or stops holds what others count with, so that it is taken out and put back with them."""
    return row is not None and row.state in (GangState.PENDING, GangState.ADMITTED) and gang_row(entry) == row
