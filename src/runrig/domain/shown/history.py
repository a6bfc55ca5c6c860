"""The audit trail of a pool, and a pool as it was declared at a past time."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from runrig.domain.shown.pools import DeclaredPool, Pool
from runrig.domain.value import Page, Shown, at, example, shown_as


@dataclass(frozen=True, slots=True)
class PoolFieldEdit(Shown):
    """One field, before and after.  *resource*: ``flavor/resource`` of a quota, null for what is no quota.

    *before* is null for a pool that was not there.  A nominal of null: no quota of that resource; a limit of null: no limit.
    """

    field: str
    resource: str | None
    before: Any
    after: Any


shown_as(PoolFieldEdit("nominal", "default/gpu", 30, 40))


@dataclass(frozen=True, slots=True)
class PoolChange(Shown):
    """A change of a pool: the author and the time.

    *by*: a person, or runrig; *via*: command, apply, or engine where runrig itself did it.  *what*: created, reactivated, resized,
    moved (to another cohort), changed (anything else), unchanged, deleted, draining, archived; several where they come together.
    """

    revision: int
    seq: int
    time: datetime
    by: str
    via: str
    pool: str
    what: tuple[str, ...]
    changes: tuple[PoolFieldEdit, ...]


_TIME = at(1769860800.25)

shown_as(PoolChange(7, 0, _TIME, "ann", "command", "team--a", ("resized",), (example(PoolFieldEdit),)))


class PoolChangePage(Page[PoolChange]):
    """Newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolThen(DeclaredPool):
    """A pool as it was declared at a past time.  *quota*, *unallocated*: GPUs.  *changed*: what made it so."""

    quota: int
    unallocated: int
    changed: PoolChange


shown_as(
    PoolThen(
        **{each.name: getattr(example(Pool), each.name) for each in fields(DeclaredPool)},
        quota=8,
        unallocated=8,
        changed=example(PoolChange),
    )
)


@dataclass(frozen=True, slots=True)
class PoolPast(Shown):
    """What was declared at the time *at*, not what ran there.  *subpools*: those that were not ARCHIVED."""

    at: datetime
    pool: PoolThen
    subpools: tuple[PoolThen, ...]


shown_as(PoolPast(_TIME, example(PoolThen), ()))
