"""Pools and cohorts of our own door.  GPUs are whole numbers; a limit of null is no limit."""

from datetime import datetime
from typing import Any

from pydantic import Field

from runrig.wire.base import Request, example
from runrig.wire.pools import BalanceAnswer, CohortEditRequest, PoolEditRequest, QuotaAnswer, TopologyKeyModel
from runrig.wire.v1.base import Page, Shown, Tagged

_QUOTAS = {"default": {"gpu": QuotaAnswer.example()}}


class PoolGpus(Shown):
    """GPUs of all flavors.  *used*: the pool's own HIGH and NORMAL work, *low*: its own LOW work, *subtree_used*: *used* with that of its
    subpools, *total*: everything held, subpools included.  *borrowed*, *lent*: of the pool alone, from and to its subpools too.

    *available*: unallocated - used + drawn, below zero while the pool drains.  *shared*: cohort → what it promises HIGH and NORMAL
    work beyond unallocated (law P2), *drawn*: what this work holds of that, *shared_left*: what it may still draw.  *held*: what a
    DELETING subpool still holds of its quota, which shows as 0.  *capacity*: on the ready nodes that the pool may use.
    """

    model_config = example(
        {
            "quota": 8,
            "unallocated": 8,
            "used": 4,
            "low": 2,
            "subtree_used": 4,
            "total": 6,
            "available": 4,
            "shared": {},
            "drawn": 0,
            "shared_left": 0,
            "borrowed": 0,
            "lent": 2,
            "held": 0,
            "capacity": 16,
        }
    )

    quota: int
    unallocated: int
    used: int
    low: int
    subtree_used: int
    total: int
    available: int
    shared: dict[str, int]
    drawn: int
    shared_left: int
    borrowed: int
    lent: int
    held: int
    capacity: int


class NodeShare(Shown):
    """The ready nodes that it may use, and those of the pools of the same answer with which it shares nodes, directly or through others.

    *set*: the first of these pools, so it is the same for all of them.  *gpus*, *free_gpus*: of all these nodes.
    """

    model_config = example({"set": "vision", "gpus": 16, "free_gpus": 10})

    set: str
    gpus: int
    free_gpus: int


_POOL: dict[str, Any] = {
    "name": "vision",
    "parent": None,
    "state": "ACTIVE",
    "description": "",
    "cohort": "research",
    "quotas": _QUOTAS,
    "queueing": "BEST_EFFORT_FIFO",
    "weight": 1,
    "grace_s": 30.0,
    "flavors": [],
    "topology_keys": [TopologyKeyModel.example()],
    "default_platform": "default",
    "default_exit_actions": {},
    "default_run_time_s": None,
    "max_run_time_s": None,
    "closed_by": None,
    "closed_since": None,
    "closed_reason": "",
    "backend": "default",
    "subpools": ["vision--a"],
    "workflows": 1,
    "gpus": PoolGpus.example(),
    "nodes": NodeShare.example(),
    "balances": {"default/gpu": BalanceAnswer.example()},
}


class Pool(Tagged):
    """*parent*: that of a subpool, whose settings but for its quota are its parent's; null of any other pool.

    *quotas*: flavor → resource → quota.  *flavors* empty: all of them.  *backend*: who runs the tasks.  *subpools*: those that are
    not ARCHIVED.  *workflows*: those of the pool itself that have not ended.  *balances*: ``flavor/resource`` → the pool's node of the
    quota tree.  *default_run_time_s*, *max_run_time_s* null: no limit (law P6).  *closed_by*: who closed it, or its parent, to
    submissions; null: it is open.
    """

    model_config = example(_POOL)

    name: str
    parent: str | None
    state: str
    description: str
    cohort: str | None
    quotas: dict[str, dict[str, QuotaAnswer]]
    queueing: str
    weight: int
    grace_s: float
    flavors: list[str]
    topology_keys: list[TopologyKeyModel]
    default_platform: str | None
    default_exit_actions: dict[str, str]
    default_run_time_s: float | None
    max_run_time_s: float | None
    closed_by: str | None
    closed_since: datetime | None
    closed_reason: str
    backend: str
    subpools: list[str]
    workflows: int
    gpus: PoolGpus
    nodes: NodeShare
    balances: dict[str, BalanceAnswer]


class PoolPage(Page):
    """Pools by name, subpools behind their parents."""

    model_config = example({"items": [_POOL], "next_cursor": None})

    items: list[Pool]


class PoolDeleted(Shown):
    """*pool*: ARCHIVED if nothing ran there; else DELETING until what runs there has ended.  *cancelled*: workflows that had not
    started."""

    model_config = example({"pool": _POOL | {"state": "ARCHIVED"}, "cancelled": ["train-7"]})

    pool: Pool
    cancelled: list[str]


class PoolEdit(PoolEditRequest):
    """A field that is absent keeps its value.  *cohort*, *borrowing_limit* and *lending_limit* null: none.

    *quota* of a subpool: GPUs, or a percentage of its parent's such as "25%"; it has nothing else of its own."""


class PoolClose(Request):
    """*reason*: told to everybody whose submission is refused."""

    model_config = example({"reason": "moves to the new racks on Friday"})

    reason: str = ""


class PoolCreate(PoolEdit):
    """*parent*: it becomes a subpool of that pool, and *name* is the short one: it is then called PARENT--NAME."""

    model_config = example({"name": "vision", "quota": 8, "cohort": "research", "borrowing_limit": 8})

    name: str
    parent: str | None = None


# ---------------------------------------------------------------- the audit trail of a pool

_TIME = "2026-01-31T12:00:00.250000Z"


class PoolFieldEdit(Shown):
    """One field, before and after.  *resource*: ``flavor/resource`` of a quota, null for what is no quota.

    *before* is null for a pool that was not there.  A nominal of null: no quota of that resource; a limit of null: no limit.
    """

    model_config = example({"field": "nominal", "resource": "default/gpu", "before": 30, "after": 40})

    field: str
    resource: str | None
    before: Any
    after: Any


class PoolChange(Shown):
    """Who changed a pool and when.

    *by*: a person, or runrig; *via*: command, apply, or engine where runrig itself did it.  *what*: created, reactivated, resized,
    moved (to another cohort), changed (anything else), unchanged, deleted, draining, archived; several where they come together.
    """

    model_config = example(
        {
            "revision": 7,
            "seq": 0,
            "time": _TIME,
            "by": "ann",
            "via": "command",
            "pool": "team--a",
            "what": ["resized"],
            "changes": [PoolFieldEdit.example()],
        }
    )

    revision: int
    seq: int
    time: datetime
    by: str
    via: str
    pool: str
    what: list[str]
    changes: list[PoolFieldEdit]


class PoolChangePage(Page):
    """Newest first."""

    model_config = example({"items": [PoolChange.example()], "next_cursor": None})

    items: list[PoolChange]


_THEN: dict[str, Any] = {
    name: _POOL[name]
    for name in (
        "name",
        "parent",
        "state",
        "description",
        "cohort",
        "quotas",
        "queueing",
        "weight",
        "grace_s",
        "flavors",
        "topology_keys",
        "default_platform",
        "default_exit_actions",
        "default_run_time_s",
        "max_run_time_s",
        "closed_by",
        "closed_since",
        "closed_reason",
    )
} | {"quota": 8, "unallocated": 8, "changed": PoolChange.example()}


class PoolThen(Shown):
    """A pool as it was declared at a past time.  *quota*, *unallocated*: GPUs.  *changed*: what made it so."""

    model_config = example(_THEN)

    name: str
    parent: str | None
    state: str
    description: str
    cohort: str | None
    quotas: dict[str, dict[str, QuotaAnswer]]
    queueing: str
    weight: int
    grace_s: float
    flavors: list[str]
    topology_keys: list[TopologyKeyModel]
    default_platform: str | None
    default_exit_actions: dict[str, str]
    default_run_time_s: float | None
    max_run_time_s: float | None
    closed_by: str | None
    closed_since: datetime | None
    closed_reason: str
    quota: int
    unallocated: int
    changed: PoolChange


class PoolPast(Shown):
    """What was declared at the time *at*, not what ran there.  *subpools*: those that were not ARCHIVED."""

    model_config = example({"at": _TIME, "pool": _THEN, "subpools": []})

    at: datetime
    pool: PoolThen
    subpools: list[PoolThen]


# ---------------------------------------------------------------- cohorts

_COHORT: dict[str, Any] = {
    "name": "research",
    "kind": "cohort",
    "parent": "org",
    "parent_kind": "cohort",
    "children": ["batch", "vision"],
    "declared": True,
    "active": True,
    "weight": 1,
    "quotas": _QUOTAS,
    "balances": {"default/gpu": BalanceAnswer.example()},
}


class Cohort(Tagged):
    """A node of the quota tree.  *kind*: cohort, pool, or root.  *declared* false: only others name it (law Q6).  *active* false: its
    parents run in a circle (law Q5).

    *parent* null: under the implicit root.  *parent_kind* tells a pool from a cohort of the same name.
    """

    model_config = example(_COHORT)

    name: str
    kind: str
    parent: str | None
    parent_kind: str | None
    children: list[str]
    declared: bool
    active: bool
    weight: int
    quotas: dict[str, dict[str, QuotaAnswer]]
    balances: dict[str, BalanceAnswer]


class CohortPage(Page):
    """Cohorts by name."""

    model_config = example({"items": [_COHORT], "next_cursor": None})

    items: list[Cohort]


class QuotaTree(Shown):
    """*nodes*: cohorts, then pools, each by name.  *root*: above all of them, with what nobody was promised.

    *overpromised*: ``flavor/resource`` → how much more was promised than the nodes have (law Q8).
    """

    model_config = example(
        {
            "nodes": [_COHORT],
            "root": _COHORT
            | {"name": "", "kind": "root", "parent": None, "parent_kind": None, "children": ["research"], "quotas": {}},
            "overpromised": {},
        }
    )

    nodes: list[Cohort]
    root: Cohort
    overpromised: dict[str, int]


class CohortEdit(CohortEditRequest):
    """A field that is absent keeps its value.  *parent* and the limits null: none."""


class CohortCreate(CohortEdit):
    model_config = example({"name": "research", "parent": "org", "quota": 16})

    name: str = Field(description="No pool and no other cohort has it")
