"""Edits of quotas as the doors read them."""

from typing import Any

from runrig.domain.amounts import Amount, Share
from runrig.domain.settings import PARTS
from runrig.spec.quota import Kinds, read_amounts, share_from_json

FLAVORS = ("h100", "b200")


def amounts(flavors: tuple[str, ...] = FLAVORS, **said: Any) -> tuple[Amount, ...]:
    """*said*: quota, borrowing_limit and lending_limit of a request.  *flavors*: those that there are."""
    kinds = Kinds(flavors, flavors)
    found = (read_amounts(said.pop(name), part, kinds) for part, name in PARTS.items() if name in said)
    read = tuple(amount for each in found for amount in each)
    assert not said, f"these are no parts of a quota: {sorted(said)}"
    return read


def share(said: object, flavors: tuple[str, ...] = FLAVORS) -> Share:
    """*said*: quota of a subpool.  Raises InvalidInput."""
    return share_from_json(said, Kinds(flavors, flavors))
