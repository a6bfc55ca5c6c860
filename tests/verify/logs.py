"""Logs made by hand, and the logs of recorded histories."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from runrig.verify.court import Commit
from runrig.verify.verify import Checker, Report
from tests.properties.recorded import Plain, read

Event = tuple[str, dict[str, Any]]
WITHOUT_NODES = "quotas"
"""Recorded histories in which nothing is placed."""


def pool(name: str, gpus: int = 0, **more: Any) -> Event:
    quota = {"nominal": gpus} | more.pop("limits", {})
    fields = {
        "name": name,
        "parent": None,
        "cohort": None,
        "state": "ACTIVE",
        "queueing": "BEST_EFFORT_FIFO",
        "weight": 1,
    }
    fields |= {"flavors": [], "topology_keys": [], "quotas": {"default/gpu": quota}, "closed_by": None} | more
    return "PutPool", {"pool": fields}


def cohort(name: str, gpus: int = 0, parent: str | None = None) -> Event:
    quotas = {"default/gpu": {"nominal": gpus}}
    return "PutCohort", {"cohort": {"name": name, "parent": parent, "quotas": quotas, "weight": 1}}


def limits(user: str, gpus: int | None = None, waiting: int | None = None, budget: int | None = None) -> Event:
    fields = {"user": user, "gpus": gpus, "waiting": waiting, "gpus_per_workflow": None, "budget": budget}
    return "PutLimits", {"limits": fields}


def spent(of: str, name: str, held: int, budget: int | None, stops: str | None = None, at: float = 2.0) -> Event:
    """*held*: GPU-hours that were held in January 1970 until *at*."""
    fields = {"of": of, "name": name, "month": 0.0, "held": held * 3_600_000_000, "since": at, "stops": stops}
    return "SetSpent", {"spent": fields, "budget": budget}


def node(name: str, gpus: int, **more: Any) -> Event:
    fields: dict[str, Any] = {"name": name, "resources": {"gpu": gpus}, "flavor": "default", "labels": {}, "taints": []}
    return "PutNode", {"node": fields | {"ready": True, "cordoned": False} | more}


def submit(
    name: str, pool: str, priority: str = "NORMAL", at: float = 1.0, user: str = "ann", **upstream: list[str]
) -> Event:
    workflow = {
        "id": name,
        "pool": pool,
        "priority": priority,
        "submit_time": at,
        "upstream": upstream,
        "submitted_by": user,
    }
    return "Submit", {"workflow": workflow, "groups": [{"name": "g"}]}


def timed(event: Event, run: float | None = None, wait: float | None = None) -> Event:
    """The submission *event* with timeouts in seconds."""
    kind, action = event
    return kind, {**action, "exec_timeout_s": run, "queue_timeout_s": wait}


def moved(name: str, status: str) -> Event:
    return "MoveGroup", {"workflow": name, "group": "g", "status": status, "message": "", "stopping": None}


def gone(name: str, status: str = "FAILED_PREEMPTED") -> list[Event]:
    """The gang ends, and its group with it."""
    return [of("Release", name), moved(name, status)]


def waiting(name: str, pool: str, after: str, when: str = "ok", **more: str) -> Event:
    """A workflow that waits until *after* has ended. *more*: the ``element``."""
    kind, action = submit(name, pool)
    return kind, {
        **action,
        "workflow": {**action["workflow"], "after": [{"workflow": after, "when": when, "ended": None} | more]},
    }


def array(name: str, pool: str, most: int) -> list[Event]:
    """An array of two elements, none of which is queued yet."""
    kind, action = submit(name, pool)
    groups = [{"name": str(index)} for index in range(2)]
    return [(kind, {"workflow": {**action["workflow"], "most": most}, "groups": groups})]


def element(event: Event, index: int) -> Event:
    """*event* of a gang, for one element of an array instead."""
    kind, action = event
    gang = action["gang"]
    named = f"{gang if isinstance(gang, str) else gang['id']}".replace("/g", f"/{index}")
    return kind, {**action, "gang": named if isinstance(gang, str) else {**gang, "id": named}}


def ended(name: str, status: str) -> Event:
    return "MoveWorkflow", {"workflow": name, "status": status, "message": "", "cancelled_by": None}


def queue(name: str, pool: str, priority: str = "NORMAL", at: float = 1.0, gpus: int = 1, **more: Any) -> Event:
    pods = {
        "name": "t",
        "count": 1,
        "min_count": None,
        "platform": None,
        "topology": [],
        "requests": [["gpu", gpus]],
    } | more
    gang = {
        "id": f"{name}/g",
        "pool": pool,
        "priority": priority,
        "submitted_at": at,
        "pod_sets": [pods],
        "refused": "",
    }
    return "Queue", {"gang": gang}


def work(
    name: str, pool: str, priority: str = "NORMAL", at: float = 1.0, gpus: int = 1, user: str = "ann", **more: Any
) -> list[Event]:
    """Submitted and queued."""
    return [submit(name, pool, priority, at, user), queue(name, pool, priority, at, gpus, **more)]


def placed(*shares: tuple[str, int, list[int]]) -> list[dict[str, Any]]:
    """*shares*: (node, pods, GPUs)."""
    listed = [{"node": node, "count": count, "gpus": gpus} for node, count, gpus in shares]
    return [{"pod_set": "t", "flavor": "default", "count": sum(count for _, count, _ in shares), "shares": listed}]


def admit(name: str, *shares: tuple[str, int, list[int]]) -> Event:
    return "Admit", {"gang": f"{name}/g", "placement": placed(*shares)}


def nominate(name: str, node: str, *targets: str) -> Event:
    return "Nominate", {
        "gang": f"{name}/g",
        "placement": placed((node, 1, [])),
        "targets": [f"{each}/g" for each in targets],
    }


def preempt(name: str, by: str, law: str = "RECLAIM") -> Event:
    return "Preempt", {"gang": f"{name}/g", "by": f"{by}/g", "law": law}


def of(kind: str, name: str, **more: Any) -> Event:
    return kind, {"gang": f"{name}/g", **more}


FLAVOR: Event = ("SetFlavors", {"flavors": [{"name": "default", "node_labels": {}, "taints": []}]})


def log(*commits: Sequence[Event]) -> list[Commit]:
    """A commit a second. The first declares; each one that decides about gangs is a whole cycle."""
    found = []
    for at, events in enumerate([[FLAVOR, *commits[0]], *commits[1:]], 1):
        decides = any(kind in ("Admit", "Nominate", "Release", "Withdraw") for kind, _ in events)
        found.append(Commit(at, float(at), "engine" if decides else "ann", events, decides))
    return found


def reports(commits: Iterable[Commit]) -> list[Report]:
    return Checker().read(commits)


def is_lawful(commits: Iterable[Commit]) -> bool:
    """Judges up to the first report."""
    checker = Checker()
    return next(chain.from_iterable(map(checker.take, commits)), None) is None


def broken(commits: Iterable[Commit]) -> set[str]:
    """The laws that the log breaks."""
    return {report.law for report in reports(commits)}


def recorded(family: str = "") -> Iterator[tuple[str, list[Commit]]]:
    for history in read(family):
        if not history["name"].startswith(WITHOUT_NODES):
            yield history["name"], list(log_of(history))


def log_of(history: Plain) -> Iterator[Commit]:
    """Turns a recorded history into the event log of a server, with one commit per cycle."""
    number = 0
    for step in history["steps"]:
        events = step.get("cycle", step.get("do", step.get("plan")))
        if events is None:
            continue
        number += 1
        for kind, action in events:
            if kind == "Submit":
                groups = step["spec"]["groups"]
                action["workflow"]["upstream"] = {each["name"]: each["upstream"] for each in groups}
        ends = "cycle" in step
        yield Commit(number, step["at"], "engine" if ends else "u", [(kind, action) for kind, action in events], ends)
