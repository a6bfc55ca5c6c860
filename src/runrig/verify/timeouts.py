"""Run time limits, P6: how long groups have waited in the queue and have run, from the log."""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from .gang import ADMITTED, NOMINATED, PENDING, Gang
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
    """*limits*: workflow → cause → seconds, as far as the log says. *begun*: gang → cause → when its time began."""

    def __init__(self) -> None:
        self.limits: dict[str, Times] = {}
        self.begun: dict[str, Times] = {}
        self._ends: list[tuple[float, str, str]] = []

    def follow(self, world: World, kind: str, action: Mapping[str, Any]) -> None:
        """*action* has been carried out."""
        if kind == "Submit" and "exec_timeout_s" in action:
            name = action["workflow"]["id"]
            self.limits[name] = {cause: action[field] for cause, field in LIMITS.items()}
            for each in action["groups"]:
                for cause, field in BEGINS.items():
                    self.begin(f"{name}/{each['name']}", cause, each.get(field))
        elif kind == "Queue":
            self.begin(action["gang"]["id"], QUEUE, world.now)
            self.begin(action["gang"]["id"], RUN, None)
        elif kind == "MoveGroup" and action["status"] == "RUNNING":
            gang = f"{action['workflow']}/{action['group']}"
            if self.begun.get(gang, {}).get(RUN) is None:
                self.begin(gang, RUN, world.now)
        elif kind == "MoveWorkflow" and action["status"] not in ("PENDING", "RUNNING"):
            self.limits.pop(action["workflow"], None)

    def begin(self, gang: str, cause: str, at: float | None) -> None:
        self.begun.setdefault(gang, {})[cause] = at
        end = self.end(gang, cause)
        if end is not None:
            heappush(self._ends, (end, gang, cause))

    def end(self, gang: str, cause: str) -> float | None:
        """When the time of *gang* is up; None: never, or the log does not say."""
        limit, since = self.limits.get(gang.partition("/")[0], {}).get(cause), self.begun.get(gang, {}).get(cause)
        return None if limit is None or since is None else since + limit

    def early(self, gang: str, cause: str, now: float) -> Iterator[str]:
        """Yields why *cause* cannot end it now."""
        known = self.limits.get(gang.partition("/")[0])
        if known is None or cause not in LIMITS:
            return
        end = self.end(gang, cause)
        if end is None:
            yield f"it ends as {cause}, and has no {LIMITS[cause].removesuffix('_s')} that could have run out"
        elif now + EXACT_S < end:
            yield f"it ends as {cause} {end - now:.6f} s too early"

    def late(self, world: World) -> Iterator[tuple[Gang, str]]:
        """Yields gangs whose time was up before now."""
        while self._ends and self._ends[0][0] + EXACT_S < world.now:
            end, name, cause = heappop(self._ends)
            gang = world.gangs.get(name)
            if gang is None or end != self.end(name, cause) or gang.state not in STATES[cause]:
                continue
            if not world.workflows[gang.workflow].get("aside"):
                yield (
                    gang,
                    f"its {LIMITS[cause].removesuffix('_s')} ended {world.now - end:.6f} s before the end of a cycle",
                )


# ---------------------------------------------------------------- the law


def run_time(world: World, pool: str, limits: Times | None, who: str) -> Iterator[str]:
    """Yields why *pool* does not accept the workflow *who* with these limits."""
    most = world.pools.get(pool, {}).get("max_run_time_s")
    asked = None if limits is None else limits[RUN]
    if most is not None and limits is not None and (asked is None or asked > most):
        yield f"{who} is accepted with exec_timeout {asked} s, but pool {pool} allows at most {most:.0f} s"
