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
NO_LIMITS: Times = {QUEUE: None, RUN: None}


class Timeouts:
    """*limits*: workflow → cause → seconds, as far as the log says. *begun*: gang → cause → when its time began, of workflows with
    limits. *ends*: a heap of when it is up, with the gang and the cause; some are outdated.
    """

    def __init__(self) -> None:
        self.limits: dict[str, Times] = {}
        self.begun: dict[str, Times] = {}
        self.ends: list[tuple[float, str, str]] = []

    def follow(self, world: World, kind: str, action: Mapping[str, Any]) -> None:
        """*action* has been carried out."""
        if kind == "Submit":
            name, limits = action["workflow"]["id"], {cause: action.get(field) for cause, field in LIMITS.items()}
            if "exec_timeout_s" in action:
                self.limits[name] = NO_LIMITS if limits == NO_LIMITS else limits
            for each in action["groups"] if limits != NO_LIMITS else ():
                for cause, field in BEGINS.items():
                    self._begin(f"{name}/{each['name']}", cause, each.get(field))
        elif kind == "MoveWorkflow":
            if action["status"] not in ("PENDING", "RUNNING"):
                self.limits.pop(action["workflow"], None)
        elif kind == "Queue" or action["status"] == "RUNNING":
            gang = action["gang"]["id"] if kind == "Queue" else f"{action['workflow']}/{action['group']}"
            if self.limits.get(gang.partition("/")[0], NO_LIMITS) is NO_LIMITS:
                return
            if kind == "Queue":
                self.begun[gang] = {RUN: None}
                self._begin(gang, QUEUE, world.now)
            elif self.begun.get(gang, {}).get(RUN) is None:
                self._begin(gang, RUN, world.now)

    def _begin(self, gang: str, cause: str, at: float | None) -> None:
        self.begun.setdefault(gang, {})[cause] = at
        end = None if at is None else self.end(gang, cause)
        if end is not None:
            heappush(self.ends, (end, gang, cause))

    def end(self, gang: str, cause: str) -> float | None:
        """When the time of *gang* is up; None: never, or the log does not say."""
        limit, since = self.limits.get(gang.partition("/")[0], {}).get(cause), self.begun.get(gang, {}).get(cause)
        return None if limit is None or since is None else since + limit
