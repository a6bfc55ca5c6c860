"""Reads the manager's settings: kind Configuration, as a file or in the ConfigMap that Kueue is installed with."""

from dataclasses import dataclass, field

from runrig.domain.errors import InvalidInput
from runrig.domain.kueue import FAIR, STRATEGIES, Settings, Strategy
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.surroundings import Surroundings, read_excluded, read_transformations
from runrig.kueue.read.tree import Object, Value
from runrig.spec.yamltree import read_documents

GROUP = "config.kueue.x-k8s.io"
IN_CONFIG_MAP = "controller_manager_config.yaml"

_LARGEST = 1024 * 1024
_READ = ("apiVersion", "kind", "fairSharing", "featureGates", "resources", "waitForPodsReady")
_NO_BEARING = (
    "metadata", "namespace", "manageJobsWithoutQueueName", "internalCertManagement", "clientConnection", "webhook", "leaderElection",
    "metrics", "health", "pprofBindAddress", "controller", "tls", "visibilityServer", "objectRetentionPolicies",
    "queueVisibility", "cacheSyncTimeout", "gracefulShutDown",
)  # fmt: skip
_UNSUPPORTED = {
    "managedJobsNamespaceSelector": "ignored: the jobs of all namespaces are simulated",
    "integrations": "ignored: jobs of all kinds are simulated, enabled or not",
    "multiKueue": "ignored: running on other clusters is not simulated",
    "admissionFairSharing": "ignored: usage-based fair sharing between local queues is not simulated",
}
_RESOURCES = ("excludeResourcePrefixes", "transformations", "quotaCheckStrategy")
_UNSUPPORTED_RESOURCES = {"deviceClassMappings": "dynamic resources are not simulated: they request nothing"}
_IGNORES = {"BlockUndeclared": False, "IgnoreUndeclared": True}
_READY = ("enable", "timeout", "requeuingStrategy", "recoveryTimeout")
_REQUEUING = ("timestamp", "backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")
_BY_CREATION = {"Eviction": False, "Creation": True}
_BLOCKS = "pods count as ready immediately, so admission is never blocked"


@dataclass(slots=True)
class Manager:
    """Settings of the Kueue manager that affect admission.

    *by_creation*: after an eviction because pods were not ready, a workload is queued by creation time instead of
    eviction time.
    *ignores_undeclared*: requests for resources that a queue does not cover are ignored.
    """

    settings: Settings = field(default_factory=Settings)
    by_creation: bool = False
    ignores_undeclared: bool = False


def in_config_map(manifest: Manifest) -> Object | None:
    """The settings in a ConfigMap; None if it has none."""
    at = manifest.body.object("data").get(IN_CONFIG_MAP)
    if at is None:
        return None
    try:
        (document,) = read_documents(at.text(), "configuration", _LARGEST)
    except (InvalidInput, ValueError) as error:
        at.wrong(f"not a single YAML document: {error}")
        return None
    return Value(document.node, at.path, at.origin, at.report).object() if document.node.value else None


def read_manager(body: Object, around: Surroundings) -> Manager:
    """Reads the settings. Adds excluded and transformed resources to *around*."""
    body.only((*_READ, *_NO_BEARING), _UNSUPPORTED)
    resources = body.object("resources").only(_RESOURCES, _UNSUPPORTED_RESOURCES)
    read_excluded(resources, around)
    read_transformations(resources.objects("transformations"), around)
    ready = body.object("waitForPodsReady").only(_READY, {"blockAdmission": _BLOCKS})
    if _is_old(body) and ready.flag("enable", False) and not ready.has("blockAdmission"):
        ready.at.warn(f"in this version it blocks admission unless blockAdmission is false; {_BLOCKS}")
    requeuing = ready.object("requeuingStrategy").only(_REQUEUING)
    gates = {name: at.flag() for name, at in body.object("featureGates").pairs()}
    return Manager(
        Settings(_strategies(body), dict(sorted(gates.items()))),
        requeuing.choice("timestamp", _BY_CREATION, False, otherwise="treated as Eviction"),
        resources.choice("quotaCheckStrategy", _IGNORES, False, otherwise="treated as BlockUndeclared"),
    )


def _is_old(body: Object) -> bool:
    return body.text("apiVersion").endswith("v1beta1")


def _strategies(body: Object) -> tuple[Strategy, ...] | None:
    """The configured strategies; None without fair sharing. The older version has a separate field to enable it."""
    at = body.get("fairSharing")
    if at is None:
        return None
    fair = at.object().only(("enable", "preemptionStrategies"))
    if _is_old(body) and not fair.flag("enable", False):
        return None
    none: Strategy | None = None
    found = [each.choice(STRATEGIES, none, otherwise="ignored") for each in fair.items("preemptionStrategies")]
    return tuple(each for each in found if each is not None) or FAIR
