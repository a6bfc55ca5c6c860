"""Cases in which flavors are chosen already, as cases that the cycle can run: a selector leaves no other flavor."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance.cases import Case

KIND = "example.com/kind"
"""Each flavor carries this label with its own name."""


def with_usage(case: Case) -> Case:
    """A quota case: one workload per queue holds what the queue uses."""
    return _labelled(case) | {
        "running": {
            f"holder-{queue}": {"queue": queue, "pods": {name: {"uses": uses} for name, uses in _pod_sets(usage)}}
            for queue, usage in case.get("usage", {}).items()
        }
    }


def with_request(case: Case, queue: str, amounts: Mapping[str, int]) -> Case:
    """The same, and one workload that asks *amounts* of *queue*."""
    return {**with_usage(case), "pending": {"new": incoming(case, queue, amounts)}}


def with_incoming(case: Case) -> Case:
    """A preemption case: what comes in waits."""
    work = case["incoming"]
    more = {key: work[key] for key in ("priority", "created_at") if key in work}
    return _labelled(case) | {"pending": {work["name"]: incoming(case, work["queue"], work["requests"]) | more}}


def declares(case: Case) -> bool:
    """Whether the queue of what comes in has a quota of all that it asks: without one the cycle does not look further."""
    groups = case["queues"][case["incoming"]["queue"]].get("groups", ())
    keys = {f"{flavor}/{resource}" for group in groups for flavor, amounts in group.items() for resource in amounts}
    return set(case["incoming"]["requests"]) <= keys


def incoming(case: Case, queue: str, amounts: Mapping[str, int]) -> dict[str, Any]:
    """A waiting workload whose requests are by flavor and resource."""
    return {"queue": queue, "pods": {name: _pods(case, queue, wants) for name, wants in _pod_sets(amounts)}}


def _pods(case: Case, queue: str, wants: Mapping[str, int]) -> dict[str, Any]:
    keys = [key.split("/", 1) for key in wants]
    pods: dict[str, Any] = {"requests": {resource: wants[f"{flavor}/{resource}"] for flavor, resource in keys}}
    groups = case["queues"][queue].get("groups", ())
    choice = {flavor for flavor, resource in keys if any(len(group) > 1 for group in groups if flavor in group)}
    assert len(choice) <= 1, "one selector names one flavor"
    return pods | {"node_selector": {KIND: choice.pop()}} if choice else pods


def _pod_sets(amounts: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    """A pod set takes a resource from one flavor: as many as the most flavors that one resource is asked of."""
    sets: list[dict[str, int]] = [{}]
    for key, amount in amounts.items():
        resource = key.split("/", 1)[1]
        free = (each for each in sets if all(other.split("/", 1)[1] != resource for other in each))
        found = next(free, None)
        if found is None:
            sets.append(found := {})
        found[key] = amount
    yield from (("main" if position == 0 else f"set-{position}", each) for position, each in enumerate(sets))


def _labelled(case: Case) -> dict[str, Any]:
    nodes = (*case["queues"].values(), *case.get("cohorts", {}).values())
    flavors = dict.fromkeys(name for node in nodes for group in node.get("groups", ()) for name in group)
    return {**case, "flavors": {name: {"labels": {KIND: name}} for name in flavors}}
