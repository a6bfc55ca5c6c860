"""A cluster in use, the same for the same seed: zones, spines and racks, ten pools, hours of work behind it and much that waits.

For tests of the page, for the bench, and for the pictures in the docs.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from tests.worlds.service import submit

GPUS = 8
RACK, SPINE, ZONE = 16, 128, 512
"""Nodes; of a cluster of 1,000 nodes.  Those of larger ones grow with it, but for racks."""
ROUND = 8
"""Workflows between two turns of the loop."""
SECONDS = 60.0
"""Between two submissions."""
USERS = ("ada", "alan", "barbara", "donald", "edsger", "frances", "grace", "ken", "linus", "margaret")
WORK = {
    "language--pretrain": ("llm-pretrain", "tokenize"),
    "language--align": ("sft", "reward"),
    "vision--detect": ("vit-large", "segment"),
    "vision--maps": ("lanes", "tiles"),
    "robotics": ("sim2real", "grasp"),
    "ranking": ("ranker", "embed"),
    "serving": ("distill", "quantize"),
    "speech": ("asr", "voices"),
    "science": ("climate", "fold"),
    "batch": ("reindex", "evals"),
}
"""Pool to the names of what is submitted there."""
PARTS = {
    "language": 20,
    "vision": 12,
    "robotics": 6,
    "ranking": 9,
    "serving": 15,
    "speech": 5,
    "science": 10,
    "batch": 1,
}
"""Hundredths of the cluster; the rest is the cohorts' own."""


class Work(NamedTuple):
    name: str
    pool: str
    user: str
    priority: Priority
    text: str
    gpus: int


def _quota(pool: str, nodes: int) -> int:
    top, _, sub = pool.partition("--")
    return nodes * GPUS * PARTS[top] // 100 * (2 if sub else 5) // 5


def cluster(nodes: int = 1_000) -> str:
    """A cluster file."""
    many = max(1, nodes // 1_000)
    spine, zone, gpus = SPINE * many, ZONE * many, nodes * GPUS
    quota = {pool: _quota(pool, nodes) for pool in PARTS}
    keys = "topology_keys: [{key: zone, label: zone}, {key: spine, label: spine}, {key: rack, label: rack}]"
    cohorts = {"research": ("language", "vision", "robotics"), "product": ("ranking", "serving", "speech")}
    of = {pool: cohort for cohort, pools in cohorts.items() for pool in pools}
    lines = [
        f'nodes: [{{name: "gpu-{{00000..{nodes - 1:05}}}", resources: {{gpu: {GPUS}, cpu: 128, memory: 2Ti}},',
        f'  labels: {{zone: "z{{n//{zone}}}", spine: "s{{n//{spine}}}", rack: "r{{n//{RACK}}}"}}}}]',
        f"cohorts: [{{name: research, quota: {gpus // 10}}}, {{name: product, quota: {gpus // 20}}}]",
        "pools:",
    ]
    for pool, amount in quota.items():
        cohort = f", cohort: {of[pool]}" if pool in of else ""
        subpools = [each for each in WORK if each.startswith(f"{pool}--")]
        below = ", ".join(f"{{name: {each.partition('--')[2]}, quota: {_quota(each, nodes)}}}" for each in subpools)
        lines.append(f"- {{name: {pool}, quota: {amount}{cohort}, {keys}{f', subpools: [{below}]' if below else ''}}}")
    return "\n".join(lines) + "\n"


def nodes_of(text: str) -> tuple[Node, ...]:
    """The nodes of a cluster file; a few of them take nothing new."""
    declared = read_cluster(text).nodes
    return tuple(replace(node, ready=at % 111 != 57) for at, node in enumerate(declared))


def work(nodes: int = 1_000, seed: int = 7) -> Iterator[Work]:
    """Submissions without end, in order.  The gangs of a larger cluster are larger, not more."""
    chance, numbers = random.Random(seed), dict.fromkeys((name for names in WORK.values() for name in names), 0)
    many = max(1, nodes // 1_000)
    while True:
        pool = chance.choices(list(WORK), [8, 6, 4, 3, 4, 5, 6, 2, 5, 3])[0]
        name = chance.choice(WORK[pool])
        numbers[name] += 1
        pods, gpus = chance.choices([(1, 1), (1, 4), (2, 8), (4, 8), (8, 8), (16, 8), (32, 8)], [2, 2, 4, 5, 5, 3, 1])[
            0
        ]
        pods *= many if pods > 1 else 1
        priority = chance.choices(list(Priority), [1, 4, 4])[0]
        if pods * gpus > _quota(pool, nodes):
            priority = Priority.LOW  # as any other it would be refused
        lasts_s = chance.choice([1_800, 7_200, 40_000, 90_000, 200_000])
        near = chance.choice(["", "rack", "spine"]) if pods <= RACK else chance.choice(["", "zone"])
        yield Work(name, pool, chance.choice(USERS), priority, _file(name, pods, gpus, lasts_s, near), pods * gpus)


def _file(name: str, pods: int, gpus: int, lasts_s: int, near: str) -> str:
    topology = f", topology: [{{key: {near}, requirementType: preferred}}]" if near else ""
    small, large = "{gpu: 1, cpu: 8, memory: 64Gi}", f"{{gpu: {gpus}, cpu: 12, memory: 100Gi{topology}}}"
    train = f"{{name: worker, image: 'train:1', command: [train], resource: large, duration: {lasts_s}, count: {pods}}}"
    if pods == 1:
        groups = [f"{{name: run, tasks: [{train.replace(', count: 1', '')}]}}"]
    elif lasts_s > 10_000 and pods <= 8:
        first, last = (
            f"{{name: {task}, image: 'train:1', command: [{task}], resource: small, duration: 600, inputs: [{each}]}}"
            for task, each in (("prepare", ""), ("evaluate", "{task: worker}"))
        )
        train = train.replace(", count", ", inputs: [{task: prepare}], count")
        groups = [
            f"{{name: data, tasks: [{first}]}}",
            f"{{name: train, tasks: [{train}]}}",
            f"{{name: check, tasks: [{last}]}}",
        ]
    else:
        groups = [f"{{name: train, tasks: [{train}]}}"]
    listed = "\n".join(f"  - {each}" for each in groups)
    return f"workflow:\n  name: {name}\n  resources:\n    small: {small}\n    large: {large}\n  groups:\n{listed}\n"


def fill(
    service: Service, later: Callable[[float], None], nodes: int = 1_000, times: float = 3.2, seed: int = 7
) -> None:
    """Submits *times* as many GPUs as there are, while time passes by *later*."""
    asked, wanted = 0, nodes * GPUS * times
    for number, each in enumerate(work(nodes, seed), 1):
        later(SECONDS)
        submit(service, each.text, each.pool, each.user, each.priority)
        if number % ROUND == 0:
            service.settle()
        asked += each.gpus
        if asked >= wanted:
            break
    service.settle()
