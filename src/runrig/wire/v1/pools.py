"""Pools and cohorts of API v1, and limits of users. GPUs are whole numbers; a limit of null means no limit."""

from typing import Any, get_type_hints

from pydantic import Field, create_model

from runrig.domain.limits import LimitValues
from runrig.wire.base import Request, Whole, example
from runrig.wire.pools import CohortEditRequest, PoolEditRequest


class PoolEdit(PoolEditRequest):
    """Missing fields keep their values. null removes *cohort*, *borrowing_limit* or *lending_limit*.

    *quota* of a subpool: GPUs, or a percentage of its parent's such as "25%". A subpool has no other settings.
    """


class PoolClose(Request):
    """*reason*: shown to users whose submission is refused."""

    model_config = example({"reason": "moves to the new racks on Friday"})

    reason: str = ""


class PoolPause(PoolClose):
    """*reason*: shown to the users whose workflows wait. *until*: when the pause ends by itself: a duration from now, such as
    "2h", or a time, in UTC unless it has a zone; null: until the pool is resumed.
    """

    model_config = example({"reason": "the file system is being checked", "until": "2h"})

    until: str | None = None


class PoolCreate(PoolEdit):
    """*parent*: creates a subpool of that pool. *name* is then the short name, and the pool is called PARENT--NAME."""

    model_config = example({"name": "vision", "quota": 8, "cohort": "research", "borrowing_limit": 8})

    name: str
    parent: str | None = None


class CohortEdit(CohortEditRequest):
    """Missing fields keep their values. null removes *parent* or a limit."""


class CohortCreate(CohortEdit):
    model_config = example({"name": "research", "parent": "org", "quota": 16})

    name: str = Field(description="Must be unique among pools and cohorts")


_ASKED: dict[str, Any] = {
    name: (Whole | None if kind == int | None else kind, None)
    for name, kind in get_type_hints(LimitValues).items()
    if name != "UNTOLD"
}
_Limits: Any = create_model("_Limits", __base__=Request, **_ASKED)


class LimitsEdit(_Limits):  # type: ignore[misc]  # a field for each limit
    """Missing fields keep their values. null: no limit."""

    model_config = example({"gpus": 8, "waiting": 20})
