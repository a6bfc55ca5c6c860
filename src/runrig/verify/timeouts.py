"""Run time limits, P6: how long groups have waited in the queue and have run, from the log."""

from collections.abc import Mapping
from heapq import heappush
from typing import Any

from .gang import ADMITTED, NOMINATED, PENDING
from .world import World

QUEUE, RUN = "FAILED_QUEUE_TIMEOUT", "FAILED_EXEC_TIMEOUT"
LIMITS = {QUEUE: "queue_timeout_s", RUN: "exec_timeout_s"}
BEGINS = {QUEUE: "queued_time", RUN: "start_time"}
STATES = {QUEUE: (PENDING, NOMINATED), RUN: (ADMITTED,)}
TIMING = frozenset(("Submit", "Queue", "MoveGroup", "MoveWorkflow"))
"""Kinds of actions that `Timeouts` follows."""
EXACT_S = 1e-6
"""Times are whole microseconds."""
Times = dict[str, float | None]


class Timeouts:
    """*limits*: workflow → cause → seconds, as far as the log says. *begun*: gang → cause → when its time began. *ends*: a heap of
    when it is up, with the gang and the cause; some are outdated.
    """

    def __init__(self) -> None:
        self.limits: dict[str, Times] = {}
        self.begun: dict[str, Times] = {}
        self.ends: list[tuple[float, str, str]] = []

    def follow(self, world: World, kind: str, action: Mapping[str, Any]) -> None:
        """*action* has been carried out."""
        if kind == "Submit" and "exec_timeout_s" in action:
            name = action["workflow"]["id"]
            self.limits[name] = {cause: action[field] for cause, field in LIMITS.items()}
            for each in action["groups"]:
                for cause, field in BEGINS.items():
                    self.begin(f"{name}/{each['name']}", cause, each.get(field))
        elif kind == "Queue":
            self.begun[action["gang"]["id"]] = {RUN: None}
            self.begin(action["gang"]["id"], QUEUE, world.now)
        elif kind == "MoveGroup" and action["status"] == "RUNNING":
            gang = f"{action['workflow']}/{action['group']}"
            if self.begun.get(gang, {}).get(RUN) is None:
                self.begin(gang, RUN, world.now)
        elif kind == "MoveWorkflow" and action["status"] not in ("PENDING", "RUNNING"):
            self.limits.pop(action["workflow"], None)

    def begin(self, gang: str, cause: str, at: float | None) -> None:
        self.begun.setdefault(gang, {})[cause] = at
        end = None if at is None else self.end(gang, cause)
        if end is not None:
            heappush(self.ends, (end, gang, cause))

    def end(self, gang: str, cause: str) -> float | None:
        """When the time of *gang* is up; None: never, or the log does not say."""
        limit, since = self.limits.get(gang.partition("/")[0], {}).get(cause), self.begun.get(gang, {}).get(cause)
        return None if limit is None or since is None else since + limit
