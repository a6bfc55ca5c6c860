"""A topology case as manifests: nodes, pods of others, who holds nodes already, and one workload to be placed."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.conformance.cases import Case
from tests.conformance.manifests import V1, Manifest, quantity, stamp, version

HOST = "kubernetes.io/hostname"
KIND = {"example.com/kind": "topology"}
PLENTY = 10**12


def text(case: Case) -> str:
    """The scenario file of *case*."""
    return yaml.dump_all(_documents(case, version(case)), Dumper=yaml.CSafeDumper, sort_keys=False)


def _documents(case: Case, api: str) -> Iterator[Manifest]:
    levels = [{"nodeLabel": _key(level)} for level in case["levels"]]
    resources = sorted({name for pods in case["pods"].values() for name in pods["requests"]})
    quotas = [{"name": name, "nominalQuota": quantity(name, PLENTY)} for name in resources]
    group = {"coveredResources": resources, "flavors": [{"name": "near", "resources": quotas}]}
    flavor = {"nodeLabels": KIND | case.get("flavor_labels", {}), "topologyName": "tree"}
    yield _object(api, "Topology", "tree", {"levels": levels})
    yield _object(api, "ResourceFlavor", "near", flavor)
    yield _object(api, "ClusterQueue", "queue", {"namespaceSelector": {}, "resourceGroups": [group]})
    yield _object(api, "LocalQueue", "queue", {"clusterQueue": "queue"}, "default")
    yield from (_node(name, node) for name, node in case["nodes"].items())
    yield from (_pod(f"other-{at}", pod) for at, pod in enumerate(case.get("others", ())))
    yield from (_holder(api, case, f"holder-{at}", each) for at, each in enumerate(case.get("held", ())))
    pod_sets = [_pod_set(api, name, pods) for name, pods in case["pods"].items()]
    yield _object(api, "Workload", "new", {"queueName": "queue", "podSets": pod_sets}, "default")


def _object(api: str, kind: str, name: str, spec: Manifest, namespace: str = "") -> Manifest:
    metadata = {"name": name, "creationTimestamp": stamp(0), **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _key(label: str) -> str:
    return HOST if label == "host" else label


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity(name, amount) for name, amount in amounts.items()}


def _node(name: str, node: Mapping[str, Any]) -> Manifest:
    made = _object("v1", "Node", name, {"taints": node.get("taints", [])})
    made["metadata"]["labels"] = KIND | {_key(key): value for key, value in node["labels"].items()}
    made["spec"]["unschedulable"] = node.get("unschedulable", False)
    ready = {"type": "Ready", "status": str(node.get("ready", True)), "lastTransitionTime": stamp(0)}
    return made | {"status": {"allocatable": _amounts(node["has"]), "conditions": [ready]}}


def _template(requests: Mapping[str, int], pods: Mapping[str, Any]) -> Manifest:
    spec: Manifest = {"containers": [{"name": "main", "resources": {"requests": _amounts(requests)}}]}
    spec["nodeSelector"] = {_key(key): value for key, value in pods.get("node_selector", {}).items()}
    spec["tolerations"] = pods.get("tolerations", [])
    terms = [{"matchExpressions": _expressions(term)} for term in pods.get("affinity", ())]
    weighted = [
        {"weight": each["weight"], "preference": {"matchExpressions": _expressions(each["match"])}}
        for each in pods.get("preferred_affinity", ())
    ]
    affinity: Manifest = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    if terms:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    return {"spec": spec | {"affinity": {"nodeAffinity": affinity}}}


def _expressions(term: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each | {"key": _key(each["key"])} for each in term]


def _pod(name: str, pod: Mapping[str, Any]) -> Manifest:
    made = _object("v1", "Pod", name, _template(pod["requests"], {})["spec"], "default")
    if pod["node"]:
        made["spec"]["nodeName"] = pod["node"]
    return made | {"status": {"phase": pod.get("phase", "Running")}}


def _pod_set(api: str, name: str, pods: Mapping[str, Any]) -> Manifest:
    """In v1beta1 the request stands in annotations of the template, as a job would have it."""
    near: Manifest = {word: _key(pods[word]) for word in ("required", "preferred") if word in pods}
    if "unconstrained" in pods:
        near["unconstrained"] = True
    layers = [(_key(level), size) for level, size in pods.get("slices", ())]
    if len(layers) == 1:
        near["podSetSliceRequiredTopology"] = layers[0][0]
        near |= {"podSetSliceSize": layers[0][1]} if layers[0][1] else {}
    elif layers:
        near["podsetSliceRequiredTopologyConstraints"] = [{"topology": at, "size": size} for at, size in layers]
    if "group" in pods:
        near["podSetGroupName"] = pods["group"]
    template = _template(pods["requests"], pods)
    made: Manifest = {"name": name, "count": pods["count"], "template": template}
    if api != V1 or len(layers) > 1:
        return made | {"topologyRequest": near}
    words = {
        "required": "required-topology",
        "preferred": "preferred-topology",
        "unconstrained": "unconstrained-topology",
        "podSetSliceRequiredTopology": "slice-required-topology",
        "podSetSliceSize": "slice-size",
        "podSetGroupName": "group-name",
    }
    marks = {f"kueue.x-k8s.io/podset-{words[key]}": _written(value) for key, value in near.items()}
    return made | {"template": {"metadata": {"annotations": marks}, **template}}


def _written(value: object) -> str:
    return "true" if value is True else str(value)


# ---------------------------------------------------------------- running work on nodes


def _holder(api: str, case: Case, name: str, held: Mapping[str, Any]) -> Manifest:
    requests = dict(held["requests"])
    count = requests.pop("pods", 1)
    per_pod = {resource: amount // count for resource, amount in requests.items()}
    pod_set = {"name": "main", "count": count, "template": _template(per_pod, {})}
    made = _object(api, "Workload", name, {"queueName": "queue", "podSets": [pod_set]}, "default")
    levels = [_key(level) for level in case["levels"]][-len(held["domain"]) :]
    assignment = {
        "name": "main",
        "count": count,
        "flavors": dict.fromkeys(requests, "near"),
        "topologyAssignment": {"levels": levels, **_stands(api, held["domain"], count)},
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": stamp(0), "reason": kind, "message": ""}
        for kind in ("QuotaReserved", "Admitted")
    ]
    admission = {"clusterQueue": "queue", "podSetAssignments": [assignment]}
    return made | {"status": {"admission": admission, "conditions": conditions}}


def _stands(api: str, domain: list[str], count: int) -> Manifest:
    if api == V1:
        return {"domains": [{"values": domain, "count": count}]}
    values: list[Manifest] = [{"universal": value} for value in domain[:-1]]
    values.append({"individual": {"prefix": domain[-1][:1], "roots": [domain[-1][1:]]}})
    return {"slices": [{"domainCount": 1, "valuesPerLevel": values, "podCounts": {"universal": count}}]}
