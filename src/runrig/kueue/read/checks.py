"""Warns of references to missing objects and of cycles of cohorts (rules Q5, Q6)."""

from collections.abc import Mapping, Sequence

from runrig.domain.nodes import Node
from runrig.kueue.declared import ResourceFlavor, Topology
from runrig.kueue.read.drafts import Draft
from runrig.kueue.read.queues import LocalQueue, ReadCohort, ReadQueue
from runrig.kueue.read.tree import Value
from runrig.spec.cycles import cycles

MOST_STEPS = 8
NO_TOPOLOGY = "no Topology is in this file: only quota is checked"


def check_names(
    queues: Sequence[ReadQueue],
    cohorts: Sequence[ReadCohort],
    local_queues: Sequence[LocalQueue],
    flavors: Sequence[tuple[ResourceFlavor, Value]],
    topologies: Sequence[Topology],
) -> None:
    known = {flavor.name for flavor, _ in flavors}
    for found in queues:
        _check_flavors(
            found.groups.flavors,
            known,
            "the queue is inactive until you add the flavor"
            if known
            else "Kueue keeps this queue inactive; the simulation assumes a flavor without labels and taints",
        )
    for cohort in cohorts:
        _check_flavors(cohort.groups.flavors, known, "it cannot be used")
    names = {found.queue.name for found in queues}
    for local in local_queues:
        if local.cluster_queue and local.cluster_queue not in names:
            local.at.warn(f"ClusterQueue {local.cluster_queue!r} is not in this file")
    declared = {topology.name for topology in topologies}
    for flavor, at in flavors:
        if flavor.topology is not None and flavor.topology not in declared:
            at.warn(f"Topology {flavor.topology!r} is not in this file: only quota is checked")
    _check_circles(cohorts)


def check_topologies(
    flavors: Sequence[tuple[ResourceFlavor, Value]],
    topologies: Sequence[Topology],
    nodes: Sequence[Node],
    drafts: Sequence[Draft],
) -> None:
    """Warns if a requested topology is missing or has no nodes."""
    levels = {topology.name: topology.levels for topology in topologies}
    for flavor, at in flavors:
        wanted = levels.get(flavor.topology or "")
        if wanted and not any(
            flavor.labels.items() <= node.labels.items() and node.labels.keys() >= set(wanted) for node in nodes
        ):
            at.warn("no node in this file has its labels and all levels of its topology: no pods can be placed")
    if not topologies:
        for draft in drafts:
            for place in draft.near:
                place.warn(NO_TOPOLOGY)


def _check_flavors(named: Mapping[str, Value], known: set[str], effect: str) -> None:
    for name, at in named.items():
        if name not in known:
            at.warn(f"ResourceFlavor {name!r} is not in this file: {effect}")


def _check_circles(cohorts: Sequence[ReadCohort]) -> None:
    """Warns at every cohort that is its own ancestor. O(cohorts)."""
    parents = {found.cohort.name: found.cohort.parent for found in cohorts}
    circles = {name: (circle, i) for circle in cycles(parents) for i, name in enumerate(circle)}
    for found in cohorts:
        if found.cohort.name in circles:
            way = _way(*circles[found.cohort.name])
            found.at.warn(f"cohorts form a cycle, {way}: nothing new starts in this tree")


def _way(circle: list[str], start: int) -> str:
    """The cycle from *start* back to itself, as text; a long one is cut short."""
    size = len(circle)
    steps = [circle[(start + i) % size] for i in range(min(size, MOST_STEPS))]
    return " → ".join([*steps, *(["…"] if size > MOST_STEPS else []), circle[start]])
