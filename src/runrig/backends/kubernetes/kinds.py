"""The kinds of objects that runrig reads or writes."""

from typing import Any, NamedTuple

from runrig.backends.kubernetes.names import Object


class ObjectKind(NamedTuple):
    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    def made(self, metadata: Object, **more: Any) -> Object:
        """Returns an object of this kind."""
        return {"apiVersion": self.api_version, "kind": self.name, "metadata": metadata, **more}


POD = ObjectKind("v1", "Pod", "pods")
SERVICE = ObjectKind("v1", "Service", "services")
SECRET = ObjectKind("v1", "Secret", "secrets")
CONFIG_MAP = ObjectKind("v1", "ConfigMap", "configmaps")
EVENT = ObjectKind("v1", "Event", "events")
NODE = ObjectKind("v1", "Node", "nodes", namespaced=False)
NAMESPACE = ObjectKind("v1", "Namespace", "namespaces", namespaced=False)
PRIORITY_CLASS = ObjectKind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
QUEUE = ObjectKind("scheduling.run.ai/v2", "Queue", "queues", namespaced=False)
POD_GROUP = ObjectKind("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups")
TOPOLOGY = ObjectKind("kai.scheduler/v1alpha1", "Topology", "topologies", namespaced=False)

KAI = (QUEUE, POD_GROUP, TOPOLOGY)
BY_NAME = {
    (kind.api_version, kind.name): kind
    for kind in (POD, SERVICE, SECRET, CONFIG_MAP, EVENT, NODE, NAMESPACE, PRIORITY_CLASS, *KAI)
}
"""By API version and name."""
