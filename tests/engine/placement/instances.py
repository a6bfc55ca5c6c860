"""Random small placement problems, reproducible by seed. Three families, so that about half are feasible and most are
tight. scattered: free amounts are anywhere, and the gang requests 60 to 110 % of them. planted: exactly the room for a
valid placement is free, plus a little elsewhere that misleads a greedy search. broken: a planted one with one unit
less.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runrig.domain.errors import Refused
from runrig.domain.gangs import PodSet, Requirement
from runrig.domain.nodes import Flavor, Node, Taint
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.quantities import CPU, GPU, MEMORY, requests_of
from runrig.engine.placement.constraint_tree import tree_of
from tests.engine.placement.problem import Problem

FAMILIES = ("scattered", "planted", "broken")
UNITS = {GPU: 1, CPU: 500, MEMORY: 2**30}
LARGEST = {GPU: 4, CPU: 9, MEMORY: 6}
"""The largest request of one pod, in units."""

BIG = Flavor("big", {"kind": "big"}, (Taint("reserved", "big"),), position=0)
SMALL = Flavor("small", {"kind": "small"}, position=1)

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Size:
    """Maximum numbers, or the numbers that pod sets are drawn from."""

    nodes: tuple[int, int] = (4, 14)
    pod_sets: tuple[int, ...] = (1, 1, 2, 2, 3, 4, 5)
    pods: int = 8


SMALL_CLUSTERS = Size()
TINY = Size((2, 4), (1, 1, 2, 2, 3), 4)
"""All placements can be listed."""


@dataclass(frozen=True, slots=True)
class Instance:
    seed: int
    family: str
    problem: Problem


def instance(seed: int, size: Size = SMALL_CLUSTERS) -> Instance:
    rng = random.Random(seed)
    family = rng.choice(FAMILIES)
    keys = _keys(rng)
    flavors = (BIG, SMALL) if rng.random() < 0.3 else (replace(SMALL, node_labels={}),)
    resources = rng.sample([GPU, CPU, MEMORY], rng.choice([1, 1, 2, 2, 3]))
    pod_sets = _pod_sets(rng, keys, flavors, resources, size)
    nodes = _nodes(rng, keys, flavors, resources, rng.randint(*size.nodes))
    bare = Problem(nodes, pod_sets, keys, {}, flavors, _partial(rng, pod_sets))
    planted = None if family == "scattered" else _plant(rng, bare)
    if planted is None:
        return Instance(seed, "scattered", _filled(rng, bare, _scatter(rng, bare, resources)))
    free = _with_decoys(rng, bare, planted)
    if family == "broken":
        _break(rng, free, planted)
    return Instance(seed, family, _filled(rng, bare, free))


# ---------------------------------------------------------------- the cluster


def _keys(rng: random.Random) -> tuple[TopologyKey, ...]:
    names = rng.choice([("rack",), ("rack",), ("zone", "rack"), ("zone", "rack"), ("zone", "spine", "rack")])
    keys = tuple(TopologyKey(name, f"example.org/{name}") for name in names)
    return (*keys[:2], TopologyKey("host", HOSTNAME)) if rng.random() < 0.2 else keys


def _nodes(
    rng: random.Random, keys: Sequence[TopologyKey], flavors: Sequence[Flavor], resources: Sequence[str], count: int
) -> tuple[Node, ...]:
    """Nodes without free amounts; a few accept nothing, or nothing with requirements."""
    # Racks of different zones have the same names.
    values = [[f"{key.key[0]}{i}" for i in range(rng.randint(1 + (key is keys[0]), 4))] for key in keys]
    odd = rng.random() < 0.35
    nodes = []
    for at in range(count):
        labels = {
            key.label: rng.choice(among)
            for key, among in zip(keys, values, strict=True)
            if key.label != HOSTNAME and not (odd and rng.random() < 0.06)
        }
        flavor = rng.choice(flavors)
        taints = flavor.taints if rng.random() < 0.5 else ()
        if odd and rng.random() < 0.15:
            taints = (*taints, rng.choice([Taint("broken"), Taint("old", "", "PreferNoSchedule")]))
        ready = not (odd and rng.random() < 0.12)
        amounts = dict.fromkeys(resources, 0)
        if odd and CPU in amounts and rng.random() < 0.05:
            del amounts[CPU]
        nodes.append(Node(f"n{at}", amounts, flavor.name, {**labels, **flavor.node_labels}, taints, ready))
    return tuple(nodes)


# ---------------------------------------------------------------- the gang


def _pod_sets(
    rng: random.Random, keys: Sequence[TopologyKey], flavors: Sequence[Flavor], resources: Sequence[str], size: Size
) -> tuple[PodSet, ...]:
    shapes = [_shape(rng, resources) for _ in range(rng.randint(1, 3))]
    platforms = [None, None, *(flavor.name for flavor in flavors)]
    plain = []
    for at in range(rng.choice(size.pod_sets)):
        count = rng.randint(1, size.pods)
        minimum = rng.randint(1, count) if rng.random() < 0.15 else None
        plain.append(PodSet(f"t{at}", count, requests_of(rng.choice(shapes)), minimum, rng.choice(platforms)))
    while True:
        asking = tuple(_asking(rng, keys, plain))
        try:
            tree_of(keys, asking)
        except Refused:
            continue
        return asking


def _shape(rng: random.Random, resources: Sequence[str]) -> Amounts:
    return {name: UNITS[name] * rng.randint(name != resources[0], LARGEST[name]) for name in resources}


def _partial(rng: random.Random, pod_sets: Sequence[PodSet]) -> tuple[int, ...] | None:
    if all(each.min_count is None for each in pod_sets):
        return None
    return tuple(each.count if each.min_count is None else rng.randint(each.min_count, each.count) for each in pod_sets)


def _asking(rng: random.Random, keys: Sequence[TopologyKey], pod_sets: Sequence[PodSet]) -> list[PodSet]:
    """With requirements: none, the same for all, or separate groups at each level."""
    style = rng.choice(["none", "same", "nested", "nested", "nested"])
    hard = rng.choice([0.2, 0.5, 0.9])
    required: dict[tuple[str, str], bool] = {}
    asked_for_all = tuple(Requirement(key.key, required=rng.random() < hard) for key in keys if rng.random() < 0.6)
    asking = []
    for at, each in enumerate(pod_sets):
        asked = asked_for_all if style == "same" else ()
        for level, key in enumerate(keys if style == "nested" else ()):
            if rng.random() < 0.25:
                continue
            group = f"g{rng.randrange(1 + level)}" if rng.random() < 0.7 else f"own{at}"
            size = rng.randint(1, each.count) if group.startswith("own") and rng.random() < 0.5 else None
            kind = required.setdefault((key.key, group), rng.random() < hard)
            asked = (*asked, Requirement(key.key, group, kind, size))
        asking.append(replace(each, topology=asked))
    return asking


# ---------------------------------------------------------------- free capacity


def _scatter(rng: random.Random, bare: Problem, resources: Sequence[str]) -> dict[str, Amounts]:
    """The gang's demand / 0.6 … 1.1, in random lumps on random nodes."""
    free: dict[str, Amounts] = {node.name: dict.fromkeys(node.resources, 0) for node in bare.nodes}
    share = rng.uniform(0.6, 1.1)
    for resource in resources:
        unit = UNITS[resource]
        asked = [
            (dict(each.requests).get(resource, 0), count)
            for each, count in zip(bare.pod_sets, bare.counts, strict=True)
        ]
        left = int(sum(amount * count for amount, count in asked) / share) // unit
        lumps = [amount // unit for amount, _ in asked if amount] or [1]
        names = [name for name in free if resource in free[name]]
        while left > 0 and names:
            lump = min(left, rng.choice(lumps) + (rng.random() < 0.2))
            free[rng.choice(names)][resource] += lump * unit
            left -= lump
    return free


def _plant(rng: random.Random, bare: Problem) -> dict[str, Amounts] | None:
    """The amounts that a random valid placement uses on each node; None if none was found."""
    roomy = replace(bare, nodes=tuple(replace(each, resources={**each.resources, **_ROOMY}) for each in bare.nodes))
    allowed: dict[tuple[int, int], set[str]] = {}
    for at, (pod_set, count) in enumerate(zip(bare.pod_sets, bare.counts, strict=True)):
        flavor = rng.choice(bare.flavors).name
        where = {node.name for node in roomy.nodes if node.flavor == flavor and roomy.takes(node, pod_set)}
        allowed.update({(at, pod): where for pod in range(count)})
    for group in roomy.together:
        if group.required or rng.random() < 0.5:
            pods = [(run.index, pod) for run in group.runs for pod in range(run.start, run.stop)]
            common = set.intersection(*(allowed[pod] for pod in pods))
            domains = sorted({roomy.domain(roomy.node_of[name], group.level) for name in common})
            if not domains and group.required:
                return None
            if domains:
                chosen = rng.choice(domains)
                inside = {node.name for node in roomy.nodes if roomy.domain(node, group.level) == chosen}
                allowed.update({pod: allowed[pod] & inside for pod in pods})
    taken: dict[str, Amounts] = {}
    for (at, _), where in allowed.items():
        if not where:
            return None
        amounts = taken.setdefault(rng.choice(sorted(where)), {})
        for resource, amount in bare.pod_sets[at].requests:
            amounts[resource] = amounts.get(resource, 0) + amount
    return taken


_ROOMY: Mapping[str, int] = {GPU: 10**6, CPU: 10**9, MEMORY: 2**60}


def _with_decoys(rng: random.Random, bare: Problem, planted: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """The planted room, and in some places room for another pod or two."""
    decoys = rng.choice([0.1, 0.3, 0.6])
    free = {}
    for node in bare.nodes:
        free[node.name] = {name: planted.get(node.name, {}).get(name, 0) for name in node.resources}
        if rng.random() < decoys:
            shape = dict(rng.choice(bare.pod_sets).requests)
            for name in node.resources:
                free[node.name][name] += shape.get(name, 0) * rng.randint(0, 2)
    return free


def _break(rng: random.Random, free: Mapping[str, Amounts], planted: Mapping[str, Amounts]) -> None:
    used = [(node, name) for node, amounts in sorted(planted.items()) for name in sorted(amounts) if name in free[node]]
    if used:
        node, name = rng.choice(used)
        free[node][name] -= UNITS[name]


def _filled(rng: random.Random, bare: Problem, free: Mapping[str, Amounts]) -> Problem:
    """The same with *free* room on each node; others use the rest."""
    held: dict[str, Amounts] = {}
    nodes = []
    for node in bare.nodes:
        if rng.random() < 0.4:
            held[node.name] = {name: UNITS[name] * rng.randint(0, 3) for name in node.resources}
        amounts = {name: amount + held.get(node.name, {}).get(name, 0) for name, amount in free[node.name].items()}
        nodes.append(replace(node, resources=amounts))
    return replace(bare, nodes=tuple(nodes), held=held)
