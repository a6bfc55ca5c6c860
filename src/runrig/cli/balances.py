"""What a node of the quota tree was given and uses, per flavor and resource, as table cells."""

from collections.abc import Mapping
from typing import Any

from runrig.domain.quantities import format_quantity

COLUMNS = ("Resource", "Nominal", "Used", "Balance", "Headroom", "Borrowing Limit", "Lending Limit")


def rows(balances: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One per ``flavor/resource``, sorted; limits of None are ``none``."""
    return [(key, *_cells(key.rpartition("/")[2], balances[key])) for key in sorted(balances)]


def _cells(resource: str, balance: Mapping[str, Any]) -> tuple[str, ...]:
    def cell(name: str) -> str:
        amount = balance[name]
        return "none" if amount is None else format_quantity(resource, amount)

    return tuple(cell(name) for name in ("nominal", "usage", "balance", "headroom", "borrowing_limit", "lending_limit"))
