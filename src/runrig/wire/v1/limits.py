"""Requests about limits of users."""

from typing import Any, get_type_hints

from pydantic import create_model

from runrig.domain.limits import LimitValues
from runrig.wire.base import Request, Whole, example

_ASKED: dict[str, Any] = {
    name: (Whole | None if kind == int | None else kind, None)
    for name, kind in get_type_hints(LimitValues).items()
    if name != "UNTOLD"
}
_Limits: Any = create_model("_Limits", __base__=Request, **_ASKED)


class LimitsEdit(_Limits):  # type: ignore[misc]  # a field for each limit
    """Missing fields keep their values. null: no limit."""

    model_config = example({"gpus": 8, "waiting": 20})
