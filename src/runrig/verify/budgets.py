"""Budgets, W7: what pools and users hold in a month is counted again, from the starts and ends of gangs in the log."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .gang import ADMITTED, STOPPING, Gang, gpus_of
from .world import World

POOL, USER = "pool", "user"
SPENDING = frozenset(("SetSpent", "Admit", "Replace", "Release", "Queue", "Abandon"))
"""Kinds of actions that `Spending` follows."""
HOUR = 3600 * 1_000_000
"""A GPU-hour in GPU × microseconds."""
Scope = tuple[str, str]
Kept = tuple[tuple[Scope, ...], int]


class Spending:
    """*held*: since when GPU × microseconds of the month are counted, and how many before that. *gpus*: those that count now.

    *kept*: what each gang adds to *gpus*. Counting begins with the first recorded amount.
    """

    def __init__(self) -> None:
        self.held: dict[Scope, tuple[float, int]] = {}
        self.gpus: dict[Scope, int] = {}
        self.kept: dict[str, Kept] = {}

    def until(self, scope: Scope, now: float) -> int:
        """What is held in the month of *now* until then."""
        since, before = self.held[scope]
        begin = month_of(now)
        lasted = round(now * 1_000_000) - round(max(since, begin) * 1_000_000)
        return (before if since >= begin else 0) + self.gpus[scope] * lasted

    def follow(self, world: World, kind: str, action: Mapping[str, Any]) -> None:
        """*action* has been carried out."""
        if kind == "SetSpent":
            self._set(world, action)
        elif self.held and kind not in ("Queue", "Abandon"):
            self._count(world, action["gang"])
        elif self.held:
            whose = action["gang"]["id"] if kind == "Queue" else action["workflow"]
            for id in [id for id in self.kept if whose in (id, id.partition("/")[0])]:
                self._count(world, id)

    def differs(self, other: "Spending", now: float) -> str | None:
        """Returns the first budget with another amount in *other*; None: there is none."""
        for scope in sorted(self.held.keys() | other.held.keys()):
            if scope not in self.held or scope not in other.held or self.until(scope, now) != other.until(scope, now):
                return f"amount spent by {' '.join(scope)}"
        return None

    def _set(self, world: World, action: Mapping[str, Any]) -> None:
        spent = action["spent"]
        scope = spent["of"], spent["name"]
        if action["budget"] is None:
            self.held.pop(scope, None)
            return
        if not self.held:
            self.kept = {}
            for id in world.gangs:
                self._count(world, id)
        if scope not in self.held:
            self.gpus[scope] = sum(gpus for scopes, gpus in self.kept.values() if scope in scopes)
        self.held[scope] = spent["since"], spent["held"]

    def _count(self, world: World, id: str) -> None:
        gang = world.gangs.get(id)
        scopes, before = self.kept.pop(id, ((), 0))
        now = 0
        if gang is not None and gang.state in (ADMITTED, STOPPING):
            scopes, now = scopes_of(gang), gpus_of(gang, gang.placement)
            self.kept[id] = scopes, now
        for scope in scopes:
            if scope in self.held and now != before:
                self.held[scope] = world.now, self.until(scope, world.now)
                self.gpus[scope] += now - before


def month_of(now: float) -> float:
    """The start of the calendar month in UTC."""
    moment = datetime.fromtimestamp(now, UTC)
    return datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp()


def scopes_of(gang: Gang) -> tuple[Scope, Scope]:
    return (POOL, gang.pool.partition("--")[0]), (USER, gang.user)


def budget_of(world: World, scope: Scope) -> tuple[int | None, str]:
    """GPU-hours a month, and what a reached budget does; None: there is none."""
    of, name = scope
    row = world.pools.get(name, {}) if of == POOL else world.limits.get(name, {})
    alive = row.get("state") != "ARCHIVED"
    return row.get("budget") if alive else None, row.get("budget_reached") or "STOP"
