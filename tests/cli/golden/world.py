"""A server whose names are as long as those of large clusters, at a time that stands still, and every table that the CLI shows of it."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from runrig.api.app import create_app
from runrig.domain.gpu_use import GpuUse
from runrig.spec.cluster import read_cluster
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk

HERE = Path(__file__).parent
WIDTHS = (80, 120, 200)
"""Columns of terminals.  The fourth picture of a table is what a pipe gets."""
_TOKEN = "0123456789abcdef" * 2
_PERSON = "anna-katharina.von-hohenstein@research.example.com"

_OF_THIS_MACHINE = re.compile(r"20(?!27-01-15)\d\d-\d\d-\d\d \d\d:\d\d:\d\d")
"""Times of users, roles and tokens: they do not follow the clock of the work."""
_ERASE = "\r\x1b[J"

CLUSTER = """
backend: {name: lab, type: simulated}
nodes:
- {name: "gpu-worker-h100-00.zone-a.example.com", resources: &h {gpu: 8, cpu: 96, memory: 1Ti},
   labels: &r0 {zone: zone-a, rack: rack-0, gpu: h100}}
- {name: "gpu-worker-h100-01.zone-a.example.com", resources: *h, labels: *r0}
- {name: "gpu-worker-h100-02.zone-a.example.com", resources: *h, labels: &r1 {zone: zone-a, rack: rack-1, gpu: h100}}
- {name: "gpu-worker-h100-03.zone-a.example.com", resources: *h, labels: *r1}
- {name: "gpu-worker-b200-00.zone-b.example.com", resources: *h, labels: {zone: zone-b, rack: rack-9, gpu: b200}}
flavors:
- {name: h100-sxm5-80gb, node_labels: {gpu: h100}}
- {name: b200-nvl-192gb, node_labels: {gpu: b200}}
cohorts:
- {name: autonomous-driving-organisation}
- name: perception-research-department
  parent: autonomous-driving-organisation
  quota: {h100-sxm5-80gb: {gpu: {nominal: 4, lending_limit: 2}}}
pools:
- name: vision-transformer-pretraining
  cohort: perception-research-department
  flavors: [h100-sxm5-80gb, b200-nvl-192gb]
  quota:
    h100-sxm5-80gb: {gpu: {nominal: 16, borrowing_limit: 8}}
    b200-nvl-192gb: {gpu: {nominal: 8}}
  topology_keys: [{key: zone, label: zone}, {key: rack, label: rack}]
  subpools:
  - {name: nightly-regression-evaluation, quota: {h100-sxm5-80gb: {gpu: {nominal: 4}}}}
  - {name: ablations, quota: {h100-sxm5-80gb: {gpu: {nominal: 2}}}}
- name: lidar-segmentation-continuous-training
  cohort: perception-research-department
  flavors: [h100-sxm5-80gb]
  quota: {h100-sxm5-80gb: {gpu: {nominal: 8, borrowing_limit: 4}}}
"""

IMPORTED = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: h100-sxm5-80gb-reserved-capacity}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: vision-transformer-pretraining-and-finetuning}
spec:
  cohort: perception-research-department
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: h100-sxm5-80gb-reserved-capacity
      resources: [{name: nvidia.com/gpu, nominalQuota: 8}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: pretraining, namespace: research}
spec: {clusterQueue: vision-transformer-pretraining-and-finetuning}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: finetune-vision-transformer-large-patch14, namespace: research, creationTimestamp: "2026-01-05T08:00:00Z"}
spec:
  queueName: pretraining
  podSets:
  - name: main
    count: 2
    template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
metadata: {name: finetune-vision-transformer-huge-patch14-at-night, namespace: research, creationTimestamp: "2026-01-05T08:00:01Z"}
spec:
  queueName: pretraining
  podSets:
  - name: main
    count: 1
    template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
"""

_VISION, _LIDAR = "vision-transformer-pretraining", "lidar-segmentation-continuous-training"


def _file(name: str, gpus: int, pods: int = 1, task: str = "main", duration: float = 90_000.0) -> str:
    return f"""
workflow:
  name: {name}
  labels: {{team: perception-research, experiment: patch14-large-baseline}}
  tasks:
  - {{name: {task}, count: {pods}, image: any, command: [x], duration: {duration}, resource: one}}
  resources:
    one: {{gpu: {gpus}, platform: h100-sxm5-80gb}}
"""


_ARRAY = """
workflow:
  name: evaluation-of-all-checkpoints-by-seed
  groups:
  - name: seeds
    array: {indices: 0-3, most: 2}
    tasks: [{name: evaluate-and-report, image: any, command: [x], duration: 90000}]
"""


@dataclass(frozen=True)
class World:
    url: str
    folder: Path

    def runrig(self, *args: str, width: int | None = None, stdin: str = "") -> Done:
        there = {"RUNRIG_SERVER": self.url, "RUNRIG_TOKEN": _TOKEN}
        return runrig(*args, env=there, width=width, stdin=stdin)

    def do(self, *args: str, stdin: str = "") -> None:
        done = self.runrig(*args, stdin=stdin)
        assert done.code == 0, (args, done)


@contextmanager
def world() -> Iterator[World]:
    """The zone of this process is UTC meanwhile, and its folder the one of the files that commands name."""
    with (
        TemporaryDirectory() as temporary,
        _at(Path(temporary)) as folder,
        desk(folder, nodes=read_cluster(CLUSTER).nodes, cluster=CLUSTER) as it,
        listening(lambda port: create_app(it.service, token=_TOKEN, port=port, user=_PERSON)) as port,
    ):
        there = World(f"http://127.0.0.1:{port}", folder)
        _fill(there, it)
        yield there


@contextmanager
def _at(folder: Path) -> Iterator[Path]:
    zone, before = os.environ.get("TZ"), Path.cwd()
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)
        os.environ.pop("TZ") if zone is None else os.environ.update(TZ=zone)
        time.tzset()


def _fill(there: World, it: Desk) -> None:
    it.later(60)
    for name, gpus, pods, pool, priority, task in (
        ("finetune-vision-transformer-large-patch14", 5, 2, _VISION, "NORMAL", "distributed-trainer"),
        ("sweep-learning-rates", 2, 1, f"{_VISION}--ablations", "HIGH", "main"),
        ("pointcloud-backfill-2026-q1", 4, 2, _LIDAR, "LOW", "worker"),
        ("finetune-vision-transformer-huge-patch14", 5, 2, _VISION, "NORMAL", "distributed-trainer"),
        ("ended", 1, 1, _LIDAR, "NORMAL", "main"),
    ):
        text = _file(name, gpus, pods, task, duration=30 if name == "ended" else 90_000)
        there.do("workflow", "submit", "-", "--pool", pool, "--priority", priority, stdin=text)
        it.later(7)
    there.do("submit", "-", "--pool", _LIDAR, stdin=_ARRAY)
    it.later(7)
    it.later(3_700)
    there.do("user", "create", "builds-and-nightly-regressions", "--role", f"{_VISION}-user")
    there.do("token", "create", "laptop-of-anna-katharina", "--description", "at home, until the end of the project")
    secret = "api_key: x\nhost_name: y\n"
    there.do("credential", "set", "experiment-tracker-of-the-perception-department", "-f", "-", stdin=secret)
    (there.folder / "imported.yaml").write_text(IMPORTED, encoding="utf-8")
    there.do("node", "cordon", "gpu-worker-h100-03.zone-a.example.com")
    there.do("pool", "update", _LIDAR, "--quota", "h100-sxm5-80gb=12", "--description", "retrained each night")
    there.do("limits", "set", "--pool", _LIDAR, "--gpus", "20", "--gpus-per-workflow", "16")
    it.later(100)
    while it.service.usage.step():
        pass
    it.backend.gpus = {node.name: [_use(index) for index in range(8)] for node in read_cluster(CLUSTER).nodes}


def _use(index: int) -> GpuUse:
    """The third GPU of each node has been idle for an hour."""
    busy = 1 if index == 2 else 90 + index
    return GpuUse(index, busy, (50 + index) << 30, 79 << 30, 600.0 + index, 3_600.0 if index == 2 else None)


def tables() -> Mapping[str, tuple[str, ...]]:
    """The commands that print tables, by the name of their picture."""
    node = "gpu-worker-h100-00.zone-a.example.com"
    return {
        "pool-list": ("pool", "list"),
        "pool-list-wide": ("pool", "list", "--wide"),
        "pool-list-free": ("pool", "list", "--mode", "free", "--wide"),
        "pool-show": ("pool", "show", _VISION),
        "pool-show-at": ("pool", "show", _VISION, "--at", "2027-01-15T08:00:30"),
        "pool-history": ("pool", "history", _VISION),
        "subpool-list": ("pool", "subpool", "list", _VISION),
        "cohort-list": ("cohort", "list"),
        "cohort-show": ("cohort", "show", "perception-research-department"),
        "plan": ("plan", "--pool", _LIDAR, "--quota", "4"),
        "workflow-list": ("workflow", "list", "--all"),
        "status": ("status",),
        "top": ("top",),
        "workflow-query": ("workflow", "query", "finetune-vision-transformer-large-patch14-1"),
        "array-query": ("workflow", "query", "evaluation-of-all-checkpoints-by-seed-1"),
        "limits-list": ("limits", "list"),
        "limits-show": ("limits", "show"),
        "usage": ("usage", "--by", "user,pool"),
        "usage-flavors": ("usage", "--by", "flavor"),
        "events": ("events", "--workflow", "sweep-learning-rates-1"),
        "workflow-watch": ("workflow", "watch", "ended-1"),
        "topology": ("topology", "show", "--pool", _VISION, "--size", "2x8"),
        "topology-nodes": ("topology", "show", "--pool", _VISION, "--nodes"),
        "resource-list": ("resource", "list"),
        "resource-info": ("resource", "info", node),
        "user-list": ("user", "list"),
        "user-history": ("user", "history"),
        "credential-list": ("credential", "list"),
        "simulate": ("simulate", "imported.yaml"),
        "role-list": ("role", "list"),
        "token-list": ("token", "list", "--user", _PERSON),
    }


def picture(there: World, args: tuple[str, ...], width: int | None) -> str:
    """What *args* print at this width; None: piped."""
    done = there.runrig(*args, width=width)
    assert (done.code, done.err) == (0, ""), (args, done)
    out = _OF_THIS_MACHINE.sub("2026-01-31 12:00:00", done.out.replace(there.url, "http://server"))
    return out.replace(_ERASE, "")


def pictures(there: World, args: tuple[str, ...]) -> str:
    """What *args* print at each width, and piped."""
    parts = []
    for width in (*WIDTHS, None):
        head = "piped" if width is None else f"{width} columns"
        parts.append(f"{f' {head} ':=^60}\n{picture(there, args, width)}")
    return f"runrig {' '.join(args)}\n\n" + "\n".join(parts)


def record() -> None:
    """Writes every picture anew."""
    with world() as there:
        for name, args in tables().items():
            (HERE / f"{name}.txt").write_text(pictures(there, args), encoding="utf-8")


if __name__ == "__main__":
    record()
