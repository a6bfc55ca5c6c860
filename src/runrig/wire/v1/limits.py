"""Requests about limits of users."""

from runrig.wire.base import Request, example


class LimitsEdit(Request):
    """Missing fields keep their values. null: no limit."""

    model_config = example({"gpus": 8, "waiting": 20})

    gpus: int | None = None
    waiting: int | None = None
    gpus_per_workflow: int | None = None
