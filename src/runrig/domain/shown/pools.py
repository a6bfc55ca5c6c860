"""Pools and cohorts: their quotas and usage. GPUs are whole numbers; a limit of null means no limit."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from runrig.domain.pools import Declared, PoolState, Quota, TopologyKey
from runrig.domain.pools import Pool as OwnPool
from runrig.domain.pools import Quotas as OwnQuotas
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.settings import shown
from runrig.domain.value import NO_AMOUNTS, Amounts, Page, Shown, Tagged, at, example, shown_as

Quotas = dict[str, dict[str, Quota]]
"""Flavor → resource → quota, sorted."""


def quotas_of(declared: OwnQuotas) -> Quotas:
    found: Quotas = {}
    for key, quota in sorted(declared.items()):
        found.setdefault(key.flavor, {})[key.resource] = quota
    return found


@dataclass(frozen=True, slots=True)
class Balance(Shown):
    """A node of the quota tree for one flavor and resource.

    *subtree*: its nominal quota plus what its children lend it. *local*: the part of that which its lending limit
    withholds.
    *used*: by HIGH and NORMAL work below it. *drawn*: the part of *used* that is shared quota of cohorts above.
    *total*: used by all work. *usage*: the part of that which exceeds what the children keep for themselves.
    *balance*: subtree - usage, negative while it borrows. *headroom*: what it can still use within the limits of all
    levels; negative if the tree is over-committed. *potential*: the headroom of an empty tree.
    *over*: by how much it exceeds its own limits after a quota was cut or an object was moved. Running work is not
    affected; nothing new starts until enough of it ends.
    """

    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None
    subtree: int
    local: int
    usage: int
    balance: int
    headroom: int
    potential: int
    used: int
    total: int
    drawn: int
    borrowed: int
    lent: int
    over: int


shown_as(
    Balance(
        nominal=8,
        borrowing_limit=None,
        lending_limit=None,
        subtree=8,
        local=0,
        usage=6,
        balance=2,
        headroom=10,
        potential=16,
        used=4,
        total=6,
        drawn=0,
        borrowed=0,
        lent=2,
        over=0,
    )
)

Balances = dict[str, Balance]
"""``flavor/resource`` → balance, sorted by flavor and resource."""


@dataclass(frozen=True, slots=True)
class PoolGpus(Shown):
    """GPUs of all flavors. *used*: by HIGH and NORMAL work of the pool itself. *low*: by its LOW work. *subtree_used*:
    *used* including its subpools. *total*: all usage, including subpools. *borrowed*, *lent*: by the pool alone, also
    from and to its subpools.

    *available*: unallocated - used + drawn, negative while the pool drains. *shared*: cohort → the quota that it
    guarantees to HIGH and NORMAL work in addition to unallocated (rule P2). *drawn*: the part of that which is used.
    *shared_left*: the part that is left. *held*: the part of its quota that a DELETING subpool still uses; its quota
    shows as 0. *capacity*: on ready nodes that the pool can use.
    """

    quota: int = 0
    unallocated: int = 0
    used: int = 0
    low: int = 0
    subtree_used: int = 0
    total: int = 0
    available: int = 0
    shared: Amounts = NO_AMOUNTS
    drawn: int = 0
    shared_left: int = 0
    borrowed: int = 0
    lent: int = 0
    held: int = 0
    capacity: int = 0


shown_as(PoolGpus(quota=8, unallocated=8, used=4, low=2, subtree_used=4, total=6, available=4, lent=2, capacity=16))


@dataclass(frozen=True, slots=True)
class NodeShare(Shown):
    """The ready nodes that the pool can use, and those of other pools in this response with which it shares nodes, even
    indirectly.

    *set*: the first of these pools, so it is equal for all of them. *gpus*, *free_gpus*: on all these nodes.
    """

    set: str
    gpus: int
    free_gpus: int


shown_as(NodeShare("vision", 16, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPool(Declared, Shown):
    """The declaration of a pool.  A subpool has the settings of its parent, except for its quota (rule S5)."""

    quotas: Quotas
    default_exit_actions: dict[str, str]
    closed_since: datetime | None
    paused_since: datetime | None
    paused_until: datetime | None


def fields_of(own: OwnPool, settings: OwnPool) -> dict[str, Any]:
    """The fields of `DeclaredPool`. *settings*: the pool whose settings apply to *own*: the parent of a subpool,
    otherwise itself.
    """
    closed = settings if own.closed_by is None else own
    paused = settings if own.paused_by is None else own
    return {
        "name": own.name,
        "parent": own.parent,
        "state": own.state,
        **shown(settings),
        "quotas": quotas_of(own.quotas),
        "closed_by": closed.closed_by,
        "closed_since": at(closed.closed_since),
        "closed_reason": closed.closed_reason,
        "paused_by": paused.paused_by,
        "paused_since": at(paused.paused_since),
        "paused_reason": paused.paused_reason,
        "paused_until": at(paused.paused_until),
    }


_VISION = OwnPool(
    "vision",
    {FlavorResource("default", GPU): example(Quota)},
    cohort="research",
    topology_keys=(example(TopologyKey),),
    default_platform="default",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPool(DeclaredPool):
    backend: str


@dataclass(frozen=True, kw_only=True)
class PoolNow(Shown):
    """The subpools, workflows and usage of a pool at present."""

    subpools: tuple[str, ...]
    workflows: int
    gpus: PoolGpus
    nodes: NodeShare
    balances: Balances


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(PoolNow, PlacedPool):
    """*parent*: of a subpool, which has the settings of its parent except for its quota; null for other pools.

    *quotas*: flavor → resource → quota. *flavors* empty: all flavors. *backend*: where its tasks run. *subpools*: those
    that are not ARCHIVED. *workflows*: number of unfinished workflows in the pool itself. *balances*:
    ``flavor/resource`` → the pool's node of the quota tree. *default_run_time_s*, *max_run_time_s* null: no limit (rule
    P6). *closed_by*: the user who closed it or its parent to submissions; null: it is open. *paused_by*: the user who
    paused it or its parent; null: it starts workflows (rule S8). *paused_until* null: until a user resumes it.
    """

    UNTOLD = ("etag",)

    etag: str | None = None


shown_as(
    Pool(
        **fields_of(_VISION, _VISION),
        backend="default",
        subpools=("vision--a",),
        workflows=1,
        gpus=example(PoolGpus),
        nodes=example(NodeShare),
        balances={"default/gpu": example(Balance)},
    )
)


@dataclass(frozen=True, slots=True)
class PoolDeleted(Shown):
    """*pool*: ARCHIVED if nothing was running in it, otherwise DELETING until it has drained. *cancelled*: workflows
    that had not started.
    """

    pool: Pool
    cancelled: tuple[str, ...]


shown_as(PoolDeleted(replace(example(Pool), state=PoolState.ARCHIVED), ("train-7",)))


@dataclass(frozen=True, slots=True)
class PoolPaused(Shown):
    """*waiting*, *running*: the workflows of the pool and its subpools that wait for the end of the pause, and those that
    continue.
    """

    pool: Pool
    waiting: int
    running: int


shown_as(PoolPaused(replace(example(Pool), paused_by="ann", paused_since=at(1769881200.0)), 3, 2))


@dataclass(frozen=True, slots=True)
class Cohort(Tagged):
    """A node of the quota tree. *kind*: cohort, pool, or root. *declared* false: it only exists because others refer to
    it (rule Q6). *active* false: its ancestors form a cycle (rule Q5).

    *parent* null: below the implicit root. *parent_kind*: distinguishes a pool from a cohort of the same name.
    """

    UNTOLD = ("state", "etag")

    name: str
    kind: str
    parent: str | None
    parent_kind: str | None
    children: tuple[str, ...]
    declared: bool
    active: bool
    weight: int
    quotas: Quotas
    balances: Balances
    state: PoolState | None = None
    """Only for pools."""


shown_as(
    Cohort(
        name="research",
        kind="cohort",
        parent="org",
        parent_kind="cohort",
        children=("batch", "vision"),
        declared=True,
        active=True,
        weight=1,
        quotas=quotas_of(_VISION.quotas),
        balances={"default/gpu": example(Balance)},
    )
)


@dataclass(frozen=True, slots=True)
class QuotaTree(Shown):
    """*nodes*: cohorts, then pools, each by name. *root*: above all of them, with the capacity that is not part of any
    quota.

    *overpromised*: ``flavor/resource`` → by how much all quotas exceed the nodes' capacity (rule Q8).
    """

    nodes: tuple[Cohort, ...]
    root: Cohort
    overpromised: dict[str, int]


shown_as(
    QuotaTree(
        nodes=(example(Cohort),),
        root=replace(
            example(Cohort), name="", kind="root", parent=None, parent_kind=None, children=("research",), quotas={}
        ),
        overpromised={},
    )
)


class PoolPage(Page[Pool]):
    """Sorted by name, subpools after their parents."""


class CohortPage(Page[Cohort]):
    """Sorted by name."""
