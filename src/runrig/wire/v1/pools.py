"""Pools and cohorts of API v1, and limits of users. GPUs are whole numbers; a limit of null means no limit."""

from typing import Any

from pydantic import Field, create_model

from runrig.domain.limits import LimitValues
from runrig.domain.settings import SETTINGS
from runrig.wire.base import NUMBERS, Request, Whole, edits_of, example

QuotaRequest = Whole | str | dict[str, Any]
"""GPUs; ``h100=8,b200=4``; or the full form of a cluster file: ``{h100: {gpu: {nominal: 8, borrowing_limit: 8}}}``.

A part of the text form is FLAVOR=GPUS, RESOURCE=AMOUNT or FLAVOR/RESOURCE=AMOUNT; ``none`` as the amount removes the
quota.
"""

LimitRequest = Whole | str
"""GPUs of the only flavor; or ``h100=8,b200/cpu=none`` as in a quota, where ``none`` means no limit."""


_ASKED: dict[str, Any] = {each.asked: (NUMBERS.get(each.kind.takes, each.kind.takes) | None, None) for each in SETTINGS}
_Settings: Any = create_model("_Settings", __base__=Request, **_ASKED)


class PoolEdit(_Settings):  # type: ignore[misc]  # a field for each row of `domain.settings`
    """Missing fields keep their values. null removes *cohort*, *borrowing_limit* or *lending_limit*.

    *quota* of a subpool: GPUs, or a percentage of its parent's such as "25%". A subpool has no other settings.
    """

    model_config = example({"quota": 12, "borrowing_limit": 4})

    quota: QuotaRequest | None = None
    borrowing_limit: LimitRequest | None = None
    lending_limit: LimitRequest | None = None


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


class CohortEdit(Request):
    """Missing fields keep their values. null removes *parent* or a limit."""

    model_config = example({"quota": 16, "lending_limit": 8})

    parent: str | None = None
    quota: QuotaRequest | None = None
    borrowing_limit: LimitRequest | None = None
    lending_limit: LimitRequest | None = None
    weight: Whole | None = None


class CohortCreate(CohortEdit):
    model_config = example({"name": "research", "parent": "org", "quota": 16})

    name: str = Field(description="Must be unique among pools and cohorts")


_Limits = edits_of(LimitValues)


class LimitsEdit(_Limits):  # type: ignore[misc, valid-type]  # a field for each limit
    """Missing fields keep their values. null: no limit."""

    model_config = example({"gpus": 8, "waiting": 20})
