"""Warnings for names that lead nowhere, and cohorts whose parents run in a circle (laws Q5, Q6)."""

from collections.abc import Mapping, Sequence

from runrig.domain.nodes import Node
from runrig.kueue.declared import ResourceFlavor, Topology
from runrig.kueue.read.drafts import Draft
from runrig.kueue.read.queues import LocalQueue, ReadCohort, ReadQueue
from runrig.kueue.read.tree import Value

MOST_STEPS = 8
NO_TOPOLOGY = "there is no Topology in this file: quota alone decides"


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
            "this queue is inactive, and nothing starts there: define it"
            if known
            else "Kueue keeps this queue inactive; no flavor is defined here, and so it is taken as one without labels and taints",
        )
    for cohort in cohorts:
        _check_flavors(cohort.groups.flavors, known, "nothing can use it")
    names = {found.queue.name for found in queues}
    for local in local_queues:
        if local.cluster_queue and local.cluster_queue not in names:
            local.at.warn(f"there is no ClusterQueue {local.cluster_queue!r} in this file")
    declared = {topology.name for topology in topologies}
    for flavor, at in flavors:
        if flavor.topology is not None and flavor.topology not in declared:
            at.warn(f"there is no Topology {flavor.topology!r} in this file: quota alone decides")
    _check_circles(cohorts)


def check_topologies(
    flavors: Sequence[tuple[ResourceFlavor, Value]],
    topologies: Sequence[Topology],
    nodes: Sequence[Node],
    drafts: Sequence[Draft],
) -> None:
    """Warns where a topology is asked for and there is none, or one without nodes."""
    levels = {topology.name: topology.levels for topology in topologies}
    for flavor, at in flavors:
        wanted = levels.get(flavor.topology or "")
        if wanted and not any(
            flavor.labels.items() <= node.labels.items() and node.labels.keys() >= set(wanted) for node in nodes
        ):
            at.warn("no node in this file has its labels and all levels of its topology: nothing can be placed there")
    if not topologies:
        for draft in drafts:
            for place in draft.near:
                place.warn(NO_TOPOLOGY)


def _check_flavors(named: Mapping[str, Value], known: set[str], effect: str) -> None:
    for name, at in named.items():
        if name not in known:
            at.warn(f"there is no ResourceFlavor {name!r} in this file: {effect}")


def _check_circles(cohorts: Sequence[ReadCohort]) -> None:
    """Warns at every cohort that is its own ancestor.  Each is walked over once."""
    parents = {found.cohort.name: found.cohort.parent for found in cohorts}
    circles: dict[str, tuple[list[str], int]] = {}
    done: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        at: str | None = start
        while at in parents and at not in done and at not in path:
            path[at] = None
            at = parents[at]
        if at in path:
            steps = list(path)
            circle = steps[steps.index(at) :]
            circles.update({name: (circle, i) for i, name in enumerate(circle)})
        done.update(path)
    for found in cohorts:
        if found.cohort.name in circles:
            way = _way(*circles[found.cohort.name])
            found.at.warn(f"the parents of cohorts run in a circle, {way}: nothing new starts in this tree")


def _way(circle: list[str], start: int) -> str:
    """Once around from *start*; of a long one the first steps."""
    size = len(circle)
    steps = [circle[(start + i) % size] for i in range(min(size, MOST_STEPS))]
    return " → ".join([*steps, *(["…"] if size > MOST_STEPS else []), circle[start]])
