"""Many small workflows at once: all are bound, each GPU once; where the time goes is printed."""

import json
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest

from e2e.api import Object
from tests.kubernetes.runrigs import Rig, node_of, one_task, rig, watched
from tests.kubernetes.world import World

NODES, GPUS, WORKFLOWS, CLIENTS = 50, 8, 400, 16
CLUSTER = f"""
nodes: [{{name: "n{{00..{NODES - 1}}}", resources: {{gpu: {GPUS}}}}}]
pools: [{{name: team, quota: {NODES * GPUS}}}]
"""
PATIENCE_S = 300
_LINE = re.compile(r"apiserver_request_duration_seconds_(sum|count)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SHOWN = 5

Requests = Mapping[str, tuple[int, float]]
"""VERB resource → how many, and the seconds that the API server took for them together."""


@dataclass
class Moments:
    """Key → when (monotonic, seconds) a watch told first that the pod exists, has a node, runs."""

    made: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)


@contextmanager
def observed(here: Rig) -> Iterator[Moments]:
    """Observes through a watch of its own, in a thread."""
    moments, done = Moments(), threading.Event()

    def look(since: str) -> None:
        while not done.is_set():
            for seen in watched(here.world, since, timeout_s=2):
                now, since = time.monotonic(), seen.pod["metadata"]["resourceVersion"]
                moments.made.setdefault(seen.key, now)
                if node_of(seen.pod):
                    moments.bound.setdefault(seen.key, now)
                if seen.pod["status"]["phase"] == "Running":
                    moments.running.setdefault(seen.key, now)

    thread = threading.Thread(target=look, args=(here.now(),))
    thread.start()
    try:
        yield moments
    finally:
        done.set()
        thread.join()


def test_many_workflows_are_all_bound_and_no_gpu_is_used_twice(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with rig(world, tmp_path, CLUSTER) as here, ThreadPoolExecutor(CLIENTS) as clients:
        here.until(lambda: len(here.get("/api/resources")["resources"]) == NODES, "all nodes are seen")
        before, worked = requests(world), processor_s(here)
        with observed(here) as moments:
            start = time.monotonic()
            ids = list(clients.map(lambda number: submitted(here, number), range(WORKFLOWS)))
            accepted = time.monotonic()
            here.until(lambda: len(moments.running) >= WORKFLOWS, "all run", timeout_s=PATIENCE_S)
            here.until(lambda: count(here, "RUNNING") == WORKFLOWS, "runrig sees that all run", timeout_s=PATIENCE_S)
            seen = time.monotonic()
        spent = difference(requests(world), before)
        work = {name: seconds - worked[name] for name, seconds in processor_s(here).items()}
        with capsys.disabled():
            print(report(start, accepted, moments, seen, spent) + shares(work))
        bound = Counter(node_of(pod) for pod in here.pods().values())
        assert set(moments.made) == {f"{id}/main/0" for id in ids}
        assert bound == dict.fromkeys((f"n{number:02}" for number in range(NODES)), GPUS)
        start = time.monotonic()
        list(clients.map(partial(ended, world), here.pods().values()))
        told = time.monotonic()
        here.until(lambda: count(here, "COMPLETED") == WORKFLOWS, "all have completed", timeout_s=PATIENCE_S)
        completed = time.monotonic()
        here.until(lambda: not here.pods(), "their pods are let go", timeout_s=PATIENCE_S)
        with capsys.disabled():
            parts = (f"{name} after {at - start:.1f} s" for name, at in (("ended", told), ("completed", completed)))
            print(f"{', '.join(parts)}, all let go, their output kept, after {time.monotonic() - start:.1f} s")


def submitted(here: Rig, number: int) -> str:
    """Submits over HTTP: the command line of the tests cannot be in several threads."""
    body = {"file": json.dumps(one_task(f"w{number}"))}
    return str(here.post("/api/pool/team/workflow", body)["name"])


def count(here: Rig, status: str) -> int:
    found = here.get("/api/workflow", statuses=status, limit="1000", all_users="true")
    return len(found["workflows"])


def ended(world: World, pod: Object) -> None:
    world.api.set_status(pod, {"phase": "Succeeded"})


# ---------------------------------------------------------------- time per part


def requests(world: World) -> Requests:
    """Since the API server started; watches, which last, are left out."""
    found: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for kind, labels, amount in _LINE.findall(world.api.call("GET", "/metrics")):
        of = dict(_LABEL.findall(labels))
        if of["verb"] not in ("WATCH", "CONNECT"):
            name = "/".join(filter(None, (of["resource"], of["subresource"])))
            found[f"{of['verb']} {name}"][kind == "sum"] += float(amount)
    return {name: (int(count), seconds) for name, (count, seconds) in found.items()}


def processor_s(here: Rig) -> Mapping[str, float]:
    """Program → seconds of processor time since it began."""
    pids = {name: each.pid for name, each in here.world.plane.processes.items()} | {
        "runrig": here.pid,
        "tests": os.getpid(),
    }
    times = {name: psutil.Process(pid).cpu_times() for name, pid in pids.items()}
    return {name: each.user + each.system for name, each in times.items()}


def shares(work: Mapping[str, float]) -> str:
    parts = (f"{name} {seconds:.1f} s" for name, seconds in sorted(work.items(), key=lambda each: -each[1]))
    return f"\n  processor time: {', '.join(parts)}"


def difference(after: Requests, before: Requests) -> Requests:
    left = {name: before.get(name, (0, 0.0)) for name in after}
    return {name: (after[name][0] - count, after[name][1] - seconds) for name, (count, seconds) in left.items()}


def report(start: float, accepted: float, moments: Moments, seen: float, spent: Requests) -> str:
    made, bound = sorted(moments.made.values()), sorted(moments.bound.values())
    waits = sorted(moments.bound[key] - moments.made[key] for key in moments.made)
    lines = [
        "",
        f"{len(bound)} workflows bound in {bound[-1] - start:.1f} s: {len(bound) / (bound[-1] - start):.1f} a second",
        f"  ours: accepted after {accepted - start:.1f} s, first pod after {made[0] - start:.1f} s, last after {made[-1] - start:.1f} s",
        f"  scheduler: created to bound {waits[len(waits) // 2] * 1000:.0f} ms in the middle, {waits[-1] * 1000:.0f} ms at most",
        f"  runrig has seen all run after {seen - start:.1f} s",
        "  API server, by time:",
    ]
    largest = sorted(spent.items(), key=lambda each: -each[1][1])[:_SHOWN]
    lines += [
        f"    {name}: {count} in {seconds:.1f} s, {seconds / max(count, 1) * 1000:.1f} ms each"
        for name, (count, seconds) in largest
        if count
    ]
    return "\n".join(lines)
