"""Every kind of job holds exactly what its pods ask for: beside one Job more it fits, and with a thousandth of a core less it does not."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.kueue.read.jobkinds import JOB_KINDS
from runrig.service.simulate.simulate import Options
from tests.service.simulate.simulations import kueue, line, manifests
from tests.worlds.manifests import group, job, read

SAMPLES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "data" / "job_kinds.yaml").read_text(), yaml.CSafeLoader
)
TO_THE_END = Options(cycles=0)


def home(milli: int) -> list[dict[str, Any]]:
    """A queue with so many thousandths of a core, and no end of memory."""
    quota = {"f": {"cpu": {"nominalQuota": f"{milli}m"}, "memory": {"nominalQuota": "1Pi"}}}
    spec = {"namespaceSelector": {}, "queueingStrategy": "StrictFIFO", "resourceGroups": [group(quota)]}
    local = kueue("LocalQueue", "all", {"clusterQueue": "q"}, meta={"namespace": "lab"})
    return [kueue("ResourceFlavor", "f"), kueue("ClusterQueue", "q", spec), local]


def one_more() -> dict[str, Any]:
    made = job("one-more", {})
    made["metadata"] |= {"namespace": "lab"}
    made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "all"
    return made


def started(sample: dict[str, Any], milli: int) -> dict[str, dict[str, int]]:
    """Workload → pod set → pods, of all that start with a quota of *milli*."""
    found = line(manifests(*home(milli), *sample["objects"], one_more()), TO_THE_END)
    assert found["warnings"] == []
    return {
        admitted["workload"]: {each["name"]: each["count"] for each in admitted["pod_sets"]}
        for cycle in found["cycles"]
        for admitted in cycle["admitted"]
    }


def title(sample: dict[str, Any]) -> str:
    return " ".join((sample["kind"], sample.get("why", ""))).strip()


@pytest.mark.parametrize("sample", SAMPLES, ids=title)
def test_job_uses_what_its_pods_request(sample: dict[str, Any]) -> None:
    needed = round(sample["cpu"] * 1000)
    enough = started(sample, needed + 1000)
    assert enough.pop("lab/one-more") == {"main": 1}
    assert list(enough.values()) == [sample["pod_sets"]] * sample.get("workloads", 1)
    assert "lab/one-more" not in started(sample, needed + 999)
    assert len(started(sample, needed)) == len(enough)
    assert len(started(sample, needed - 1)) == len(enough) - 1


@pytest.mark.parametrize("sample", SAMPLES, ids=title)
def test_without_a_label_it_goes_to_the_default_queue_of_its_namespace(sample: dict[str, Any]) -> None:
    queues, default = home(1), kueue("LocalQueue", "default", {"clusterQueue": "q"}, meta={"namespace": "lab"})
    labelled = read(*queues, *sample["objects"]).system.workloads
    bare = copy.deepcopy(sample["objects"])
    for each in bare:
        each["metadata"].get("labels", {}).pop("kueue.x-k8s.io/queue-name", None)
    assert read(*queues, default, *bare).system.workloads == labelled
    assert read(*queues, *bare).system.workloads == ()


def test_every_kind_has_a_sample() -> None:
    assert {sample["kind"] for sample in SAMPLES} == {*JOB_KINDS, "Job", "MPIJob", "Pod"}
