"""A case as values of the engine, without a file in between: for rest, and to hold against what the reader makes of the file."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from runrig.domain.kueue import FAIR, Settings, Strategy
from runrig.domain.pools import Queueing, Quota, Quotas
from runrig.domain.quantities import FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    Granted,
    Policies,
    Policy,
    Preference,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    System,
    Workload,
    WorkloadPodSet,
)
from tests.conformance.cases import Case
from tests.conformance.manifests import full

NAME_LABEL = "kubernetes.io/metadata.name"
QUEUEING = {"StrictFIFO": Queueing.STRICT_FIFO, "BestEffortFIFO": Queueing.BEST_EFFORT_FIFO}


def system(case: Case) -> System:
    """What *case* declares; only what cases without selectors, taints, checks and conditions need."""
    work = {**case.get("running", {}), **case.get("pending", {})}
    nodes = (*case["queues"].values(), *case.get("cohorts", {}).values())
    flavors = dict.fromkeys(name for node in nodes for group in node.get("groups", ()) for name in group)
    return System(
        cohorts=tuple(_cohort(name, each) for name, each in case.get("cohorts", {}).items()),
        queues=tuple(_queue(name, each) for name, each in case["queues"].items()),
        flavors=tuple(ResourceFlavor(name) for name in flavors),
        workloads=tuple(workload(name, each) for name, each in work.items()),
        namespaces={name: {NAME_LABEL: name} for name in dict.fromkeys(full(name).split("/")[0] for name in work)},
        now=max(
            (float(each.get(key, 0)) for each in work.values() for key in ("created_at", "reserved_at")), default=0
        ),
    )


def settings(case: Case) -> Settings:
    fair = case.get("fair")
    strategies = None if not fair else FAIR if fair is True else tuple(Strategy(each) for each in fair)
    return Settings(strategies, case.get("gates", {}))


def workload(name: str, work: Mapping[str, Any]) -> Workload:
    created = float(work.get("created_at", 0))
    running = any("uses" in pods for pods in work["pods"].values())
    return Workload(
        name=full(name),
        queue=work["queue"],
        pod_sets=tuple(_pod_set(key, pods) for key, pods in work["pods"].items()),
        priority=work.get("priority", 0),
        created_at=created,
        queued_at=created,
        uid=work.get("uid", ""),
        namespace=full(name).split("/")[0],
        granted=tuple(_granted(key, pods) for key, pods in work["pods"].items()) if running else None,
        reserved_at=float(work.get("reserved_at", 0)),
        admitted=not work.get("reserved_only", False),
        evicted=work.get("evicted", False),
    )


def _pod_set(name: str, pods: Mapping[str, Any]) -> WorkloadPodSet:
    count = pods.get("count", 1)
    uses = {key.split("/", 1)[1]: amount // count for key, amount in pods.get("uses", {}).items()}
    requests = tuple(sorted(pods.get("requests", uses).items()))
    return WorkloadPodSet(name, count, pods.get("min_count"), requests)


def _granted(name: str, pods: Mapping[str, Any]) -> Granted:
    uses = sorted((key.split("/", 1)[1], key.split("/", 1)[0], amount) for key, amount in pods["uses"].items())
    return Granted(
        name,
        pods.get("count", 1),
        tuple((resource, flavor) for resource, flavor, _ in uses),
        tuple((resource, amount) for resource, _, amount in uses),
    )


def _cohort(name: str, cohort: Mapping[str, Any]) -> QueueCohort:
    return QueueCohort(name, cohort.get("parent"), quotas(cohort), Fraction(str(cohort.get("weight", 1))))


def _queue(name: str, queue: Mapping[str, Any]) -> ClusterQueue:
    groups = queue.get("groups", ())
    return ClusterQueue(
        name=name,
        groups=tuple(ResourceGroup(tuple(next(iter(group.values()))), tuple(group)) for group in groups),
        quotas=quotas(queue),
        cohort=queue.get("cohort"),
        queueing=QUEUEING[queue.get("strategy", "BestEffortFIFO")],
        policies=_policies(queue.get("preemption", {})),
        fungibility=_fungibility(queue.get("fungibility", {})),
        weight=Fraction(str(queue.get("weight", 1))),
        stop=StopPolicy(queue.get("stop", "None")),
    )


def quotas(node: Mapping[str, Any]) -> Quotas:
    """Returns the quotas of a queue or cohort, by flavor and resource."""
    return {
        FlavorResource(flavor, resource): Quota(quota)
        if isinstance(quota, int)
        else Quota(quota["nominal"], quota.get("borrow"), quota.get("lend"))
        for group in node.get("groups", ())
        for flavor, amounts in group.items()
        for resource, quota in amounts.items()
    }


def _policies(policies: Mapping[str, Any]) -> Policies:
    return Policies(
        Policy(policies.get("within_queue", "Never")),
        Policy(policies.get("reclaim", "Never")),
        Policy(policies.get("borrow", "Never")),
        policies.get("borrow_max_priority"),
    )


def _fungibility(rules: Mapping[str, str]) -> Fungibility:
    return Fungibility(
        rules.get("when_can_borrow", "MayStopSearch") == "TryNextFlavor",
        rules.get("when_can_preempt", "TryNextFlavor") == "TryNextFlavor",
        Preference(rules.get("preference", "BorrowingOverPreemption")),
    )
