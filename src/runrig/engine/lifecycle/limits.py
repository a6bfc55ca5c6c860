"""Limits of a pool: GPUs in one workflow, GPUs of one user at the same time, and how many workflows of one user wait (rule W6).

They are checked when work is submitted or moves in; the queue then keeps users within their GPUs (`engine.ledger.user_limits`).
A lower limit stops nothing: accepted work keeps its place.
"""

from dataclasses import replace

from runrig.domain.errors import Refused
from runrig.domain.gangs import Gang
from runrig.domain.pools import top_level
from runrig.domain.quantities import GPU, amount_in_words
from runrig.domain.workflows import Workflow, WorkflowSpec
from runrig.engine.ledger.queue import asked
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.placement.partial import least_counts
from runrig.engine.state.state import State


def check_limits(state: State, workflow: Workflow, spec: WorkflowSpec, *, who: str, ahead: int = 0) -> None:
    """Raises Refused if the new *workflow* exceeds a limit of its pool. O(task groups).

    *who*: its name in the message. *ahead*: workflows of the user that the same commit adds to the pool and its subpools.
    """
    check_gpus(state, workflow, spec, who=who)
    pool, user = state.pools[workflow.pool], workflow.submitted_by
    for group in spec.groups if pool.user_gpus is not None else ():
        check_gpus_at_once(
            state, gang_of(workflow, group), user, who if len(spec.groups) == 1 else f"{who}/{group.name}"
        )
    top = top_level(pool.name)
    waiting = state.waiting[top, user] + ahead
    if pool.user_waiting is not None and waiting >= pool.user_waiting:
        there = f"{'workflow' if waiting == 1 else 'workflows'} waiting in pool {top}"
        raise Refused(
            f"{user} already has {waiting} {there}, which allows {pool.user_waiting} for each user. "
            "Wait until one of them starts, or cancel one",
            "W6",
            {"pool": pool.name, "user": user, "waiting": waiting, "limit": pool.user_waiting},
        )


def check_gpus(state: State, workflow: Workflow, spec: WorkflowSpec, *, who: str) -> None:
    """As `check_limits`, without the number of workflows. Of an array, the elements count that may run at a time."""
    pool = state.pools[workflow.pool]
    gpus = sum(asked(gang_of(workflow, group)) for group in spec.groups[: workflow.most])
    in_all = "in all of its task groups" if spec.array is None else "in the elements that may run at a time"
    if pool.gpus_per_workflow is not None and gpus > pool.gpus_per_workflow:
        raise Refused(
            f"{who} needs {amount_in_words(GPU, gpus)} {in_all}, but pool {pool.name} allows at most "
            f"{amount_in_words(GPU, pool.gpus_per_workflow)} in one workflow. Request less, or use another pool",
            "W6",
            {"pool": pool.name, "resource": GPU, "asked": gpus, "limit": pool.gpus_per_workflow},
        )


def check_gpus_at_once(state: State, gang: Gang, user: str, who: str) -> None:
    """Raises Refused if the smallest size of *gang* exceeds a limit of its *user*, so that it could never start."""
    least = gang.gpus(least_counts(gang.pod_sets))
    for _, limit in state.ledger.users.of(state.pools[gang.pool], user):
        if least > limit:
            raise Refused(
                f"{who} needs {amount_in_words(GPU, least)} at the same time, but pool {gang.pool} allows each user at most "
                f"{amount_in_words(GPU, limit)}. Request less, or use another pool",
                "W6",
                {"pool": gang.pool, "user": user, "resource": GPU, "asked": least, "limit": limit},
            )


def check_moved(state: State, workflow: Workflow, pool: str) -> None:
    """As `check_limits`, for the submitted *workflow* in *pool*. Limits are the same within a top-level pool."""
    if top_level(pool) != top_level(workflow.pool):
        check_limits(state, replace(workflow, pool=pool), state.spec_of(workflow.id), who=workflow.id)
