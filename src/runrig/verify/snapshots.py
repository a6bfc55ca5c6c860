"""Begins with a snapshot, and compares what a log says is alive with what a snapshot says."""

from typing import Any

from .chain import Snapshot
from .court import Court
from .gang import Gang

_OF_GANGS = ("pool", "priority", "submitted", "request", "refused", "state", "placement")
_OF_WORKFLOWS = ("pool", "priority", "status", "submit_time", "submitted_by", "upstream", "most")


def court_of(snapshot: Snapshot) -> Court:
    """Takes everything from *snapshot*."""
    court = Court()
    court.now = snapshot.time / 1_000_000
    for kind, action in snapshot.events:
        if kind == "Submit":
            row = action["workflow"]
            row["upstream"] = snapshot.needs.get(row["id"], {})
            court.preempted |= {f"{row['id']}/{each['name']}": each["preemptions"] for each in action["groups"]}
        elif kind == "SetSpent":  # Counted until the next cycle, even if an edit has just removed the budget.
            action = {**action, "budget": 0}
        court.apply(kind, action)
    for kind, action in snapshot.events:
        if kind == "Submit":  # Its groups were queued earlier than now.
            court.time(action)
    court.first_sets = {gang.id: gang.request for gang in court.gangs.values()}
    return court


def difference(court: Court, other: Court) -> str | None:
    """Returns the kind and name of the first thing that differs; None: nothing does."""
    theirs = _tables(other)
    for kind, mine in _tables(court).items():
        for name in sorted(mine.keys() | theirs[kind].keys()):
            one, two = mine.get(name), theirs[kind].get(name)
            # Fields that only one of them has are new in this release.
            if one != two and (one is None or two is None or any(one[each] != two[each] for each in one.keys() & two)):
                return f"{kind} {name}"
    return None


def _tables(court: Court) -> dict[str, dict[str, dict[str, Any]]]:
    alive = (row for row in court.workflows.values() if row["status"] in ("PENDING", "RUNNING"))
    return {
        "flavor": court.flavors,
        "node": court.nodes,
        "cohort": court.cohorts,
        "pool": court.pools,
        "limits of": {user: row for user, row in court.limits.items() if set(row.values()) - {None, user}},
        "workflow": {
            row["id"]: {name: row.get(name) for name in _OF_WORKFLOWS}
            | {"held": bool(row["aside"] or row.get("held_by"))}
            for row in alive
        },
        "gang": {gang.id: _gang(court, gang) for gang in court.gangs.values()},
        "amount spent by": {" ".join(scope): {"held": court.spent_by(scope)} for scope in court.spent},
    }


def _gang(court: Court, gang: Gang) -> dict[str, Any]:
    waits_for = sorted(name for name in gang.targets if name in court.gangs and court.gangs[name].layers)
    return {name: getattr(gang, name) for name in _OF_GANGS} | {"waits_for": waits_for}
