"""The cases: plain mappings as they stand in ``data/``, one file per kind."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark.structures import ParameterSet

Case = Mapping[str, Any]
DATA = Path(__file__).parent / "data"
KINDS = ("quota", "admission", "preemption", "partial", "otherwise", "counts", "rest", "topology")


@cache
def cases(kind: str) -> tuple[Case, ...]:
    """All cases of *kind*, in the order of the file."""
    return tuple(yaml.load((DATA / f"{kind}.yaml").read_text(), yaml.CSafeLoader))


def every() -> tuple[Case, ...]:
    return tuple(case for kind in KINDS for case in cases(kind))


def parameters(*kinds: str, only: Callable[[Case], bool] = lambda _: True) -> list[ParameterSet]:
    """The cases of *kinds*, each under its id.  One with a ``deviation`` is expected to fail, and must."""
    chosen = [case for kind in kinds for case in cases(kind) if only(case)]
    return params(chosen, {case["id"]: case["deviation"] for case in chosen if "deviation" in case})


def params(chosen: Sequence[Case], deviations: Mapping[str, str]) -> list[ParameterSet]:
    """*chosen*, each under its id.  *deviations*: why a case, by id, is expected to fail, and must."""
    return [
        pytest.param(
            case,
            id=case["id"],
            marks=[pytest.mark.xfail(strict=True, reason=deviations[case["id"]])] if case["id"] in deviations else [],
        )
        for case in chosen
    ]
