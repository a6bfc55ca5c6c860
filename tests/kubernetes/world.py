"""A namespace on the control plane, and what tests do there."""

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import Object, Refusal, path_of
from e2e.harness import SCHEDULER, ControlPlane
from e2e.objects import namespace_object
from runrig.spec.cluster import read_cluster
from tests.worlds.command_line import runrig

EXAMPLES = Path(__file__).parents[2] / "examples" / "topology"
OURS = "app.kubernetes.io/managed-by=runrig"
_CLUSTER_WIDE = (
    ("scheduling.run.ai/v2", "Queue"),
    ("kai.scheduler/v1alpha1", "Topology"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
)
_NUMBERS = itertools.count(1)


class World:
    def __init__(self, plane: ControlPlane, namespace: str | None = None) -> None:
        """*namespace*: one that somebody else creates; None: a fresh one."""
        self.plane, self.api = plane, plane.api
        self.namespace = namespace or f"e2e-{next(_NUMBERS)}"
        if namespace is None:
            self.api.create(namespace_object(self.namespace))

    def nodes(self, cluster: Path) -> dict[str, Mapping[str, str]]:
        """Makes the nodes of a cluster file; name → its labels."""
        nodes = read_cluster(cluster.read_text()).nodes
        self.plane.add_nodes(nodes)
        return {node.name: node.labels for node in nodes}

    def rendered(self, workflow: Path, cluster: Path, *options: str) -> list[Object]:
        """What `runrig workflow render` prints."""
        files = (str(workflow), "--cluster", str(cluster), "--namespace", self.namespace)
        done = runrig("workflow", "render", *files, *options)
        assert (done.code, done.err) == (0, ""), done.err
        return list(yaml.safe_load_all(done.out))

    def create(self, objects: Sequence[Object]) -> list[Object]:
        return [self.api.create(each) for each in objects]

    def pods(self) -> dict[str, Object]:
        """Task → its pod as it is now; pods that are on their way out are left out."""
        found = self.api.listed("v1", "Pod", self.namespace)
        live = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return {each["metadata"].get("labels", {}).get("runrig/task", each["metadata"]["name"]): each for each in live}

    def nodes_of_pods(self) -> dict[str, str | None]:
        return {task: pod["spec"].get("nodeName") for task, pod in self.pods().items()}

    def phases(self) -> dict[str, str]:
        return {task: pod["status"]["phase"] for task, pod in self.pods().items()}

    def all_run(self, *, timeout_s: float = 60) -> dict[str, str | None]:
        """Waits for it; task → node."""
        self.plane.until(lambda: set(self.phases().values()) == {"Running"}, "all pods run", timeout_s=timeout_s)
        return self.nodes_of_pods()

    def events(self, *reasons: str) -> list[tuple[str, str]]:
        """(reason, message) of those of this namespace with one of *reasons*."""
        found = self.api.listed("v1", "Event", self.namespace)
        return [(each["reason"], each["message"]) for each in found if each["reason"] in reasons]

    def clear(self) -> None:
        """Back to an empty cluster; the namespace itself goes when its controller gets to it, which takes seconds."""
        with suppress(Refusal):  # It may not exist yet.
            self.api.delete(namespace_object(self.namespace))  # From now on no controller creates pods there.
        for pod in self.api.listed("v1", "Pod", self.namespace):
            self._end(pod | {"apiVersion": "v1", "kind": "Pod"})
        self.plane.until(lambda: not self.api.listed("v1", "Pod", self.namespace), "the pods are gone")
        self.plane.until(self._cleared, "what runrig made in the whole cluster is gone")
        for node in self.api.listed("v1", "Node"):
            self.api.delete(node | {"apiVersion": "v1", "kind": "Node"})

    def _cleared(self) -> bool:
        """Deletes what is left of it. KAI's webhook refuses to delete a queue that has children."""
        left = [each | {"apiVersion": v, "kind": k} for v, k in _CLUSTER_WIDE for each in self._ours(v, k)]
        for each in left:
            with suppress(Refusal):
                self.api.delete(each)
        return not left

    def _ours(self, version: str, kind: str) -> list[Object]:
        return self.api.listed(version, kind, labelSelector=OURS)

    def _end(self, pod: Object) -> None:
        """Deletes *pod* by force, whatever wanted to keep it."""
        with suppress(Refusal):  # it may already be gone
            self.api.delete(pod, grace_s=0)
            nobody = {"metadata": {"finalizers": None}}
            self.api.call("PATCH", path_of(pod), nobody, kind="application/merge-patch+json")


def bare_pod(
    namespace: str, name: str, *, gpus: int = 1, node: str = "", annotations: Mapping[str, str] | None = None
) -> Object:
    """A pod of one container, as small as it can be. On *node*, which runs it without a scheduler, or on none yet."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    bound = {"nodeName": node, "schedulerName": "nobody"} if node else {"schedulerName": SCHEDULER}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
        "spec": {**bound, "restartPolicy": "Never", "containers": [container]},
    }


def stand_in_only(world: World) -> None:
    """Skips a test of what is so only without KAI: pods need no group, and our words for its kinds check its webhook's rules."""
    if world.plane.kai:
        pytest.skip("KAI Scheduler is here")


def within(sent: Any, kept: Any) -> bool:
    """Everything of *sent* is in *kept*, which may say more: defaults, and what the server itself writes."""
    if isinstance(sent, Mapping):
        return isinstance(kept, Mapping) and all(
            key in kept and within(value, kept[key]) for key, value in sent.items()
        )
    if isinstance(sent, list):
        return isinstance(kept, list) and len(sent) <= len(kept) and all(any(within(a, b) for b in kept) for a in sent)
    return bool(sent == kept or (isinstance(sent, int | str) and str(sent) == kept))
