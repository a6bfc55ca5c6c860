"""Time and memory that `simulate` needs to read the output of `kubectl get -o json` for a large cluster.

Each dump is read by a separate process; its memory includes that of Python itself.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.section import Cell, verdict

SIZES = (1000, 10_000)
GOAL_S, GOAL_MB = 15, 1024
ABOUT = f"a dump in JSON by its number of workloads; the goal for {SIZES[-1]:,} is {GOAL_S} s and {GOAL_MB} MB"

_READ = """
import json, resource, sys, time
from runrig.kueue.read import read_manifests
data = open(sys.argv[1], "rb").read()
used = time.process_time()
found = read_manifests(data, "dump")
used = time.process_time() - used
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([len(found.system.workloads), len(found.warnings), used, peak]))
"""


def rows() -> list[dict[str, Cell]]:
    return [_row(size) for size in SIZES]


def _row(size: int) -> dict[str, Cell]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dump.json"
        file.write_text(dump(size))
        megabytes = file.stat().st_size / 1024**2
        began = perf_counter()
        done = subprocess.run([sys.executable, "-c", _READ, str(file)], capture_output=True, text=True, check=True)
        seconds = perf_counter() - began
    workloads, warnings, used, peak = json.loads(done.stdout)
    assert (workloads, warnings) == (size, 0), "every workload is read, and nothing is warned of"
    met = seconds <= GOAL_S and peak <= GOAL_MB
    row: dict[str, Cell] = {"workloads": size, "MB": megabytes, "s": seconds, "processor s": used}
    return row | {"peak MB": peak, "goal": verdict(met) if size == SIZES[-1] else ""}


def dump(size: int) -> str:
    """A list with a queue and *size* workloads of Jobs, a third of them running."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "items": [*_queue(), *_workloads(size)],
            "kind": "List",
            "metadata": {"resourceVersion": ""},
        },
        indent=4,
    )


def _queue() -> Iterator[dict[str, Any]]:
    quota = [{"name": name, "nominalQuota": "1P"} for name in ("cpu", "memory", "nvidia.com/gpu")]
    group = {"coveredResources": [each["name"] for each in quota], "flavors": [{"name": "h100", "resources": quota}]}
    yield _object("ResourceFlavor", {"name": "h100"}, {})
    yield _object("ClusterQueue", {"name": "lab"}, {"namespaceSelector": {}, "resourceGroups": [group]})
    yield _object("LocalQueue", {"name": "main", "namespace": "lab"}, {"clusterQueue": "lab"})


def _workloads(size: int) -> Iterator[dict[str, Any]]:
    for at in range(size):
        time = f"2026-03-{at // 2880 % 28 + 1:02}T{at // 120 % 24:02}:{at // 2 % 60:02}:{at % 2 * 30:02}Z"
        owner = {"apiVersion": "batch/v1", "controller": True, "kind": "Job", "name": f"train-{at}", "uid": f"job-{at}"}
        meta = {
            "creationTimestamp": time,
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "generation": 1,
            "labels": {"kueue.x-k8s.io/job-uid": f"job-{at}"},
            "name": f"job-train-{at}",
            "namespace": "lab",
            "ownerReferences": [owner],
            "resourceVersion": str(at),
            "uid": f"workload-{at}",
        }
        yield _object("Workload", meta, _spec(at), status=_status(time, runs=at % 3 == 0))


def _spec(at: int) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {
        "args": ["--epochs", "10", "--seed", str(at)],
        "command": ["python", "-m", "train"],
        "env": [{"name": f"SETTING_{each}", "value": f"value {each}"} for each in range(20)],
        "image": "registry.example.com/lab/train:1.4.2",
        "imagePullPolicy": "IfNotPresent",
        "name": "train",
        "resources": {"limits": amounts, "requests": amounts},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"mountPath": "/data", "name": "data"}, {"mountPath": "/dev/shm", "name": "shm"}],
    }
    pod = {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "nodeSelector": {"pool": "gpu"},
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "shm", "emptyDir": {}}],
    }
    pods = {"count": 4, "name": "main", "template": {"metadata": {"labels": {"app": "train"}}, "spec": pod}}
    return {"active": True, "podSets": [pods], "priority": at % 5, "queueName": "main"}


def _status(time: str, *, runs: bool) -> dict[str, Any]:
    usage = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    kinds = ("QuotaReserved", "Admitted", "PodsReady") if runs else ("QuotaReserved",)
    conditions = [
        {
            "lastTransitionTime": time,
            "message": "a message of the controller, which is only read for its length",
            "observedGeneration": 1,
            "reason": kind if runs else "Pending",
            "status": str(runs),
            "type": kind,
        }
        for kind in kinds
    ]
    assigned = {"count": 4, "flavors": dict.fromkeys(usage, "h100"), "name": "main", "resourceUsage": usage}
    admission = {"admission": {"clusterQueue": "lab", "podSetAssignments": [assigned]}} if runs else {}
    return {**admission, "conditions": conditions, "resourceRequests": [{"name": "main", "resources": usage}]}


def _object(kind: str, meta: dict[str, Any], spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec, **more}
