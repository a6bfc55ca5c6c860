"""Wrong decisions, seeded into lawful logs. Each way returns the log with one mistake, or None where it cannot make it."""

import copy
import random
from collections.abc import Callable
from typing import Any

from runrig.verify.court import Commit
from tests.verify.logs import Event
from tests.verify.seeding import (
    More,
    Place,
    Way,
    after,
    before,
    changed,
    gpus_of,
    has_gpus,
    keys_of,
    pending,
    places,
    pool_at,
    queued,
    running,
    with_events,
)


def _without_one(chance: random.Random, log: list[Commit], found: list[Place]) -> list[Commit] | None:
    """The log without one of the events at *found*; None: there are none."""
    if not found:
        return None
    at, number = chance.choice(found)
    return with_events(log, at, [*log[at].events[:number], *log[at].events[number + 1 :]])


def _gpu_twice(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """A gang that nobody queued has the GPUs already."""
    return [
        ("Queue", {"gang": {**queued(log, action["gang"], place), "id": "thief-1/g"}}),
        ("Admit", {"gang": "thief-1/g", "placement": action["placement"]}),
    ]


def _other_node(chance: random.Random, action: Any) -> Any:
    for each in action["placement"]:
        for share in each["shares"]:
            share["node"] = "nowhere"
    return action


def _too_few_gpus(chance: random.Random, action: Any) -> Any:
    share = next(share for each in action["placement"] for share in each["shares"] if share["gpus"])
    share["gpus"] = share["gpus"][:-1]
    return action


def _node_is(**change: Any) -> More:
    """Its first node changes before it starts."""

    def make(log: list[Commit], place: Place, action: Any) -> list[Event]:
        name = next((share["node"] for each in action["placement"] for share in each["shares"]), None)
        nodes = [log[at].events[number][1]["node"] for at, number in places(log, "PutNode") if (at, number) < place]
        known = [each for each in nodes if each["name"] == name]
        return [("PutNode", {"node": known[-1] | change})] if known else []

    return make


def _no_quota(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, queued(log, action["gang"], place)["pool"], place)
    if pool["parent"] is not None:
        return []
    none = {"nominal": 0, "borrowing_limit": 0, "lending_limit": None}
    quotas: dict[str, Any] = dict.fromkeys({*pool["quotas"], *keys_of(log, place, action)}, none)
    return [("PutPool", {"pool": pool | {"quotas": quotas, "state": "ACTIVE", "parent": None}})]


def _circle(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, queued(log, action["gang"], place)["pool"], place)
    made = [{"name": name, "parent": above, "quotas": {}, "weight": 1} for name, above in (("o1", "o2"), ("o2", "o1"))]
    moved = [("PutPool", {"pool": pool | {"cohort": "o1"}})] if pool["parent"] is None else []
    return [*[("PutCohort", {"cohort": each}) for each in made], *moved] if moved else []


def _workflow(action: Any) -> str:
    return str(action["gang"].partition("/")[0])


def _on_hold(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Hold", {"workflow": _workflow(action), "by": "ann"})]


def _fewer(chance: random.Random, action: Any) -> Any:
    several = [each for each in action["placement"] if each["count"] > 1 and each["shares"]]
    if not several:
        return None
    each = chance.choice(several)
    each["count"] -= 1
    return action


def _more(chance: random.Random, action: Any) -> Any:
    each = chance.choice(action["placement"])
    each["count"] += 1
    return action


def _without_a_pod_set(chance: random.Random, action: Any) -> Any:
    del action["placement"][-1]
    return action


def _law(chance: random.Random, action: Any) -> Any:
    return action | {"law": "PRIORITY" if action["law"] == "RECLAIM" else "RECLAIM"}


def _other_victim(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """One more, whom the preemptor does not wait for."""
    others = sorted(running(log, place).keys() - {action["gang"]})
    return [("Preempt", action | {"gang": others[0]})] if others else []


def _too_few_victims(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    found = places(log, "Preempt")
    if not found:
        return None
    at, number = chance.choice(found)
    victim, by = log[at].events[number][1]["gang"], log[at].events[number][1]["by"]
    events: list[Any] = [*log[at].events[:number], *log[at].events[number + 1 :]]
    for index, (kind, action) in enumerate(events):
        if kind == "Nominate" and action["gang"] == by:
            events[index] = kind, action | {"targets": [each for each in action["targets"] if each != victim]}
    return with_events(log, at, events)


def _too_many_victims(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    found = places(log, "Nominate")
    if not found:
        return None
    at, number = chance.choice(found)
    action: Any = log[at].events[number][1]
    targets = {*action["targets"]}
    others = [each for each in sorted(running(log, (at, number))) if each not in targets]
    low = [each for each in others if queued(log, each, (at, number))["priority"] == "LOW"]
    if not low:
        return None
    extra = chance.choice(low)
    more = {"gang": extra, "by": action["gang"], "law": "RECLAIM", "spared": []}
    if queued(log, extra, (at, number))["pool"] == queued(log, action["gang"], (at, number))["pool"]:
        more["law"] = "PRIORITY"
    events: list[Any] = [*log[at].events]
    events[number] = "Nominate", action | {"targets": [*action["targets"], extra]}
    return with_events(log, at, [*events[: number + 1], ("Preempt", more), *events[number + 1 :]])


def _firm_victim(log: list[Commit], place: Place, action: Any) -> list[Event]:
    firm = [each for each in sorted(running(log, place)) if queued(log, each, place)["priority"] != "LOW"]
    return [("Preempt", action | {"gang": firm[0]})] if firm else []


def _by_low(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    found = places(log, "Nominate")
    if not found:
        return None
    at, number = chance.choice(found)
    gang = log[at].events[number][1]["gang"]
    return [
        commit._replace(
            events=[
                ("Queue", {"gang": action["gang"] | {"priority": "LOW"}})
                if kind == "Queue" and action["gang"]["id"] == gang
                else (kind, action)
                for kind, action in commit.events
            ]
        )
        for commit in log
    ]


def _too_early(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """Nominated and started at once, where a target still runs."""
    return [("Admit", {"gang": action["gang"], "placement": action["placement"]})]


def _started_twice(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Admit", action)]


def _no_edit_without_a_stop(log: list[Commit], place: Place, action: Any) -> list[Event]:
    on = sorted(running(log, place))
    return [("Stop", {"gang": on[0], "cause": "FAILED_CANCELED"})] if on else []


def _evicted(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Stop", {"gang": action["gang"], "cause": "FAILED_EVICTED"})]


def _stopped_in_time(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Stop", {"gang": action["gang"], "cause": "FAILED_EXEC_TIMEOUT"})]


def _ended_in_time(log: list[Commit], place: Place, action: Any) -> list[Event]:
    workflow, _, group = action["gang"]["id"].partition("/")
    return [("MoveGroup", {"workflow": workflow, "group": group, "status": "FAILED_QUEUE_TIMEOUT"})]


def _run_time(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, action["workflow"]["pool"], place)
    return [("PutPool", {"pool": pool | {"max_run_time_s": (action["exec_timeout_s"] or 2.0) / 2}})]


def _too_large(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """The pool has nothing, and cannot borrow."""
    pool = pool_at(log, action["workflow"]["pool"], place)
    queues = [each["gang"]["pod_sets"] for kind, each in log[place[0]].events if kind == "Queue"]
    if pool["parent"] is not None or not any(dict(one["requests"]).get("gpu") for sets in queues for one in sets):
        return []
    none = {"nominal": 0, "borrowing_limit": 0, "lending_limit": None}
    return [
        ("PutPool", {"pool": pool | {"cohort": None, "quotas": dict.fromkeys(("a/gpu", "b/gpu", "default/gpu"), none)}})
    ]


def _archived(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, queued(log, action["gang"], place)["pool"], place)
    return [("PutPool", {"pool": pool | {"state": "ARCHIVED"}})]


def _large_share(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, action["workflow"]["pool"], place)
    if pool["parent"] is not None or not pool["quotas"]:
        return []
    more = {key: {"nominal": each["nominal"] + 1} for key, each in pool["quotas"].items()}
    share = pool | {"name": f"{pool['name']}--big", "parent": pool["name"], "state": "ACTIVE", "quotas": more}
    return [("PutPool", {"pool": share})]


def _closed(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, action["workflow"]["pool"], place)
    return [("PutPool", {"pool": pool | {"closed_by": "ann"}})]


def _deleting(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, action["workflow"]["pool"], place)
    return [("PutPool", {"pool": pool | {"state": "DELETING"}})]


def _false_before(chance: random.Random, action: Any) -> Any:
    return action | {"before": action["before"] | {"weight": 77}}


def _queue_field(name: str, value: Any) -> Callable[[random.Random, Any], Any]:
    def change(chance: random.Random, action: Any) -> Any:
        return {"gang": action["gang"] | {name: value(action["gang"][name])}}

    return change


def _requeued_smaller(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    def smaller(chance: random.Random, action: Any) -> Any:
        action["gang"]["pod_sets"][0]["count"] += 1
        return action

    return changed("Queue", smaller, lambda action: action["gang"]["attempt"] > 0)(chance, log)


def _before_its_inputs(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    needed: dict[tuple[str, str], list[str]] = {}
    for at, number in places(log, "Submit"):
        workflow = log[at].events[number][1]["workflow"]
        for group, several in workflow["upstream"].items():
            for each in several:
                needed.setdefault((workflow["id"], each), []).append(group)
    found = []
    for at, number in places(
        log, "MoveGroup", lambda a: a["status"] == "COMPLETED" and (a["workflow"], a["group"]) in needed
    ):
        ended = log[at].events[number][1]
        queues = [a["gang"]["id"] for commit in log[at:] for kind, a in commit.events if kind == "Queue"]
        followers = needed[ended["workflow"], ended["group"]]
        found += [(at, ended)] if any(f"{ended['workflow']}/{each}" in queues for each in followers) else []
    if not found:
        return None
    at, gone = chance.choice(found)
    return with_events(log, at, [each for each in log[at].events if each[1] is not gone])


def _order_of_priorities(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    """If two gangs that were pending start in one cycle, LOW starts first."""
    for at in chance.sample(range(len(log)), len(log)):
        nominated: set[str] = {
            action["gang"] for commit in log[:at] for kind, action in commit.events if kind == "Nominate"
        }
        refused = {
            action["gang"]["id"]
            for commit in log
            for kind, action in commit.events
            if kind == "Queue" and action["gang"]["refused"]
        }
        free = nominated | refused
        rows = [
            (number, a) for number, (kind, a) in enumerate(log[at].events) if kind == "Admit" and a["gang"] not in free
        ]
        firm = [row for row in rows if queued(log, row[1]["gang"], (at, row[0]))["priority"] != "LOW"]
        low = [row for row in rows if queued(log, row[1]["gang"], (at, row[0]))["priority"] == "LOW"]
        if firm and low:
            events: list[Any] = [*log[at].events]
            events[firm[0][0]], events[low[-1][0]] = events[low[-1][0]], events[firm[0][0]]
            return with_events(log, at, events)
    return None


def _never_started(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    """An admission is missing where a cycle ended, and the gang goes on as if it had started."""
    found = [each for each in places(log, "Admit") if log[each[0]].end and not places([log[each[0]]], "PutPool")]
    return _without_one(chance, log, found)


def _given_up(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Withdraw", {"gang": action["gang"]})]


def _other_rack(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    """One pod of a gang that requires a domain goes to a node of another one."""
    racks = {
        action["node"]["name"]: action["node"]["labels"].get("zone")
        for commit in log
        for kind, action in commit.events
        if kind == "PutNode"
    }
    for at, number in chance.sample(places(log, "Admit"), len(places(log, "Admit"))):
        action = copy.deepcopy(log[at].events[number][1])
        sets = queued(log, action["gang"], (at, number))["pod_sets"]
        for one, each in zip(sets, action["placement"], strict=True):
            required = any(
                need["required"] and need["slice_size"] is None and need["key"] == "zone" for need in one["topology"]
            )
            if required and each["count"] > 1:
                shares = each["shares"]
                others = sorted(
                    name for name, rack in racks.items() if rack not in (None, racks.get(shares[0]["node"]))
                )
                if others and len(shares) > 1 and shares[-1]["node"] != others[0]:
                    shares[-1]["node"] = others[0]
                    events: list[Any] = [*log[at].events]
                    events[number] = "Admit", action
                    return with_events(log, at, events)
    return None


def _other_flavor(chance: random.Random, action: Any) -> Any:
    chance.choice(action["placement"])["flavor"] = "elsewhere"
    return action


def _left(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Unqueue", {"gang": action["gang"]})]


def _set_aside(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("SetAside", {"workflow": _workflow(action)})]


def _earlier(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """The same again, so it fits too."""
    gang = queued(log, action["gang"], place)
    if gang["priority"] == "LOW" or not pending(log, place, gang["id"]):
        return []
    return [("Queue", {"gang": gang | {"id": "early-1/g", "submitted_at": gang["submitted_at"] - 1}})]


def _head(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """It is too large for the cluster, and blocks its pool all the same."""
    gang = queued(log, action["gang"], place)
    pool = pool_at(log, gang["pool"], place)
    if gang["priority"] == "LOW" or not pending(log, place, gang["id"]):
        return []
    sets = [each | {"count": 10_000, "min_count": None} for each in gang["pod_sets"]]
    head = gang | {"id": "head-1/g", "submitted_at": gang["submitted_at"] - 1, "pod_sets": sets}
    return [("PutPool", {"pool": pool | {"queueing": "STRICT_FIFO"}}), ("Queue", {"gang": head})]


def _still_there(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    """The release of a gang is missing, and another gets its GPUs before it is queued again.

    Not of one that waits, because its cluster's scheduler refused it: without that release it waits longer, which is lawful.
    """
    found = []
    held: dict[str, set[tuple[str, int]]] = {}
    released: dict[str, Place] = {}
    for at, commit in enumerate(log):
        for number, (kind, action) in enumerate(commit.events):
            name = action["gang"]["id"] if kind == "Queue" else action.get("gang", "")
            if kind == "Queue":
                held.pop(name, None)
            if kind == "Release" and name in held:
                released[name] = at, number
            elif kind in ("Admit", "Replace"):
                found += [place for each, place in released.items() if each != name and held[each] & gpus_of(action)]
                held[name] = gpus_of(action)
            if kind != "Release":
                released.pop(name, None)
    return _without_one(chance, log, found)


def _kept(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    """A group ends, and its gang is not released."""
    return _without_one(chance, log, places(log, "Release"))


def _released(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Release", {"gang": action["gang"]})]


def _over(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("MoveWorkflow", {"workflow": _workflow(action), "status": "FAILED_CANCELED"})]


def _queued_twice(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Queue", action)]


def _completed_again(log: list[Commit], place: Place, action: Any) -> list[Event]:
    return [("Queue", {"gang": queued(log, f"{action['workflow']}/{action['group']}", place)})]


def _waits_for_nothing(log: list[Commit], place: Place, action: Any) -> list[Event]:
    """Its target is in the queue again before anything stops it."""
    again = queued(log, action["targets"][0], place) if action["targets"] else None
    return [("Queue", {"gang": again})] if again else []


def _refused(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
    """After a commit in which a gang starts, the gate refuses one like it."""
    found = [
        place for place in places(log[:-1], "Admit") if len(queued(log, _gang_at(log, place), place)["pod_sets"]) == 1
    ]
    if not found:
        return None
    at, number = chance.choice(found)
    gang = queued(log, _gang_at(log, (at, number)), (at, number))
    refused = {"user": "ann", "law": "P3", "numbers": {}, "gang": gang}
    return [*log[: at + 1], log[at + 1]._replace(refused=[refused]), *log[at + 2 :]]


def _gang_at(log: list[Commit], place: Place) -> str:
    return str(log[place[0]].events[place[1]][1]["gang"])


def _within_quota(log: list[Commit], place: Place, action: Any) -> list[Event]:
    own = pool_at(log, queued(log, action["gang"], place)["pool"], place)
    there = running(log, place)
    for target in action["targets"]:
        pool = pool_at(log, queued(log, target, place)["pool"], place)
        if target in there and pool["parent"] is None and pool["name"] not in (own["name"], own["parent"]):
            plenty = {"nominal": 10_000, "borrowing_limit": None, "lending_limit": None}
            quotas: dict[str, Any] = dict.fromkeys({*pool["quotas"], *keys_of(log, place, action)}, plenty)
            return [("PutPool", {"pool": pool | {"quotas": quotas}})]
    return []


def _closed_above(log: list[Commit], place: Place, action: Any) -> list[Event]:
    pool = pool_at(log, action["workflow"]["pool"], place)
    if pool["parent"] is None:
        return []
    return [("PutPool", {"pool": pool_at(log, pool["parent"], place) | {"closed_by": "ann"}})]


def _running(action: Any) -> bool:
    return bool(action["placement"])


TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
WAYS: dict[str, Way] = {
    "the gate refuses what could run": _refused,
    "a GPU is given twice": after("Admit", _gpu_twice, has_gpus),
    "a pod gets too few GPUs": changed("Admit", _too_few_gpus, has_gpus),
    "a gang starts on a node that is not there": changed("Admit", _other_node),
    "a gang starts on a cordoned node": before("Admit", _node_is(cordoned=True), has_gpus),
    "a gang starts on a node that is not ready": before("Admit", _node_is(ready=False), has_gpus),
    "a gang starts on a node of another flavor": before("Admit", _node_is(flavor="other"), has_gpus),
    "a gang starts on a node with a taint": before("Admit", _node_is(taints=[TAINT]), has_gpus),
    "a pod gets a flavor that its pool does not have": changed("Admit", _other_flavor),
    "a pod starts in another domain": _other_rack,
    "a pool without quota starts work": before("Admit", _no_quota, has_gpus),
    "a pool without quota preempts": before("Nominate", _no_quota),
    "a gang starts that left the queue": before("Admit", _left),
    "a gang starts whose workflow is set aside": before("Admit", _set_aside),
    "a gang starts before one that was submitted earlier": before("Admit", _earlier),
    "a gang starts before the head of a STRICT_FIFO pool": before("Admit", _head),
    "a gang starts where another still runs": _still_there,
    "a gang waits for one that does not run": before("Nominate", _waits_for_nothing),
    "a gang is taken from a pool within its quota": before("Nominate", _within_quota),
    "a gang starts below a circle of cohorts": before("Admit", _circle),
    "a gang on hold starts": before("Admit", _on_hold),
    "a gang starts with a pod less": changed("Admit", _fewer),
    "a gang starts with a pod more": changed("Admit", _more),
    "a gang starts without one of its pod sets": changed("Admit", _without_a_pod_set),
    "a gang starts twice": after("Admit", _started_twice),
    "LOW starts before HIGH and NORMAL": _order_of_priorities,
    "a gang that fits does not start": _never_started,
    "a preemption names the other rule": changed("Preempt", _law),
    "a gang stops for which no other waits": after("Preempt", _other_victim),
    "a gang stops too few": _too_few_victims,
    "a gang stops one too many": _too_many_victims,
    "HIGH or NORMAL is preempted": after("Preempt", _firm_victim),
    "LOW preempts": _by_low,
    "a nominated gang starts too early": after(
        "Nominate", _too_early, lambda action: bool(action["targets"]) and _running(action)
    ),
    "a nomination is given up": after("Nominate", _given_up),
    "an edit stops running work": after(
        "PutPool", _no_edit_without_a_stop, lambda action: action["pool"]["state"] == "ACTIVE"
    ),
    "a gang is evicted from open nodes": after("Admit", _evicted, has_gpus),
    "a gang is stopped before its exec_timeout": after("Admit", _stopped_in_time),
    "a group ends before its queue_timeout": after("Queue", _ended_in_time),
    "a pool accepts work that it can never run": before("Submit", _too_large),
    "a pool accepts work that may run too long": before("Submit", _run_time),
    "a pool is ARCHIVED while its work runs": after("Admit", _archived),
    "a share is larger than its pool": before("Submit", _large_share),
    "a closed pool accepts a submission": before("Submit", _closed),
    "a subpool of a closed pool accepts a submission": before("Submit", _closed_above),
    "a DELETING pool accepts a submission": before("Submit", _deleting),
    "a change claims another state before it": changed("PutPool", _false_before, lambda action: bool(action["before"])),
    "a gang is queued with another submit time": changed("Queue", _queue_field("submitted_at", lambda at: at - 0.5)),
    "a gang is queued with another priority": changed(
        "Queue", _queue_field("priority", lambda each: "LOW" if each == "HIGH" else "HIGH")
    ),
    "a gang is queued in another pool": changed("Queue", _queue_field("pool", lambda name: f"{name}-other")),
    "a gang is queued again with another count": _requeued_smaller,
    "a group starts before its inputs": _before_its_inputs,
    "a gang starts whose workflow has ended": before("Admit", _over),
    "a gang is queued twice": after("Queue", _queued_twice),
    "a gang is released while its tasks run": after("Admit", _released),
    "a group ends and its gang is not released": _kept,
    "a group is queued again after it was COMPLETED": after(
        "MoveGroup", _completed_again, lambda action: action["status"] == "COMPLETED"
    ),
}
