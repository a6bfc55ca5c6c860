"""Short ways to write manifests, and to read what is wrong with them."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from runrig.domain.errors import InvalidInput
from runrig.kueue.declared import System, Workload
from runrig.kueue.read import Manifests, read_manifests

QUEUES = "kueue.x-k8s.io/v1beta2"
OLD = "kueue.x-k8s.io/v1beta1"
Manifest = dict[str, Any]


def read(*documents: object) -> Manifests:
    """What is read of *documents*: mappings, or text that is YAML already."""
    texts = [item if isinstance(item, str) else yaml.safe_dump(item, sort_keys=False) for item in documents]
    return read_manifests("\n---\n".join(texts), "test.yaml")


def system(*documents: object) -> System:
    """As `read`, of documents that must be read without a warning."""
    found = read(*documents)
    assert found.warnings == ()
    return found.system


def warnings(*documents: object) -> list[tuple[int, str, str]]:
    return [(warned.document, warned.path, warned.message) for warned in read(*documents).warnings]


def errors(*documents: object) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read(*documents)
    return [problem.message for problem in raised.value.problems]


def manifest(kind: str, name: object, spec: object = None, version: str = QUEUES, **more: Any) -> Manifest:
    """*more*: ``meta`` goes into the metadata, the rest beside the spec."""
    meta = {"name": name, **dict(more.pop("meta", {}))}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta,
        **({"spec": spec} if spec is not None else {}),
        **more,
    }


def group(flavors: Mapping[str, Mapping[str, object]]) -> Manifest:
    """One resource group: flavor → resource → nominal quota, or a mapping of all three."""
    covered = list(next(iter(flavors.values())))
    return {
        "coveredResources": covered,
        "flavors": [
            {"name": name, "resources": [_quota(*item) for item in quotas.items()]} for name, quotas in flavors.items()
        ],
    }


def _quota(resource: str, quota: object) -> Manifest:
    return {"name": resource, **(quota if isinstance(quota, Mapping) else {"nominalQuota": quota})}


def pod(requests: Mapping[str, object] | None = None, **spec: Any) -> Manifest:
    """A template of one container."""
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": dict(requests or {"cpu": 1})}}], **spec}}


def home() -> tuple[Manifest, ...]:
    """A queue that takes all work, and the local queue default/lq that leads to it."""
    return (
        manifest("ResourceFlavor", "f"),
        manifest("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group({"f": {"cpu": 9}})]}),
        manifest("LocalQueue", "lq", {"clusterQueue": "cq"}),
    )


def workload(name: str = "w", spec: Mapping[str, object] | None = None, **more: Any) -> Manifest:
    """A Workload of one pod of one core in lq, but for *spec*."""
    return manifest(
        "Workload", name, {"queueName": "lq", "podSets": [{"count": 1, "template": pod()}], **(spec or {})}, **more
    )


def job(name: str, spec: Mapping[str, object], annotations: Mapping[str, str] | None = None, **labels: str) -> Manifest:
    marks = {"kueue.x-k8s.io/queue-name": "lq", **{f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}}
    meta = {
        "labels": marks,
        "annotations": {f"kueue.x-k8s.io/{key}": value for key, value in (annotations or {}).items()},
    }
    return manifest("Job", name, {"template": pod(), **spec}, "batch/v1", meta=meta)


def only(found: Manifests) -> Workload:
    """The only workload, of a file without a warning."""
    assert found.warnings == ()
    (one,) = found.system.workloads
    return one
