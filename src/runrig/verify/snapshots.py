"""Compares what a log says is alive with what a snapshot says."""

from typing import Any

from .gang import Gang
from .world import World

_OF_GANGS = ("pool", "priority", "submitted", "request", "refused", "state", "placement")
_OF_WORKFLOWS = ("pool", "priority", "status", "submit_time", "submitted_by", "upstream", "most")


def difference(world: World, other: World) -> str | None:
    """Returns the kind and name of the first thing that differs; None: nothing does."""
    theirs = _tables(other)
    for kind, mine in _tables(world).items():
        for name in sorted(mine.keys() | theirs[kind].keys()):
            one, two = mine.get(name), theirs[kind].get(name)
            # Fields that only one of them has are new in this release.
            if one != two and (
                one is None or two is None or any(one[each] != two[each] for each in one.keys() & two.keys())
            ):
                return f"{kind} {name}"
    return None


def _tables(world: World) -> dict[str, dict[str, dict[str, Any]]]:
    alive = (row for row in world.workflows.values() if row["status"] in ("PENDING", "RUNNING"))
    return {
        "flavor": world.flavors,
        "node": world.nodes,
        "cohort": world.cohorts,
        "pool": world.pools,
        "limits of": {user: row for user, row in world.limits.items() if set(row.values()) - {None, user}},
        "workflow": {
            row["id"]: {name: row.get(name) for name in _OF_WORKFLOWS}
            | {"held": bool(row["aside"] or row.get("held_by"))}
            for row in alive
        },
        "gang": {gang.id: _gang(world, gang) for gang in world.gangs.values()},
    }


def _gang(world: World, gang: Gang) -> dict[str, Any]:
    waits_for = sorted(name for name in gang.targets if name in world.gangs and world.gangs[name].layers)
    return {name: getattr(gang, name) for name in _OF_GANGS} | {"waits_for": waits_for}
