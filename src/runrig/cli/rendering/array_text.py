"""Arrays in a few words, and IDs of their elements."""

from collections.abc import Mapping
from typing import Any


def summary(array: Mapping[str, Any]) -> str:
    """``3 run, 2 done, 1 failed, 4 wait``."""
    counts = {
        "run": array["running"],
        "done": array["completed"],
        "failed": array["failed"],
        "cancelled": array["cancelled"],
        "wait": array["queued"] + array["waiting"],
    }
    return ", ".join(f"{number:,} {word}" for word, number in counts.items() if number)


def parts(id: str) -> tuple[str, str | None]:
    """Returns the workflow and the element of ``sweep-4/7``; None: all of it."""
    workflow, slash, element = id.partition("/")
    return workflow, element if slash else None
