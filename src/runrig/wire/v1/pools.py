"""Pools and cohorts of our own door.  GPUs are whole numbers; a limit of null is no limit."""

from datetime import datetime
from typing import Any

from pydantic import Field

from runrig.domain.pools import Quota, TopologyKey
from runrig.domain.shown.pools import Cohort, Pool
from runrig.wire.base import Request, example, example_of
from runrig.wire.pools import CohortEditRequest, PoolEditRequest
from runrig.wire.v1.base import Page, Shown


class PoolPage(Page):
    """Pools by name, subpools behind their parents."""

    model_config = example({"items": [example_of(Pool)], "next_cursor": None})

    items: list[Pool]


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
    name: example_of(Pool)[name]
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
    quotas: dict[str, dict[str, Quota]]
    queueing: str
    weight: int
    grace_s: float
    flavors: list[str]
    topology_keys: list[TopologyKey]
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


class CohortPage(Page):
    """Cohorts by name."""

    model_config = example({"items": [example_of(Cohort)], "next_cursor": None})

    items: list[Cohort]


class CohortEdit(CohortEditRequest):
    """A field that is absent keeps its value.  *parent* and the limits null: none."""


class CohortCreate(CohortEdit):
    model_config = example({"name": "research", "parent": "org", "quota": 16})

    name: str = Field(description="No pool and no other cohort has it")
