"""Scenarios run in memory: the text of the file, the workflow files that it names, and the one line of JSON that comes out."""

import json
from collections.abc import Callable
from typing import Any

from runrig.domain.errors import InvalidInput
from runrig.service.simulate.simulate import Options, start
from runrig.wire.simulate import Outcome, as_line
from tests.worlds.manifests import group, manifest, pod


def folder(**files: str) -> Callable[[str], str]:
    """*files* by name without ``.yaml``."""

    def read(name: str) -> str:
        if name.removesuffix(".yaml") not in files:
            raise InvalidInput.one(f"{name}: no such file")
        return files[name.removesuffix(".yaml")]

    return read


def outcome(text: str | bytes, name: str, options: Options | None = None, **files: str) -> Outcome:
    """Of the whole run."""
    run = start(text, name, options or Options(), folder(**files))
    for _ in run.steps():
        pass
    return run.outcome()


def line(text: str, options: Options | None = None, **files: str) -> Any:
    return json.loads(as_line(outcome(text, "test.yaml", options, **files)))


def cell(nominal: int, usage: int, available: int, potential: int, **more: int) -> dict[str, int]:
    """A node that keeps nothing for itself and brings *nominal*, unless *more* says otherwise."""
    numbers = {"nominal": nominal, "subtree": nominal, "local": 0, "usage": usage} | more
    used = {"used": numbers.pop("used")} if "used" in numbers else {}
    balance = numbers["subtree"] - usage
    return numbers | {"balance": balance, "available": available, "potential": potential} | used


def share(value: int = 0, resource: str = "") -> dict[str, Any]:
    return {"value": value, "resource": resource, "borrowing": bool(resource)}


# ---------------------------------------------------------------- Kueue manifests

LATEST = 10
"""Second of the day at which the newest object of every scenario was created."""


def manifests(*documents: dict[str, Any]) -> str:
    return "\n---\n".join(json.dumps(document) for document in documents)


def kueue(
    kind: str, name: str, spec: dict[str, Any] | None = None, version: str = "v1beta2", **more: Any
) -> dict[str, Any]:
    return manifest(kind, name, spec or {}, f"kueue.x-k8s.io/{version}", **more)


def queue(
    name: str, cpu: int, cohort: str | None = None, *, borrow: int | None = None, lend: int | None = None, **spec: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cluster queue, with a local queue of the same name in the namespace `default`."""
    limits = {"borrowingLimit": borrow, "lendingLimit": lend}
    quota = {"nominalQuota": cpu} | {key: limit for key, limit in limits.items() if limit is not None}
    groups = [group({"default": {"cpu": quota}})]
    fields: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": groups, **spec} | (
        {"cohortName": cohort} if cohort else {}
    )
    local = kueue("LocalQueue", name, {"clusterQueue": name}, meta={"namespace": "default"})
    return kueue("ClusterQueue", name, fields), local


def pods(cpu: int, count: int = 1, **fields: Any) -> dict[str, Any]:
    template = pod({"cpu": str(cpu)}, restartPolicy="Never")
    return {"name": "main", "count": count, "template": template, **fields}


def stamp(second: int) -> str:
    return f"2027-01-15T08:00:{second:02}Z"


def workload(
    name: str,
    to: str,
    cpu: int,
    count: int = 1,
    *,
    at: int = 1,
    priority: int = 0,
    running: bool = False,
    **pod_set: Any,
) -> dict[str, Any]:
    made = kueue("Workload", name, {"queueName": to, "priority": priority, "podSets": [pods(cpu, count, **pod_set)]})
    made["metadata"] |= {"namespace": "default", "creationTimestamp": stamp(at), "uid": name}
    if running:
        granted = {
            "name": "main",
            "count": count,
            "flavors": {"cpu": "default"},
            "resourceUsage": {"cpu": str(cpu * count)},
        }
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": stamp(at)}
            for kind in ("QuotaReserved", "Admitted")
        ]
        made["status"] = {"admission": {"clusterQueue": to, "podSetAssignments": [granted]}, "conditions": conditions}
    return made


FLAVOR = kueue("ResourceFlavor", "default")
TEMPLATE = {"template": pods(1)["template"]}


def job(name: str, pods: int, least: int) -> dict[str, Any]:
    """Its completions follow its parallelism."""
    marks = {"job-min-parallelism": str(least), "job-completions-equal-parallelism": "true"}
    meta: dict[str, Any] = {"name": name, "namespace": "default", "creationTimestamp": stamp(2), "uid": name}
    meta |= {"labels": {"kueue.x-k8s.io/queue-name": "cq-a"}}
    meta |= {"annotations": {f"kueue.x-k8s.io/{mark}": value for mark, value in marks.items()}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "suspend": True, **TEMPLATE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def behind(made: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """*made*, the Workload of the job *name*."""
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": name}
    return made | {"metadata": made["metadata"] | {"ownerReferences": [owner]}}


def running(asks: int, least: int, gets: int, pod_set: str = "main") -> dict[str, Any]:
    """The Workload ``run`` in cq-a, admitted with *gets* pods of one core."""
    made = workload("run", "cq-a", 1, asks, running=True, minCount=least)
    made["spec"]["podSets"][0] |= {"name": pod_set}
    (granted,) = made["status"]["admission"]["podSetAssignments"]
    granted |= {"name": pod_set, "count": gets, "resourceUsage": {"cpu": gets}}
    return made
