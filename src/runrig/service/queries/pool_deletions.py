"""Deletions of a pool: by whom, when, and their effects; from the event log (rules S3, S6)."""

from dataclasses import replace

from runrig.domain.plan import MoveWorkflow, PutPool
from runrig.domain.pools import PoolState
from runrig.domain.shown.why import PoolEnding
from runrig.domain.value import at
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.ports.store import WorkflowReads


def pool_deletions(store: WorkflowReads, pool: str) -> tuple[PoolEnding, ...]:
    """Returns every deletion of *pool*, oldest first. O(changes of the pool)."""
    found: list[PoolEnding] = []
    for event in store.log.events(pool=pool):
        action = event.action
        if not isinstance(action, PutPool) or action.before is None or action.before.state is action.pool.state:
            continue
        if action.before.state is PoolState.ACTIVE:
            state = action.pool.state
            found.append(PoolEnding(pool, event.actor, at(event.time), state, state, event.revision))
        elif found and action.before.state is PoolState.DELETING:
            found[-1] = replace(found[-1], state=action.pool.state)
    return tuple(found)


def deletion_of(store: WorkflowReads, workflow: Workflow, *, draining: bool) -> PoolEnding | None:
    """Returns the deletion of the pool that cancelled *workflow*, or during which it keeps running. *draining*: the
    pool is DELETING.
    """
    if not workflow.status.finished:
        deletions = pool_deletions(store, workflow.pool) if draining else ()
        return deletions[-1] if deletions else None
    if workflow.status is not WorkflowStatus.FAILED_CANCELED:
        return None
    deletions = pool_deletions(store, workflow.pool)
    cancelled = {
        event.revision
        for event in store.log.events(workflow=workflow.id)
        if deletions
        and isinstance(event.action, MoveWorkflow)
        and event.action.status is WorkflowStatus.FAILED_CANCELED
    }
    return next((deletion for deletion in deletions if deletion.revision in cancelled), None)
