"""Reads a SparkApplication as two pod sets. It has no pod templates, so they are built from its fields as Kueue does."""

import re
from collections.abc import Iterator, Mapping

from runrig.kueue.read.parts import Beside, Part
from runrig.kueue.read.ray import ELASTIC
from runrig.kueue.read.tree import Object, Value
from runrig.spec.yamltree import Entry, Node

FIELDS = (
    "type", "sparkVersion", "mode", "suspend", "proxyUser", "image", "imagePullPolicy", "imagePullSecrets", "mainClass",
    "mainApplicationFile", "arguments", "sparkConf", "hadoopConf", "sparkConfigMap", "hadoopConfigMap", "volumes", "driver", "executor",
    "deps", "restartPolicy", "nodeSelector", "failureRetries", "retryInterval", "pythonVersion", "memoryOverheadFactor", "monitoring",
    "batchScheduler", "batchSchedulerOptions", "timeToLiveSeconds", "sparkUIOptions", "driverIngressOptions", "dynamicAllocation",
)  # fmt: skip
_COPIED = ("initContainers", "nodeSelector", "affinity", "tolerations", "priorityClassName")
_READ = ("coreRequest", "coreLimit", "memory", "memoryLimit", "gpu", "sidecars", "annotations", "template", "instances")
_NO_BEARING = (
    "cores", "memoryOverhead", "image", "configMaps", "secrets", "env", "envVars", "envFrom", "envSecretKeyRefs", "labels", "volumeMounts",
    "podSecurityContext", "securityContext", "schedulerName", "hostNetwork", "dnsConfig", "terminationGracePeriodSeconds",
    "serviceAccount", "hostAliases", "shareProcessNamespace", "podName", "javaOptions", "lifecycle", "kubernetesMaster",
    "serviceAnnotations", "serviceLabels", "ports", "deleteOnTermination",
)  # fmt: skip
_DYNAMIC = (
    "enabled", "initialExecutors", "minExecutors", "maxExecutors", "shuffleTrackingEnabled", "shuffleTrackingTimeout",
)  # fmt: skip
_JAVA = re.compile(r"([0-9.]+)([kmgtp])b?", re.IGNORECASE | re.ASCII)


def spark_pods(spec: Object, _beside: Beside) -> list[Part]:
    """One driver, and the initial number of executors."""
    mode, dynamic = spec.get("mode"), spec.object("dynamicAllocation")
    if mode is not None and mode.text() != "cluster":
        mode.warn("Kueue rejects this job: the mode must be cluster")
    dynamic.only(_DYNAMIC)
    if dynamic.flag("enabled", False):
        dynamic.at.warn(ELASTIC)
    driver, executor = spec.object("driver"), spec.object("executor")
    return [
        Part("driver", 1, _with_template(driver)),
        Part("executor", executor.whole("instances", 0), _with_template(executor)),
    ]


def _with_template(pod: Object) -> Object:
    pod.only((*_READ, *_COPIED, *_NO_BEARING))
    resources = _node({"requests": Node(dict(_requests(pod))), "limits": Node(dict(_limits(pod)))})
    main = _node({"name": Node("spark"), "resources": resources})
    containers = Node((main, *(each.node for each in pod.items("sidecars"))))
    spec = _node({"containers": containers, **{name: at.node for name in _COPIED if (at := pod.get(name))}})
    annotations = {**pod.object("template").object("metadata").object("annotations").entries}
    metadata = _node({"annotations": Node({**annotations, **pod.object("annotations").entries})})
    return pod.having("template", _node({"metadata": metadata, "spec": spec}))


def _requests(pod: Object) -> Iterator[tuple[str, Entry]]:
    """The resources that Kueue counts: without Spark's memory overhead, and cpu only from `coreRequest`."""
    yield from _amount("cpu", pod.get("coreRequest"))
    yield from _amount("memory", pod.get("memory"))


def _limits(pod: Object) -> Iterator[tuple[str, Entry]]:
    yield from _amount("cpu", pod.get("coreLimit"))
    yield from _amount("memory", pod.get("memoryLimit"))
    gpu = pod.object("gpu").only(("name", "quantity"))
    if gpu.text("name"):
        yield from _amount(gpu.text("name"), gpu.get("quantity"))


def _amount(resource: str, at: Value | None) -> Iterator[tuple[str, Entry]]:
    """A quantity. Memory may be in Java notation: 512m, 2g."""
    if at is None:
        return
    java = _JAVA.fullmatch(at.node.text or str(at.node.value)) if resource == "memory" else None
    text = f"{java[1]}{java[2].upper()}i" if java else ""
    yield resource, Entry(None, Node(text, text, at.node.place) if java else at.node)


def _node(fields: Mapping[str, Node]) -> Node:
    return Node({name: Entry(None, node) for name, node in fields.items()})
