"""Steps shared by commands about pools and subpools: create, preview, delete."""

from dataclasses import dataclass

from runrig.domain.plan import MoveWorkflow, Plan
from runrig.domain.pools import Pool, PoolState
from runrig.engine.lifecycle import pools
from runrig.engine.state.state import State
from runrig.service.queries.resource_queries import PoolView, pool_view
from runrig.service.runtime.writing import Writing


@dataclass(frozen=True, slots=True)
class Deleted:
    """*view*: the pool afterwards; *cancelled*: its workflows that never started."""

    view: PoolView
    cancelled: tuple[str, ...]


def created(state: State, pool: Pool, *, again: bool) -> Plan:
    """Returns the plan that creates *pool*. *again*: succeed if an identical pool exists, as after a repeated request."""
    there = state.pools.get(pool.name)
    if again and there is not None and there.state is PoolState.ACTIVE:
        difference = pools.put_pool(state, pool, create=False)
        if not difference.actions:
            return difference
    return pools.put_pool(state, pool, create=True)


def deleted(writing: Writing, name: str, *, user: str, dry_run: bool) -> Deleted:
    plan = pools.delete_pool(writing.state, name, user=user)
    cancelled = [action.workflow for action in plan.actions if isinstance(action, MoveWorkflow)]
    return Deleted(done(writing, plan, name, dry_run=dry_run), tuple(cancelled))


def done(writing: Writing, plan: Plan, name: str, *, dry_run: bool) -> PoolView:
    """Returns the pool *name* after *plan*; with *dry_run*, as it would be."""
    if not dry_run:
        writing.commit(plan)
        return pool_view(writing.state, name)
    state = writing.state
    trial = State.load(state.rows(), fixed_nodes=state.fixed_nodes, place=state.ledger.place, topology=state.topology)
    trial.apply_all(plan.actions, writing.now)
    return pool_view(trial, name)
