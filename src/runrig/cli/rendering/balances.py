"""Quota and use of a node of the quota tree, per flavor and resource, as table cells."""

from collections.abc import Mapping
from typing import Any

from runrig.domain.quantities import format_quantity

Balances = Mapping[str, Mapping[str, Any]]

_SHORT = {
    "Nominal": "nominal",
    "Subtree": "subtree",
    "Used": "used",
    "Total": "total",
    "Borrowed": "borrowed",
    "Lent": "lent",
    "Headroom": "headroom",
}
_FULL = {"Drawn": "drawn", "Local": "local", "Balance": "balance", "Potential": "potential"}

COLUMNS = ("Resource", *_SHORT, "Limits")
ALL_COLUMNS = ("Resource", *_SHORT, *_FULL, "Limits")


def rows(balances: Balances, *, full: bool = False) -> list[tuple[str, ...]]:
    """One per ``flavor/resource``, sorted, for COLUMNS; *full*: for ALL_COLUMNS."""
    fields = (*_SHORT.values(), *(_FULL.values() if full else ()))
    return [
        (key, *(_amount(key, balances[key][field]) for field in fields), _limits(key, balances[key]))
        for key in sorted(balances)
    ]


def over(balances: Balances) -> str:
    """The amounts beyond its limits: ``2 of default/gpu, 1Ti of default/memory``; "" if nothing is."""
    beyond = ((key, balances[key]["over"]) for key in sorted(balances))
    return ", ".join(shown(key, amount) for key, amount in beyond if amount)


def shown(key: str, amount: int) -> str:
    """``1Ti of default/memory``."""
    return f"{_amount(key, amount)} of {key}"


def _amount(key: str, amount: int) -> str:
    return format_quantity(key.rpartition("/")[2], amount)


def _limits(key: str, balance: Mapping[str, Any]) -> str:
    """``borrows 8, lends 0``; ``none`` without any."""
    limits = (("borrows", balance["borrowing_limit"]), ("lends", balance["lending_limit"]))
    return ", ".join(f"{verb} {_amount(key, limit)}" for verb, limit in limits if limit is not None) or "none"
