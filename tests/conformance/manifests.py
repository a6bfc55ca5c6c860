"""A case as Kubernetes manifests, as somebody who runs Kueue would have them in a file.

Three of four cases are written for v1beta2, every fourth for v1beta1, so that both are read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.conformance.cases import Case

Manifest = dict[str, Any]
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
V1, V2 = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"
MEBI = 2**20


def text(case: Case, api: str | None = None) -> str:
    """The scenario file of *case*, in its version or in *api*: flavors, cohorts, queues, then who runs and who waits.

    JSON is YAML, and read faster.
    """
    api = api or version(case)
    made: Iterable[Manifest] = (
        *(_flavor(name, case.get("flavors", {}).get(name, {})) for name in _flavor_names(case)),
        *(_cohort(name, each) for name, each in case.get("cohorts", {}).items()),
        *_checks(case),
        *(_queue(name, each, _check_names(case, name), former=api == V1) for name, each in case["queues"].items()),
        *_local_queues(case),
        *(_running(name, each) for name, each in case.get("running", {}).items()),
        *(_pending(name, each) for name, each in case.get("pending", {}).items()),
    )
    return "\n---\n".join(json.dumps({"apiVersion": api, **each}) for each in made)


def version(case: Case) -> str:
    return V1 if int(case["id"].rsplit("-", 1)[1]) % 4 == 0 else V2


def full(name: str) -> str:
    """*name* with its namespace."""
    return name if "/" in name else f"default/{name}"


# ---------------------------------------------------------------- declarations


def _flavor_names(case: Case) -> list[str]:
    nodes = (*case["queues"].values(), *case.get("cohorts", {}).values())
    of_groups = (name for node in nodes for group in node.get("groups", ()) for name in group)
    held = (key.split("/", 1)[0] for key in _usages(case))
    return list(dict.fromkeys((*case.get("flavors", {}), *of_groups, *held)))


def _usages(case: Case) -> Iterator[str]:
    for each in case.get("running", {}).values():
        for pods in each["pods"].values():
            yield from pods["uses"]


def _flavor(name: str, flavor: Mapping[str, Any]) -> Manifest:
    spec = {
        "nodeLabels": flavor.get("labels"),
        "nodeTaints": flavor.get("taints"),
        "tolerations": flavor.get("tolerations"),
    }
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": _filled(spec)}


def _cohort(name: str, cohort: Mapping[str, Any]) -> Manifest:
    spec = {"parentName": cohort.get("parent"), "resourceGroups": _groups(cohort), "fairSharing": _weight(cohort)}
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": _filled(spec)}


def _queue(name: str, queue: Mapping[str, Any], checks: list[str], *, former: bool) -> Manifest:
    spec = {
        "cohort" if former else "cohortName": queue.get("cohort"),
        "namespaceSelector": {},
        "queueingStrategy": queue.get("strategy"),
        "resourceGroups": _groups(queue),
        "preemption": _preemption(queue.get("preemption", {})),
        "flavorFungibility": _fungibility(queue.get("fungibility", {}), former=former),
        "fairSharing": _weight(queue),
        "stopPolicy": queue.get("stop"),
    }
    if checks and former:
        spec["admissionChecks"] = checks
    elif checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": each} for each in checks]}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": _filled(spec)}


def _groups(node: Mapping[str, Any]) -> list[Manifest] | None:
    groups = [
        {
            "coveredResources": list(next(iter(group.values()))),
            "flavors": [
                {"name": flavor, "resources": [_quota(resource, quota) for resource, quota in quotas.items()]}
                for flavor, quotas in group.items()
            ],
        }
        for group in node.get("groups", ())
    ]
    return groups or None


def _quota(resource: str, quota: int | Mapping[str, int]) -> Manifest:
    if isinstance(quota, int):
        quota = {"nominal": quota}
    words = {"nominal": "nominalQuota", "borrow": "borrowingLimit", "lend": "lendingLimit"}
    return {"name": resource, **{words[key]: quantity(resource, amount) for key, amount in quota.items()}}


def _preemption(policies: Mapping[str, Any]) -> Manifest | None:
    borrow = _filled({"policy": policies.get("borrow"), "maxPriorityThreshold": policies.get("borrow_max_priority")})
    spec = {
        "withinClusterQueue": policies.get("within_queue"),
        "reclaimWithinCohort": policies.get("reclaim"),
        "borrowWithinCohort": borrow or None,
    }
    return _filled(spec) or None


def _fungibility(rules: Mapping[str, str], *, former: bool) -> Manifest | None:
    words = {"when_can_borrow": "Borrow", "when_can_preempt": "Preempt"} if former else {}
    spec = {
        "whenCanBorrow": rules.get("when_can_borrow"),
        "whenCanPreempt": rules.get("when_can_preempt"),
        "preference": rules.get("preference"),
    }
    for key, word in words.items():
        if rules.get(key) == "MayStopSearch":
            spec[f"whenCan{word}"] = word
    return _filled(spec) or None


def _weight(node: Mapping[str, Any]) -> Manifest | None:
    return {"weight": str(node["weight"])} if "weight" in node else None


def _checks(case: Case) -> list[Manifest]:
    names = dict.fromkeys(check for queue in case["queues"] for check in _check_names(case, queue))
    spec = {"controllerName": "example.com/checks"}
    return [{"kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec} for name in names]


def _check_names(case: Case, queue: str) -> list[str]:
    waiting = (each for each in case.get("pending", {}).values() if each["queue"] == queue)
    return list(dict.fromkeys(check for each in waiting for check in each.get("checks", ())))


def _local_queues(case: Case) -> list[Manifest]:
    work = (*case.get("running", {}).items(), *case.get("pending", {}).items())
    used = dict.fromkeys((full(name).split("/")[0], each["queue"]) for name, each in work)
    return [
        {"kind": "LocalQueue", "metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": name}}
        for namespace, name in used
    ]


# ---------------------------------------------------------------- running and pending workloads


def _running(name: str, work: Mapping[str, Any]) -> Manifest:
    reserved = stamp(work.get("reserved_at", 0))
    conditions = [_condition("QuotaReserved", reserved, "QuotaReserved")]
    if not work.get("reserved_only"):
        conditions.append(_condition("Admitted", reserved, "Admitted"))
    if work.get("evicted"):
        conditions.append(_condition("Evicted", reserved, "Preempted"))
    admission = {
        "clusterQueue": work["queue"],
        "podSetAssignments": [_assignment(key, pods) for key, pods in work["pods"].items()],
    }
    pod_sets = [
        {"name": key, "count": pods.get("count", 1), "template": _template(_per_pod(pods), {})}
        for key, pods in work["pods"].items()
    ]
    return _workload(name, work, pod_sets) | {"status": {"admission": admission, "conditions": conditions}}


def _assignment(name: str, pods: Mapping[str, Any]) -> Manifest:
    uses = [(*key.split("/", 1), amount) for key, amount in pods["uses"].items()]
    return {
        "name": name,
        "count": pods.get("count", 1),
        "flavors": {resource: flavor for flavor, resource, _ in uses},
        "resourceUsage": {resource: quantity(resource, amount) for _, resource, amount in uses},
    }


def _per_pod(pods: Mapping[str, Any]) -> dict[str, int]:
    used = {key.split("/", 1)[1]: amount for key, amount in pods["uses"].items()}
    return {resource: amount // pods.get("count", 1) for resource, amount in used.items() if resource != "pods"}


def _pending(name: str, work: Mapping[str, Any]) -> Manifest:
    conditions = [
        _condition(kind, stamp(each["at"]), each["reason"]) for kind, each in work.get("conditions", {}).items()
    ]
    gone = [
        {"name": key, "count": pods["reclaimable"]} for key, pods in work["pods"].items() if pods.get("reclaimable")
    ]
    checks = [
        {"name": check, "state": state, "lastTransitionTime": stamp(0), "message": ""}
        for check, state in work.get("checks", {}).items()
    ]
    status = _filled(
        {"conditions": conditions or None, "reclaimablePods": gone or None, "admissionChecks": checks or None}
    )
    pod_sets = [
        _filled(
            {
                "name": key,
                "count": pods.get("count", 1),
                "minCount": pods.get("min_count"),
                "template": _template(pods["requests"], pods),
            }
        )
        for key, pods in work["pods"].items()
    ]
    made = _workload(name, work, pod_sets)
    return made | {"status": status} if status else made


def _workload(name: str, work: Mapping[str, Any], pod_sets: list[Manifest]) -> Manifest:
    namespace, short = full(name).split("/")
    metadata = {
        "name": short,
        "namespace": namespace,
        "uid": work.get("uid"),
        "creationTimestamp": stamp(work.get("created_at", 0)),
    }
    spec = {"queueName": work["queue"], "priority": work.get("priority", 0), "podSets": pod_sets}
    return {"kind": "Workload", "metadata": _filled(metadata), "spec": spec}


def _template(requests: Mapping[str, int], pods: Mapping[str, Any]) -> Manifest:
    amounts = {resource: quantity(resource, amount) for resource, amount in requests.items()}
    affinity = pods.get("affinity")
    terms = {"nodeSelectorTerms": [{"matchExpressions": term} for term in affinity or ()]}
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/image", "resources": {"requests": amounts}}],
        "nodeSelector": pods.get("node_selector"),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} if affinity else None,
        "tolerations": pods.get("tolerations"),
    }
    return {"spec": _filled(spec)}


# ---------------------------------------------------------------- times, amounts


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def quantity(resource: str, amount: int) -> str:
    """*amount* as a person would write it: ``1500m``, ``2``, ``5Mi``."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource == "memory" and amount and amount % MEBI == 0:
        return f"{amount // MEBI}Mi"
    return str(amount)


def _condition(kind: str, at: str, reason: str) -> Manifest:
    return {"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason, "message": ""}


def _filled(values: Manifest) -> Manifest:
    return {key: value for key, value in values.items() if value is not None}
