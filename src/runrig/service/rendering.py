"""What Kubernetes objects are made of: a workflow, its pool, and the pool's numbers as they stand."""

import re

from runrig.domain import constraints
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.pools import Pool
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.workflows import WorkflowSpec
from runrig.engine import gate, report
from runrig.engine.state import State
from runrig.ports import Blueprint, Share

DEFAULT_NAMESPACE = "runrig"

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def blueprint(state: State, spec: WorkflowSpec, *, pool: str, priority: Priority, namespace: str) -> Blueprint:
    """*spec* in *pool* of *state*; whether there is quota for it is not asked.

    Raises NotFound (pool), InvalidInput (namespace), and Refused for topology requirements or platforms that the pool does not
    have, and for a pool that takes no submissions.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidInput.one(
            f"namespace {namespace!r} must be lower-case letters, digits and '-', at most 63", "namespace"
        )
    target = gate.open_pool(state, pool)
    constraints.check(target, spec)
    for group in spec.groups:
        for task in group.tasks:
            gate.check_flavors(state, target, task)
    top = target if target.parent is None else state.pools[target.parent]
    return Blueprint(
        spec=spec,
        pool=target,
        priority=priority,
        namespace=namespace,
        top=_whole(state, top),
        leaf=_own(state, target),
        flavors=dict(state.flavors),
    )


def _whole(state: State, pool: Pool) -> Share:
    """Never less than what is held, so that the other scheduler does not object to what was admitted here."""
    balance = report.pool_balance(state, pool.name)
    most = _most_borrowed(state, pool)
    nominal = balance.quota + balance.held
    return Share(
        pool.name,
        quota=max(nominal, balance.subtree_used),
        limit=None if most is None else max(nominal + most, balance.total),
        weight=pool.weight,
    )


def _own(state: State, pool: Pool) -> Share:
    balance = report.pool_balance(state, pool.name)
    return Share(pool.name, quota=max(balance.unallocated, balance.used), limit=None, weight=pool.weight)


def _most_borrowed(state: State, pool: Pool) -> int | None:
    """GPUs, over the pool's flavors.  None: there is one of which it may borrow without end."""
    total = 0
    for flavor in pool.flavors or tuple(state.flavors):
        quota = pool.quotas.get(FlavorResource(flavor, GPU))
        if quota is None or quota.borrowing_limit is None:
            return None
        total += quota.borrowing_limit
    return total
