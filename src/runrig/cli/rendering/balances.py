"""Quota and usage of a node of the quota tree, per flavor and resource, as table cells."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from runrig.cli.rendering.tables import Column
from runrig.domain.quantities import amount_of_flavor, format_quantity

Balances = Mapping[str, Mapping[str, Any]]

_SHORT: Mapping[Column, Callable[[Mapping[str, Any]], int]] = {
    Column("Quota", 8): itemgetter("nominal"),
    Column("Subtree", 2): itemgetter("subtree"),
    Column("Guaranteed used", 7): itemgetter("used"),
    Column("Preemptible used", 5): lambda balance: balance["total"] - balance["used"],
    Column("Borrowed", 4): itemgetter("borrowed"),
    Column("Lent", 3): itemgetter("lent"),
    Column("Headroom", 6): itemgetter("headroom"),
}
_FULL: Mapping[Column, Callable[[Mapping[str, Any]], int]] = {
    Column("Drawn", 1): itemgetter("drawn"),
    Column("Local", 0): itemgetter("local"),
    Column("Balance", 0): itemgetter("balance"),
    Column("Potential", 0): itemgetter("potential"),
}

_RESOURCE, _LIMITS = Column("Resource"), Column("Limits", 1)
COLUMNS = (_RESOURCE, *_SHORT, _LIMITS)
ALL_COLUMNS = (_RESOURCE, *_SHORT, *_FULL, _LIMITS)


def rows(balances: Balances, *, full: bool = False) -> list[tuple[str, ...]]:
    """Returns one row per ``flavor/resource``, sorted, for COLUMNS; *full*: for ALL_COLUMNS."""
    numbers = (*_SHORT.values(), *(_FULL.values() if full else ()))
    return [
        (key, *(_amount(key, number(balances[key])) for number in numbers), _limits_of(key, balances[key]))
        for key in sorted(balances)
    ]


def over(balances: Balances) -> str:
    """The amounts beyond its limits: ``2 GPUs, 1Ti memory``; "" if nothing is."""
    beyond = ((key, balances[key]["over"]) for key in sorted(balances))
    return ", ".join(shown(key, amount) for key, amount in beyond if amount)


def shown(key: str, amount: int) -> str:
    """``2 GPUs``, ``2 h100 GPUs``, ``1Ti memory``."""
    return amount_of_flavor(key, amount, named=not key.startswith("default/"))


def _amount(key: str, amount: int) -> str:
    return format_quantity(key.rpartition("/")[2], amount)


def _limits_of(key: str, balance: Mapping[str, Any]) -> str:
    """``borrows 8, lends 0``; ``none`` without any."""
    limits = (("borrows", balance["borrowing_limit"]), ("lends", balance["lending_limit"]))
    return ", ".join(f"{verb} {_amount(key, limit)}" for verb, limit in limits if limit is not None) or "none"
