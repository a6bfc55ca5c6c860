"""Arrays in a few words, and IDs of their elements."""

from collections.abc import Iterator, Mapping
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


def failures(workflow: Mapping[str, Any], told: set[str]) -> Iterator[str]:
    """Yields a line for each element that has failed and is not in *told*, and adds it there. Cancelled ones did not fail."""
    for group in workflow["groups"] if workflow.get("array") else ():
        if (
            str(group["status"]).startswith("FAILED")
            and group["status"] != "FAILED_CANCELED"
            and group["name"] not in told
        ):
            told.add(group["name"])
            why = f": {group['message']}" if group["message"] else ""
            yield f"{workflow['id']}/{group['name']} is {group['status']}{why}"


def parts(id: str) -> tuple[str, str | None]:
    """Returns the workflow and the element of ``sweep-4/7``; None: all of it."""
    workflow, slash, element = id.partition("/")
    return workflow, element if slash else None
