"""Pools and cohorts of our own door.  GPUs are whole numbers; a limit of null is no limit."""

from pydantic import Field

from runrig.wire.base import Request, example
from runrig.wire.pools import CohortEditRequest, PoolEditRequest


class PoolEdit(PoolEditRequest):
    """A field that is absent keeps its value.  *cohort*, *borrowing_limit* and *lending_limit* null: none.

    *quota* of a subpool: GPUs, or a percentage of its parent's such as "25%"; it has nothing else of its own."""


class PoolClose(Request):
    """*reason*: told to everybody whose submission is refused."""

    model_config = example({"reason": "moves to the new racks on Friday"})

    reason: str = ""


class PoolCreate(PoolEdit):
    """*parent*: it becomes a subpool of that pool, and *name* is the short one: it is then called PARENT--NAME."""

    model_config = example({"name": "vision", "quota": 8, "cohort": "research", "borrowing_limit": 8})

    name: str
    parent: str | None = None


class CohortEdit(CohortEditRequest):
    """A field that is absent keeps its value.  *parent* and the limits null: none."""


class CohortCreate(CohortEdit):
    model_config = example({"name": "research", "parent": "org", "quota": 16})

    name: str = Field(description="No pool and no other cohort has it")
