"""The audit trail of pools: its entries, and a pool as it stood at a past time."""

from datetime import datetime
from typing import Any

from runrig.wire.base import Answer, example
from runrig.wire.pools import QuotaAnswer, TopologyKeyModel

_TIME = "2026-01-31T12:00:00.250000"
NOT_IN_IT = "what was declared; what ran and waited there then, and so used, total and available, is not part of it"


class PoolEditAnswer(Answer):
    """One field, before and after.  *resource*: ``flavor/resource`` of a quota, null for what is no quota.

    *before* is null for a pool that was not there.  A nominal of null: no quota of that resource; a limit of null: no limit.
    """

    model_config = example({"field": "nominal", "resource": "default/gpu", "before": 30, "after": 40})

    field: str
    resource: str | None
    before: Any
    after: Any


class PoolChangeAnswer(Answer):
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
            "changes": [PoolEditAnswer.example()],
        }
    )

    revision: int
    seq: int
    time: datetime
    by: str
    via: str
    pool: str
    what: list[str]
    changes: list[PoolEditAnswer]


class PoolHistoryAnswer(Answer):
    """Newest first.  *next*: as `after` it asks for the entries behind these; null at the end."""

    model_config = example({"pool": "team", "entries": [PoolChangeAnswer.example()], "next": "7.0"})

    pool: str
    entries: list[PoolChangeAnswer]
    next: str | None


_THEN: dict[str, Any] = {
    "name": "team",
    "description": "",
    "state": "ACTIVE",
    "cohort": "research",
    "parent": None,
    "subpool_name": None,
    "subpool_state": None,
    "quotas": {"default": {"gpu": QuotaAnswer.example()}},
    "quota": 8,
    "unallocated": 8,
    "queueing": "BEST_EFFORT_FIFO",
    "weight": 1,
    "grace_s": 30.0,
    "flavors": [],
    "topology_keys": [TopologyKeyModel.example()],
    "default_platform": None,
    "default_exit_actions": {},
    "changed": PoolChangeAnswer.example() | {"pool": "team"},
}


class PoolThenAnswer(Answer):
    """A pool at a past time, with the fields that it has today.  *quota*, *unallocated*: GPUs.  *changed*: what made it so."""

    model_config = example(_THEN)

    name: str
    description: str
    state: str
    cohort: str | None
    parent: str | None
    subpool_name: str | None
    subpool_state: str | None
    quotas: dict[str, dict[str, QuotaAnswer]]
    quota: int
    unallocated: int
    queueing: str
    weight: int
    grace_s: float
    flavors: list[str]
    topology_keys: list[TopologyKeyModel]
    default_platform: str | None
    default_exit_actions: dict[str, str]
    changed: PoolChangeAnswer


class PoolAtAnswer(Answer):
    """*subpools*: those that were not ARCHIVED at that time.  *note*: what the answer is about."""

    model_config = example({"at": _TIME, "note": NOT_IN_IT, "pool": _THEN, "subpools": []})

    at: datetime
    note: str = NOT_IN_IT
    pool: PoolThenAnswer
    subpools: list[PoolThenAnswer]
