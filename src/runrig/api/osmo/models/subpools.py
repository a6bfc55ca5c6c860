"""Subpools: guaranteed parts of a pool, and requests to change them."""

from typing import Any

from pydantic import Field

from runrig.api.osmo.models.pools import PoolAnswer
from runrig.wire.base import Answer, Request, example

_SHARE = (
    "Whole GPUs, from 1 on; a percentage of the parent's quota, rounded down; or FLAVOR=GPUS,... with several flavors"
)
_NAMED: dict[str, Any] = {"name": "team--a", "parent": "team", "subpool_name": "a", "subpool_state": "ACTIVE"}


def _share() -> Any:
    """Accepts anything: the rules of cluster files check it, and report what is wrong."""
    return Field(
        description=_SHARE, json_schema_extra={"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}
    )


def _subpool(**fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = PoolAnswer.example()
    return known | _NAMED | fields


class SubpoolCreateRequest(Request):
    """*name*: the short one; the pool is then called PARENT--NAME."""

    model_config = example({"name": "a", "quota": 8})

    name: str
    quota: Any = _share()


class SubpoolEditRequest(Request):
    model_config = example({"quota": "25%"})

    quota: Any = _share()


class SubpoolAnswer(PoolAnswer):
    """A subpool, as in `/api/pool_quota`."""

    model_config = example(_subpool())


class SubpoolsAnswer(Answer):
    model_config = example({"subpools": [_subpool()]})

    subpools: list[PoolAnswer]


class SubpoolDeletedAnswer(PoolAnswer):
    """*state* ARCHIVED: nothing was running. DELETING: *workflows* with *total* GPUs run to completion, and until then
    it keeps *held* GPUs of its parent's quota. *cancelled*: workflows that had not started.
    """

    model_config = example(
        _subpool(
            state="DELETING",
            subpool_state="DELETING",
            status="MAINTENANCE",
            quota=0,
            unallocated=0,
            available=-4,
            held=8,
            cancelled=["train-7"],
        )
    )

    cancelled: list[str]
