"""Pools and cohorts: what they were given, and what they use of it.  GPUs are whole numbers; a limit of null is no limit."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from runrig.domain import pools
from runrig.domain.pools import PoolState, Quota, TopologyKey
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.settings import shown
from runrig.domain.value import NO_AMOUNTS, Amounts, Page, Shown, Tagged, at, example, shown_as

Quotas = dict[str, dict[str, Quota]]
"""Flavor → resource → quota, sorted."""


def quotas_of(declared: pools.Quotas) -> Quotas:
    found: Quotas = {}
    for key, quota in sorted(declared.items()):
        found.setdefault(key.flavor, {})[key.resource] = quota
    return found


@dataclass(frozen=True, slots=True)
class Balance(Shown):
    """A node of the quota tree for one flavor and resource.

    *subtree*: its nominal and what its children lend it; *local*: the part of that which its lending limit keeps inside.
    *used*: held by HIGH and NORMAL below it, *drawn*: the part of that which is quota shared by cohorts above; *total*: held by all;
    *usage*: the part of that which goes beyond what the children keep.
    *balance*: subtree - usage, below zero while it borrows.  *headroom*: what it may still use, with the limits of all levels
    applied; below zero where the tree is over-committed.  *potential*: the headroom of an empty tree.  *over*: how far it is beyond its own
    limits, because a quota was cut or something was moved.  What runs keeps running; nothing new starts until it has ended.
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
    """GPUs of all flavors.  *used*: the pool's own HIGH and NORMAL work, *low*: its own LOW work, *subtree_used*: *used* with that of its
    subpools, *total*: everything held, subpools included.  *borrowed*, *lent*: of the pool alone, from and to its subpools too.

    *available*: unallocated - used + drawn, below zero while the pool drains.  *shared*: cohort → what it promises HIGH and NORMAL
    work beyond unallocated (law P2), *drawn*: what this work holds of that, *shared_left*: what it may still draw.  *held*: what a
    DELETING subpool still holds of its quota, which shows as 0.  *capacity*: on the ready nodes that the pool may use.
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
    """The ready nodes that it may use, and those of the pools of the same answer with which it shares nodes, directly or through others.

    *set*: the first of these pools, so it is the same for all of them.  *gpus*, *free_gpus*: of all these nodes.
    """

    set: str
    gpus: int
    free_gpus: int


shown_as(NodeShare("vision", 16, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPool(pools.Declared, Shown):
    """The declaration of a pool.  A subpool has the settings of its parent, except for its quota (rule S5)."""

    quotas: Quotas
    default_exit_actions: dict[str, str]
    closed_since: datetime | None


def declared(own: pools.Pool, settings: pools.Pool) -> dict[str, Any]:
    """The fields of `DeclaredPool`.  *settings*: those that apply to *own*: the parent of a subpool, else itself."""
    closed = settings if own.closed_by is None else own
    return {
        **{name: getattr(own, name) for name in ("name", "parent", "state")},
        **shown(settings),
        "quotas": quotas_of(own.quotas),
        "closed_by": closed.closed_by,
        "closed_since": at(closed.closed_since),
        "closed_reason": closed.closed_reason,
    }


_VISION = pools.Pool(
    "vision",
    {FlavorResource("default", GPU): example(Quota)},
    cohort="research",
    topology_keys=(example(TopologyKey),),
    default_platform="default",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(DeclaredPool):
    """*parent*: that of a subpool, whose settings but for its quota are its parent's; null of any other pool.

    *quotas*: flavor → resource → quota.  *flavors* empty: all of them.  *backend*: who runs the tasks.  *subpools*: those that are
    not ARCHIVED.  *workflows*: those of the pool itself that have not ended.  *balances*: ``flavor/resource`` → the pool's node of the
    quota tree.  *default_run_time_s*, *max_run_time_s* null: no limit (law P6).  *closed_by*: who closed it, or its parent, to
    submissions; null: it is open.
    """

    UNTOLD = ("etag",)

    backend: str
    subpools: tuple[str, ...]
    workflows: int
    gpus: PoolGpus
    nodes: NodeShare
    balances: Balances
    etag: str | None = None


shown_as(
    Pool(
        **declared(_VISION, _VISION),
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
    """*pool*: ARCHIVED if nothing ran there; else DELETING until what runs there has ended.  *cancelled*: workflows that had not
    started."""

    pool: Pool
    cancelled: tuple[str, ...]


shown_as(PoolDeleted(replace(example(Pool), state=PoolState.ARCHIVED), ("train-7",)))


@dataclass(frozen=True, slots=True)
class Cohort(Tagged):
    """A node of the quota tree.  *kind*: cohort, pool, or root.  *declared* false: only others name it (law Q6).  *active* false: its
    parents run in a circle (law Q5).

    *parent* null: under the implicit root.  *parent_kind* tells a pool from a cohort of the same name.
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
    """Of a pool."""


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
    """*nodes*: cohorts, then pools, each by name.  *root*: above all of them, with what nobody was promised.

    *overpromised*: ``flavor/resource`` → how much more was promised than the nodes have (law Q8).
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
    """By name, subpools after their parents."""


class CohortPage(Page[Cohort]):
    """By name."""
