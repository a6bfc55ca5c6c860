"""The audit trail of a pool, and a pool as it was declared at a past time."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from runrig.domain.shown.pools import DeclaredPool, Pool
from runrig.domain.value import Page, Shown, at, example, shown_as


@dataclass(frozen=True, slots=True)
class PoolFieldEdit(Shown):
    """A changed field. *resource*: ``flavor/resource`` if it belongs to a quota, otherwise null.

    *before* is null for a new pool. A nominal of null means no quota for that resource; a limit of null means no limit.
    """

    field: str
    resource: str | None
    before: Any
    after: Any


shown_as(PoolFieldEdit("nominal", "default/gpu", 30, 40))


@dataclass(frozen=True, slots=True)
class PoolChange(Shown):
    """A change of a pool: the author and the time.

    *by*: a user, or runrig. *via*: command, apply, or engine for automatic changes. *what*, one or several of: created,
    reactivated, resized, moved (to another cohort), changed (anything else), unchanged, deleted, draining, archived.
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
    """A pool as it was declared at a past time. *quota*, *unallocated*: GPUs. *changed*: the change that led to it."""

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
    """The declaration at the time *at*, without workflows. *subpools*: those that were not ARCHIVED."""

    at: datetime
    pool: PoolThen
    subpools: tuple[PoolThen, ...]


shown_as(PoolPast(_TIME, example(PoolThen), ()))
