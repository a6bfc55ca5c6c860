"""Whether a placement is valid and how compact it is: judged by rules T1 and T2, pod by pod. Which pods must be
together is read directly from the requirements here, and not from the constraint tree, so that a mistake in one of them
is found.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from runrig.domain.gangs import Assignment, NodeShare, Placement, Requirement
from runrig.domain.nodes import DEFAULT_FLAVOR
from runrig.domain.quantities import GPU
from tests.engine.placement.problem import Problem


@dataclass(frozen=True, slots=True, order=True)
class Yardstick:
    """The distance of the pods, compared left to right; less is better. *lost*: per level, coarse to fine, over the
    preferred groups of that level: how many levels, its own and coarser ones, do not keep the group together.
    *domains*: how many domains of their own level the preferred groups use; without any, how many domains of the finest
    level the gang uses (1 in a pool without levels). *nodes*: how many nodes it uses.
    """

    lost: tuple[int, ...]
    domains: int
    nodes: int


Nodes = list[list[str]]
"""Per pod set, the node of each pod in order."""


def nodes_of(placement: Placement) -> Nodes:
    return [[share.node for share in each.shares for _ in range(share.count)] for each in placement]


def placement_of(problem: Problem, nodes: Nodes) -> Placement:
    """The same as the engine would return it, without GPU indices; the flavor is that of the first pod's node."""
    return tuple(
        Assignment(
            pod_set.name,
            problem.node_of[names[0]].flavor if names else DEFAULT_FLAVOR,
            len(names),
            tuple(NodeShare(name, len(list(pods))) for name, pods in groupby(names)),
        )
        for pod_set, names in zip(problem.pod_sets, nodes, strict=True)
    )


def measure(problem: Problem, nodes: Nodes) -> Yardstick:
    lost = [0] * len(problem.keys)
    domains = 0
    preferred = [each for each in problem.together if not each.required]
    for each in preferred:
        used = [problem.node_of[name] for run in each.runs for name in nodes[run.index][run.start : run.stop]]
        touched = [len({problem.domain(node, level) for node in used}) for level in range(each.level + 1)]
        lost[each.level] += sum(count > 1 for count in touched)
        domains += touched[-1]
    everywhere = {name for names in nodes for name in names}
    if not preferred:
        finest = len(problem.keys) - 1
        domains = len({problem.domain(problem.node_of[name], finest) for name in everywhere}) if problem.keys else 1
    return Yardstick(tuple(lost), domains, len(everywhere))


# ---------------------------------------------------------------- violations


Indices = Mapping[str, Collection[int]]
"""Node → GPUs."""


def faults(problem: Problem, placement: Placement, taken: Indices | None = None) -> list[str]:
    """Sentences; empty if it is valid. *taken*: the GPUs of others; None: the first of each node."""
    nodes = nodes_of(placement)
    if taken is None:
        taken = {name: range(amounts.get(GPU, 0)) for name, amounts in problem.held.items()}
    found = [
        *_wrong_form(problem, placement),
        *_wrong_nodes(problem, placement),
        *_too_full(problem, nodes),
        *_wrong_gpus(problem, placement, taken),
    ]
    return found or list(_apart(problem, nodes))


def _wrong_form(problem: Problem, placement: Placement) -> Iterator[str]:
    names = [each.pod_set for each in placement]
    if names != [each.name for each in problem.pod_sets]:
        yield f"assignments of {names}"
    for at, each in enumerate(placement[: len(problem.counts)]):
        placed = sum(share.count for share in each.shares)
        if not each.count == placed == problem.counts[at]:
            yield f"{each.pod_set} has count {each.count} and {placed} pods in shares, of {problem.counts[at]}"
        if any(share.count < 1 for share in each.shares):
            yield f"{each.pod_set} has an empty share"


def _wrong_nodes(problem: Problem, placement: Placement) -> Iterator[str]:
    for at, each in enumerate(placement):
        for name in sorted({share.node for share in each.shares}):
            node = problem.node_of.get(name)
            if node is None or not problem.takes(node, problem.pod_sets[at]):
                yield f"{each.pod_set} cannot be on {name}"
            elif node.flavor != each.flavor:
                yield f"{each.pod_set} was granted {each.flavor}, and {name} is {node.flavor}"


def _too_full(problem: Problem, nodes: Nodes) -> Iterator[str]:
    asked: dict[str, Counter[str]] = {}
    for pod_set, names in zip(problem.pod_sets, nodes, strict=True):
        for name in names:
            asked.setdefault(name, Counter()).update(dict(pod_set.requests))
    for name, amounts in sorted(asked.items()):
        if name not in problem.node_of:
            continue
        for resource, amount in sorted(amounts.items()):
            room = problem.room(problem.node_of[name], resource)
            if room is not None and amount > room:
                yield f"{name} has {room} of {resource}, and {amount} are on it"


def _wrong_gpus(problem: Problem, placement: Placement, taken: Indices) -> Iterator[str]:
    """Indices are optional. If they are given, there is one for each GPU, and no two pods share one."""
    given: dict[str, list[int]] = {}
    for pod_set, each in zip(problem.pod_sets, placement, strict=True):
        per_pod = dict(pod_set.requests).get(GPU, 0)
        for share in each.shares:
            if share.gpus and len(share.gpus) != share.count * per_pod:
                yield f"{each.pod_set} has GPUs {share.gpus} on {share.node}, and needs {share.count * per_pod}"
            given.setdefault(share.node, []).extend(share.gpus)
    for name, indices in sorted(given.items()):
        node = problem.node_of.get(name)
        free = set(range(node.resources.get(GPU, 0))) - set(taken.get(name, ())) if node else set()
        if len(set(indices)) < len(indices) or not set(indices) <= free:
            yield f"GPUs {sorted(indices)} of {name}, where {sorted(free)} are free"


# ---------------------------------------------------------------- domains


def _apart(problem: Problem, nodes: Nodes) -> Iterator[str]:
    """Required groups, or slices of them, that are in more than one domain."""
    named = {asked.key for each in problem.pod_sets for asked in each.topology}
    levels = [level for level, key in enumerate(problem.keys) if key.key in named]
    members: dict[tuple[object, ...], set[tuple[str, ...]]] = {}
    for pod_set, names in zip(problem.pod_sets, nodes, strict=True):
        by_key = {asked.key: asked for asked in pod_set.topology}
        asked_of = {level: by_key.get(problem.keys[level].key) for level in levels}
        size = None
        for level, asked in asked_of.items():
            size = (asked.slice_size if asked else None) or size
            if asked is None or not asked.required:
                continue
            above = tuple(_group(asked_of[coarser]) for coarser in levels if coarser < level)
            for pod, name in enumerate(names):
                slice_of = (pod_set.name, pod // size) if size else None
                members.setdefault((level, above, asked.group, slice_of), set()).add(
                    problem.domain(problem.node_of[name], level)
                )
    for group, domains in members.items():
        if len(domains) > 1:
            yield f"{group} is in {sorted(domains)}"


def _group(asked: Requirement | None) -> str | None:
    return asked.group if asked else None
