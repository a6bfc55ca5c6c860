"""Pools and cohorts: their settings and usage.

The fields of the osmo API come first, then those of runrig. GPUs are whole numbers; a limit of null means no limit.
"""

from typing import Any

from pydantic import create_model

from runrig.domain.records import Said
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


class PoolEditRequest(_Settings):  # type: ignore[misc]  # a field for each row of `domain.settings`
    """Missing fields keep their values. null removes *cohort*, *default_platform*, a limit or a run time.

    Run times: ``90m``, ``2h``.
    """

    model_config = example({"quota": 12, "borrowing_limit": 4})

    quota: QuotaRequest | None = None
    borrowing_limit: LimitRequest | None = None
    lending_limit: LimitRequest | None = None


_Said = edits_of(Said)


class SaidRequest(_Said):  # type: ignore[misc, valid-type]
    """*description* and *tags*: of a change, in the history."""

    model_config = example({"description": "for June", "tags": ["june"]})


class PoolPatchRequest(SaidRequest):
    """*configs_dict*: the settings to change, as they are shown."""

    model_config = example({"configs_dict": {"resources": {"gpu": {"guarantee": 8}}}, "description": "for June"})

    configs_dict: dict[str, Any]


class PoolsPutRequest(SaidRequest):
    """*configs*: settings of pools as they are shown, by name. Missing pools and settings stay unchanged."""

    model_config = example({"configs": {"vision": {"description": "eyes"}}, "description": "for June"})

    configs: dict[str, dict[str, Any]]


class CohortEditRequest(Request):
    """Missing fields keep their values. null removes *parent* or a limit."""

    model_config = example({"quota": 16, "lending_limit": 8})

    parent: str | None = None
    quota: QuotaRequest | None = None
    borrowing_limit: LimitRequest | None = None
    lending_limit: LimitRequest | None = None
    weight: Whole | None = None
