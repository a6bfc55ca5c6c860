"""The table of `pool list`: subpools below their pool, numbers in GPUs."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from runrig.cli.rendering.tables import Column, Table
from runrig.cli.rendering.times import local
from runrig.cli.rendering.tree import tree

Pool = Mapping[str, Any]
ACTIVE, DELETING, ARCHIVED = "ACTIVE", "DELETING", "ARCHIVED"
_NAMES = (Column("Pool", least=14), Column("Status", 3, least=13), Column("Subpool State", 1))
_USED = (Column("GPU Quota", 9, prose=True), Column("Used", 7), Column("Available"))
_FREE = (Column("Quota Free", 9), Column("Capacity Free", 7))
_WIDE = (
    Column("LOW", 3, prose=True),
    Column("Total", 6, prose=True),
    Column("Borrowed", 5),
    Column("Lent", 4),
    Column("Capacity", 2),
)


def table(answer: Mapping[str, Any], *, free: bool, wide: bool, archived: bool) -> Table:
    """Returns a row per pool, and totals if several pools have no parent.

    *free*: show what is left of quota and capacity instead of usage. *archived*: include those rows.
    """
    pools = {
        pool["name"]: pool
        for node_set in answer["node_sets"]
        for pool in node_set["pools"]
        if archived or pool["state"] != ARCHIVED
    }
    tops = [pool for pool in pools.values() if pool["parent"] not in pools]
    drawn = tree(sorted(pools.values(), key=itemgetter("name")), itemgetter("name"), itemgetter("parent"))
    return Table(
        _NAMES + (_FREE if free else _USED) + (_WIDE if wide else ()),
        [_row(lines, pool, free=free, wide=wide) for lines, pool in drawn],
        _sums(answer["resource_sum"], pools, tops, free=free, wide=wide) if len(tops) > 1 else None,
    )


def of_subpools(pools: Sequence[Pool]) -> Table:
    """Returns a row per subpool, as in `pool list`."""
    rows = [_row("", pool, free=False, wide=False) for pool in pools]
    return Table(_NAMES + _USED, rows)


def _row(prefix: str, pool: Pool, *, free: bool, wide: bool) -> tuple[str, ...]:
    names = (prefix + pool["name"], _status(pool), pool["subpool_state"] or "-")
    if free:
        numbers: tuple[Any, ...] = (_available(pool), pool["resource_usage"]["total_free"])
    else:
        used = _with_subpools(pool, pool["used"], pool["subtree_used"]) if wide else pool["used"]
        numbers = (_quota(pool), used, _available(pool))
    if wide:
        low = _with_subpools(pool, pool["low"], pool["total"] - pool["subtree_used"])
        total = _with_subpools(pool, pool["used"] + pool["low"], pool["total"])
        numbers += (low, total, *(pool[name] for name in ("borrowed", "lent", "capacity")))
    return names + tuple(str(number) for number in numbers)


def _with_subpools(pool: Pool, own: int, all_of_it: int) -> str:
    """Returns the usage of the pool itself, and for a parent also with subpools."""
    return f"{own} (With subpools: {all_of_it})" if pool["subpools"] else str(own)


def _status(pool: Pool) -> str:
    """Returns ONLINE, PAUSED (until when) or CLOSED, or the state of a deleted pool."""
    if pool["paused_by"] and pool["state"] == ACTIVE:
        return f"PAUSED until {local(pool['paused_until'])[:-3]}" if pool["paused_until"] else "PAUSED"
    if pool["closed_by"] and pool["state"] == ACTIVE:
        return "CLOSED"
    return str(pool["status"] if pool["state"] == ACTIVE else pool["state"])


def _quota(pool: Pool) -> str:
    """Returns unallocated and total quota, and shared quota; for a DELETING pool, how much is still in use."""
    if pool["state"] == DELETING:
        return f"0 (Held: {pool['held']})"
    quota = f"{pool['unallocated']} (Total: {pool['quota']})" if pool["subpools"] else str(pool["quota"])
    shared = "".join(f" + {amount} shared by {cohort}" for cohort, amount in pool["shared"].items())
    return quota + shared


def shared(pool: Pool) -> str | None:
    """Returns ``6 by research: draws 1, 5 left``; None if no cohort shares anything with it."""
    parts = [f"{amount} by {cohort}" for cohort, amount in pool.get("shared", {}).items()]
    return f"{', '.join(parts)}: draws {pool['drawn']}, {pool['shared_left']} left" if parts else None


def _available(pool: Pool) -> str:
    """Returns what is left of its own quota, and what it can still draw from cohorts."""
    return f"{pool['available']} + {pool['shared_left']} shared" if pool["shared"] else str(pool["available"])


def _sums(
    shared: Mapping[str, Any], pools: Mapping[str, Pool], tops: list[Pool], *, free: bool, wide: bool
) -> tuple[str, ...]:
    """Returns the totals of pools without a parent. *shared* counts shared nodes once."""
    available = sum(pool["available"] for pool in pools.values())
    if free:
        numbers: tuple[Any, ...] = (available, shared["total_free"])
    else:
        numbers = (sum(pool["quota"] for pool in tops), sum(pool["used"] for pool in pools.values()), available)
    if wide:
        low, borrowed, lent = (sum(pool[name] for pool in pools.values()) for name in ("low", "borrowed", "lent"))
        numbers += (
            low,
            sum(pool["used"] + pool["low"] for pool in pools.values()),
            borrowed,
            lent,
            shared["total_capacity"],
        )
    return ("Sum", "", "", *(str(number) for number in numbers))
