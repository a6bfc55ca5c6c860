"""Numbers of one node of the quota tree, as `simulate` shows them."""

from dataclasses import dataclass
from typing import NamedTuple


class Balance(NamedTuple):
    """The terms of rules Q3 and Q4 for one node and (flavor, resource). *available* may be negative.

    *used*: by work that cannot borrow; None if it is not counted.
    """

    nominal: int
    subtree: int
    local: int
    usage: int
    balance: int
    available: int
    potential: int
    used: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A node's dominant share of what its parent could ever get, in per mille divided by its weight, rounded up.

    *value* 2**63 - 1: it borrows with weight 0. *resource*: the dominant one; empty if no resource is borrowed.
    """

    value: int
    resource: str
    borrowing: bool
