"""A large cluster: 10,000 nodes, 1,000 pools, most of them full, and 100,000 workflows that wait; its nodes come and go."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

import runrig.wiring.serve
from runrig.backends.simulated import SimulatedBackend
from runrig.domain.nodes import Node
from tests.attack.target import Target, serve
from tests.load.seed import line_up
from tests.patience import PATIENCE_S

NODES, POOLS, PER_NODE = 10_000, 1_000, 8
FREE_POOLS = 100
"""The first of the pools: nobody holds anything in them, so what is submitted there starts."""
SHAPES = {"one": (1, "NORMAL"), "two": (2, "NORMAL"), "eight": (8, "NORMAL"), "urgent": (4, "HIGH")}
"""What waits: by name, GPUs and priority."""
WAITING = 100_000
FLAP_S = 1.0
RUN = "from tests.load import metropolis; metropolis.flap(); import sys; from runrig.__main__ import main; sys.argv[0] = 'runrig'; main()"


def pool_name(at: int) -> str:
    return f"p{at:04}"


@dataclass(frozen=True)
class Size:
    nodes: int = NODES
    pools: int = POOLS
    waiting: int = WAITING

    @property
    def per_pool(self) -> int:
        """Nodes that the quota of a pool is worth."""
        return self.nodes // self.pools


def _cluster(size: Size) -> str:
    """Ten pools in a cohort, ten cohorts in a division; besides, a node each for the two pools of those whom `serve` invites."""
    cohorts = [{"name": f"c{at}", "parent": f"d{at // 10}"} for at in range(size.pools // 10)]
    divisions = [{"name": f"d{at}"} for at in range(-(-len(cohorts) // 10))]
    return yaml.safe_dump(
        {
            "backend": {"type": "simulated"},
            "nodes": [{"name": f"n{{0000..{size.nodes + 1:04}}}", "resources": {"gpu": PER_NODE}}],
            "cohorts": [*divisions, *cohorts],
            "pools": [
                {"name": pool_name(at), "quota": size.per_pool * PER_NODE, "cohort": f"c{at // 10}"}
                for at in range(size.pools)
            ]
            + [{"name": name, "quota": PER_NODE} for name in ("team", "team2")],
        }
    )


FILE = """
workflow:
  name: {name}
  tasks:
  - {{name: main, image: any, command: [train], duration: 1000000, count: {pods}, resource: one}}
  resources:
    one: {{gpu: {gpus}}}
"""


@contextmanager
def metropolis(folder: Path, size: Size = Size()) -> Iterator[Target]:
    """A server over it, once the work that fills it has started."""
    full = [pool_name(at) for at in range(FREE_POOLS, size.pools)]
    with serve(folder, cluster=_cluster(size)) as target:
        for pool in full:
            _submit(target, pool, "holder", pods=size.per_pool)
        target.ok("GET", f"/api/v1/workflows/holder-{len(full)}/wait?for=RUNNING&timeout=120")
        for name, (gpus, priority) in SHAPES.items():
            _submit(target, full[0], name, gpus=gpus, priority=priority)
        target.process.terminate()
        target.process.wait(PATIENCE_S)
        tokens = target.tokens
    for name in SHAPES:
        line_up(folder / "data" / "runrig.db", f"{name}-1", size.waiting // len(SHAPES), full)
    with serve(folder, cluster=_cluster(size), run=RUN, tokens=tokens) as target:
        yield target


def _submit(
    target: Target, pool: str, name: str, *, pods: int = 1, gpus: int = PER_NODE, priority: str = "NORMAL"
) -> None:
    text = FILE.format(name=name, pods=pods, gpus=gpus)
    target.ok("POST", f"/api/pool/{pool}/workflow?priority={priority}", {"file": text})


class Flapping(SimulatedBackend):
    """A simulated cluster in which every second another node is not ready."""

    def __init__(self, nodes: tuple[Node, ...], *args: Any, **options: Any) -> None:
        super().__init__(nodes, *args, **options)
        self._all, self._chance = nodes, random.Random(1)
        threading.Thread(target=self._flap, daemon=True, name="flap").start()

    def _flap(self) -> None:
        while True:
            time.sleep(FLAP_S)
            at = self._chance.randrange(len(self._all))
            with self._lock:
                self._nodes = (*self._all[:at], replace(self._all[at], ready=False), *self._all[at + 1 :])
                self._nodes_told = False
            self.wake()


def flap() -> None:
    """From now on the simulated cluster of this process is such a one."""
    vars(runrig.wiring.serve)["SimulatedBackend"] = Flapping
