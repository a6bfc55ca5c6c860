"""The permanent load of a large and busy cluster: rounds of the loop, and single requests over HTTP.

1,125 nodes of 8 GPUs, all in use by 9,000 long-running tasks of 1,000 pools, and 10,000 waiting workflows.
"""

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

from bench.questions import GPUS_PER_NODE, World, cpu_timed, pool_name, stored, stored_at
from bench.section import Rows, ms
from bench.store import client_of, process_of
from bench.submits import processor_s
from bench.timing import timed
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore

FILE = """\
workflow:
  name: sleeper
  tasks:
  - {name: main, image: bench, command: [sleep, "300000000"], duration: 300000000, resource: one}
  resources:
    one: {gpu: 1}
"""
WORLD = World(nodes=1_125, pools=1_000, running=9_000, waiting=10_000)
WARM = 3
SETTLES_S = 1.0
"""By then the rounds that earlier requests caused have ended."""
SPEED = 100.0
"""Stopped tasks end after ten milliseconds."""
BEFORE = {
    "a round in which nothing happens": 11.8,
    "all rounds until another runs in the place of one that was cancelled": 78.9,
    "why a workflow waits": 6.1,
    "one that waits is cancelled": 9.8,
    "a pool is changed": 16.2,
    "a page of five nodes": 10.3,
    "quota and use of all pools": 113.0,
}
"""ms at b24db96, on a machine that was also busy with other work."""

ABOUT = "9,000 tasks run, 10,000 workflows wait, 1,000 pools; ms of the server's processor, requests with the rounds that follow from them"


def rows(runs: int, world: World = WORLD, settles_s: float = SETTLES_S) -> Rows:
    with stored(world, FILE) as store:
        found = dict(_rounds(store, world, runs))
    with stored_at(world, FILE) as url:
        found |= dict(_requests(url, world, 5 * runs, settles_s))
    return [{"what": what, "before": BEFORE.get(what, "-"), "here": figure} for what, figure in found.items()]


def _cluster(world: World) -> str:
    return f'nodes: [{{name: "n{{00000..{world.nodes - 1:05}}}", resources: {{gpu: {GPUS_PER_NODE}}}}}]'


# ---------------------------------------------------------------- the loop


def _rounds(store: SqlStore, world: World, runs: int) -> Iterator[tuple[str, float]]:
    clock = SimulatedClock(SPEED)
    service = Service(store, SimulatedBackend(read_cluster(_cluster(world)).nodes, clock), clock)
    service.settle()
    numbers = count()

    def replaced() -> None:
        command = service.submissions.cancelling(f"sleeper-{next(numbers)}", user="bench")
        service._transactor.carry_out_all([command])
        service.settle()
        time.sleep(0.012)
        service.settle()

    yield "a round in which nothing happens", ms(timed(partial(cpu_timed, service.settle), runs).least)
    yield (
        "all rounds until another runs in the place of one that was cancelled",
        ms(timed(partial(cpu_timed, replaced), runs).least),
    )


# ---------------------------------------------------------------- over HTTP

Question = tuple[str, str, str | None]
"""Method, path and body of a request."""


def _requests(url: str, world: World, each: int, settles_s: float) -> Iterator[tuple[str, float]]:
    with process_of(url, _cluster(world)) as (port, process):
        client = client_of(port)
        submission = json.dumps({"file": FILE})
        ids = [
            json.loads(client.call("POST", f"/api/pool/{pool_name(at % world.pools)}/workflow", submission))["name"]
            for at in range(each + WARM)
        ]
        for what, questions in _questions(ids).items():
            for question in questions[:WARM]:
                client.call(*question)
            time.sleep(settles_s)
            before = processor_s(process)
            for question in questions[WARM:]:
                client.call(*question)
            time.sleep(settles_s)
            yield what, ms(processor_s(process) - before) / each
        client.close()


def _questions(ids: Sequence[str]) -> dict[str, list[Question]]:
    """Returns the requests by name.  *ids*: waiting workflows."""
    changed = json.dumps({"description": "changed"})
    pools = [f"/api/v1/pools/{pool_name(at)}" for at in range(len(ids))]
    return {
        "why a workflow waits": [("GET", f"/api/v1/workflows/{id}/why", None) for id in ids],
        "one that waits is cancelled": [("POST", f"/api/workflow/{id}/cancel", None) for id in ids],
        "a pool is changed": [("PATCH", pool, changed) for pool in pools],
        "a page of five nodes": [("GET", f"/api/resources?limit=5&offset={at}", None) for at in range(len(ids))],
        "quota and use of all pools": [("GET", "/api/pool_quota", None)] * len(ids),
    }
