"""Limits of a pool and of a user: GPUs in one workflow, GPUs at the same time, and how many workflows wait (rule W6).

They are checked when work is submitted or moves in; the queue then keeps users within their GPUs (`engine.ledger.user_limits`).
A lower limit stops nothing: accepted work keeps its place.
"""

from collections.abc import Mapping
from dataclasses import fields, replace

from runrig.domain.errors import InvalidInput, Refused
from runrig.domain.gangs import Gang
from runrig.domain.limits import EVERYWHERE, MOST, Limits, LimitValues
from runrig.domain.plan import Plan, PutLimits
from runrig.domain.pools import top_level
from runrig.domain.quantities import GPU, amount_in_words
from runrig.domain.workflows import Workflow, WorkflowSpec
from runrig.engine.ledger.queue import asked
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.placement.partial import least_counts
from runrig.engine.state.state import State

NOBODY: Mapping[str, int] = {}

_LESS = "Request less, or use another pool"
_LESS_OR_RAISE = "Request less, or ask an administrator to raise it (`runrig limits set`)"


def put_limits(state: State, limits: Limits) -> Plan:
    """Replaces the limits of a user over all pools. Raises InvalidInput for a limit out of range."""
    for each in fields(LimitValues):
        value, most = getattr(limits, each.name), MOST[each.name]
        if value is not None and not 1 <= value <= most:
            raise InvalidInput.one(
                f"{each.name.replace('_', ' ')}: {value} is out of range: use a whole number from 1 to {most}",
                each.name,
            )
    before = state.ledger.users.limits_of(limits.user)
    return Plan(() if before == limits else (PutLimits(limits, before),))


def check_limits(
    state: State, workflow: Workflow, spec: WorkflowSpec, *, who: str, ahead: Mapping[str, int] = NOBODY
) -> None:
    """Raises Refused if the new *workflow* exceeds a limit of its pool or its user. O(task groups).

    *who*: its name in the message. *ahead*: workflows of the user that the same commit adds, by top-level pool and `EVERYWHERE`.
    """
    check_gpus(state, workflow, spec, who=who)
    pool, user = state.pools[workflow.pool], workflow.submitted_by
    for group in spec.groups if any(state.ledger.users.of(pool, user)) else ():
        check_gpus_at_once(
            state, gang_of(workflow, group), user, who if len(spec.groups) == 1 else f"{who}/{group.name}"
        )
    top = top_level(pool.name)
    _check_waiting(state, top, user, pool.user_waiting, ahead)
    if workflow.id not in state.workflows:  # A workflow that moves to another pool is counted already.
        _check_waiting(state, EVERYWHERE, user, state.ledger.users.limits_of(user).waiting, ahead)


def _check_waiting(state: State, pool: str, user: str, limit: int | None, ahead: Mapping[str, int]) -> None:
    waiting = state.waiting[pool, user] + ahead.get(pool, 0)
    if limit is None or waiting < limit:
        return
    there = f"{'workflow' if waiting == 1 else 'workflows'} waiting"
    allows = f"in pool {pool}, which allows {limit} for each user" if pool else f"over all pools; the limit is {limit}"
    raise Refused(
        f"{user} already has {waiting} {there} {allows}. Wait until one of them starts, or cancel one",
        "W6",
        {"pool": pool, "user": user, "waiting": waiting, "limit": limit},
    )


def check_gpus(state: State, workflow: Workflow, spec: WorkflowSpec, *, who: str) -> None:
    """As `check_limits`, without the number of workflows. Of an array, the elements count that may run at a time."""
    pool, user = state.pools[workflow.pool], workflow.submitted_by
    gpus = sum(asked(gang_of(workflow, group)) for group in spec.groups[: workflow.most])
    in_all = "in all of its task groups" if spec.array is None else "in the elements that may run at a time"
    own = state.ledger.users.limits_of(user).gpus_per_workflow
    for where, limit in ((pool.name, pool.gpus_per_workflow), (EVERYWHERE, own)):
        if limit is not None and gpus > limit:
            allows = f"pool {pool.name} allows at most" if where else f"the limit of {user} is"
            raise Refused(
                f"{who} needs {amount_in_words(GPU, gpus)} {in_all}, but {allows} {amount_in_words(GPU, limit)} "
                f"in one workflow. {_LESS if where else _LESS_OR_RAISE}",
                "W6",
                {"pool": where, "resource": GPU, "asked": gpus, "limit": limit},
            )


def check_gpus_at_once(state: State, gang: Gang, user: str, who: str) -> None:
    """Raises Refused if the smallest size of *gang* exceeds a limit of its *user*, so that it could never start."""
    least = gang.gpus(least_counts(gang.pod_sets))
    for (where, _), limit in state.ledger.users.of(state.pools[gang.pool], user):
        if least > limit:
            allows = f"pool {gang.pool} allows each user at most" if where else f"the limit of {user} is"
            raise Refused(
                f"{who} needs {amount_in_words(GPU, least)} at the same time, but {allows} "
                f"{amount_in_words(GPU, limit)}{'' if where else ' over all pools'}. {_LESS if where else _LESS_OR_RAISE}",
                "W6",
                {"pool": gang.pool if where else "", "user": user, "resource": GPU, "asked": least, "limit": limit},
            )


def check_moved(state: State, workflow: Workflow, pool: str) -> None:
    """As `check_limits`, for the submitted *workflow* in *pool*. Limits are the same within a top-level pool."""
    if top_level(pool) != top_level(workflow.pool):
        check_limits(state, replace(workflow, pool=pool), state.spec_of(workflow.id), who=workflow.id)
