"""Quota and limit of a pool for KAI queues: never below what runrig has admitted, so that KAI does not object."""

from runrig.domain.pools import Pool
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.shown.pools import PoolGpus
from runrig.engine.explain import report
from runrig.engine.state.state import State
from runrig.ports.backend import PoolQueues, QueueQuota


def kai_quotas(state: State, pool: Pool) -> PoolQueues:
    # Node capacity and lending do not affect a queue, and cost far more than the rest.
    balance = report.pool_balance(state, pool.name, gpus={}, lends=())
    return PoolQueues(
        pool, whole=_whole(state, pool, balance) if pool.parent is None else None, own=_own(pool, balance)
    )


def _whole(state: State, pool: Pool, balance: PoolGpus) -> QueueQuota:
    most = _most_borrowed(state, pool)
    nominal = balance.quota + balance.held
    return QueueQuota(
        quota=max(nominal + _shared(balance), balance.subtree_used),
        limit=None if most is None else max(nominal + most, balance.total),
        weight=pool.weight,
    )


def _own(pool: Pool, balance: PoolGpus) -> QueueQuota:
    quota = max(balance.unallocated + _shared(balance), balance.used)
    return QueueQuota(quota=quota, limit=None, weight=pool.weight)


def _shared(balance: PoolGpus) -> int:
    """Returns shared guaranteed quota of cohorts (rule P2), even if others use it: KAI blocks guaranteed work above a
    queue's quota.
    """
    return sum(balance.shared.values())


def _most_borrowed(state: State, pool: Pool) -> int | None:
    """Returns the GPUs that the pool can borrow, across its flavors; None if one of them has no limit."""
    total = 0
    for flavor in pool.flavors or tuple(state.flavors):
        quota = pool.quotas.get(FlavorResource(flavor, GPU))
        if quota is None or quota.borrowing_limit is None:
            return None
        total += quota.borrowing_limit
    return total
