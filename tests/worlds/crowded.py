"""A server that a crowd has used at random: pools that lend and drain, work of all priorities that runs, waits and stops."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node, Taint
from runrig.domain.pools import PoolState
from tests.worlds.service import Desk, do, submit

NODES = (
    Node("n0", {"gpu": 4}, labels={"rack": "r0"}),
    Node("n1", {"gpu": 4}, labels={"rack": "r0"}),
    Node("n2", {"gpu": 2}, labels={"rack": "r1"}),
    Node("n3", {"gpu": 2}, labels={"rack": "r1"}, ready=False),
    Node("n4", {"gpu": 4}, labels={"rack": "r2"}, taints=(Taint("broken", "", "NoSchedule"),)),
)

PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.LOW, Priority.LOW, Priority.LOW)
RACK = {"key": "rack", "label": "rack"}


class Names(NamedTuple):
    """*people*: who submits.  Of each kind as many as there are."""

    cohorts: tuple[str, ...] = ("org", "lab")
    pools: tuple[str, ...] = ("vision", "speech", "maps", "games")
    people: tuple[str, ...] = ("ann", "ben", "cai", "dot")
    work: str = "job"


def cluster(chance: random.Random, names: Names) -> str:
    cohorts = [{"name": name, "quota": _quota(chance, chance.choice([0, 0, 2]))} for name in names.cohorts]
    pools: list[dict[str, Any]] = []
    for at, name in enumerate(names.pools):
        pool = {"name": name, "quota": _quota(chance, chance.choice([2, 3, 4])), "topology_keys": [RACK]}
        pool |= {"cohort": chance.choice(names.cohorts)} if at % 3 else {}
        pool |= {"queueing": "STRICT_FIFO"} if chance.random() < 0.2 else {}
        pool |= {"subpools": [{"name": "a", "quota": 1}]} if chance.random() < 0.6 else {}
        pools.append(pool)
    return json.dumps({"cohorts": cohorts, "pools": pools})


def _quota(chance: random.Random, nominal: int) -> dict[str, Any]:
    limits = {name: chance.choice([0, 1, 2]) for name in ("borrowing_limit", "lending_limit") if chance.random() < 0.2}
    return {"default": {"gpu": {"nominal": nominal, **limits}}}


def file(chance: random.Random, name: str) -> str:
    pods, near = chance.choice([1, 1, 2, 3]), chance.random() < 0.4
    rack = ", topology: [{key: rack, requirementType: required}]" if near and pods > 1 else ""
    least = ", minCount: 1" if pods > 1 and chance.random() < 0.3 else ""
    return f"""
workflow:
  name: {name}
  timeout: {{exec_timeout: {chance.choice(["1h", "2h"])}}}
  tasks:
  - {{name: main, image: any, command: [train], duration: {chance.choice([5, 5000, 5000])}, count: {pods}{least}, resource: some}}
  resources:
    some: {{gpu: {chance.choice([1, 1, 2, 4])}{rack}}}
"""


def use(
    it: Desk,
    chance: random.Random,
    names: Names,
    steps: int = 40,
    owners: dict[str, str] | None = None,
    look: Callable[[], object] = lambda: None,
) -> None:
    """*owners*: of each pool who works in it; else anybody.  What is refused is not done; in the end nothing is about to happen.

    *look*: is called after each step.
    """
    it.service.declarations.apply(cluster(chance, names), user="ann")
    for at in range(steps):
        with suppress(RunrigError):
            _step(it, chance, names, at, owners or {})
        look()
    subpools = [name for name in _pools(it) if "--" in name]
    if subpools:
        it.service.subpools.delete(*chance.choice(subpools).split("--"), user="ann")
    it.later(0)


def _pools(it: Desk) -> list[str]:
    return sorted(pool.name for pool in it.store.load().pools if pool.state is PoolState.ACTIVE)


def _step(it: Desk, chance: random.Random, names: Names, at: int, owners: dict[str, str]) -> Any:
    what = chance.random()
    if what < 0.75:
        pool = chance.choice(_pools(it))
        user = owners.get(pool.partition("--")[0]) or chance.choice(names.people)
        text = file(chance, f"{names.work}{at:02}")
        it.time[0] += 1
        return submit(it.service, text, pool, user, chance.choice(PRIORITIES))
    if what < 0.85:
        live = sorted(it.store.load().workflows, key=lambda each: each.id)
        return do(it.service, it.service.submissions.cancelling(chance.choice(live).id, user="ann")) if live else None
    return it.later(chance.choice([0, 0, 10]))
