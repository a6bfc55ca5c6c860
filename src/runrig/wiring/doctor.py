"""Checks the cluster of a `serve` file or kubeconfig, for `runrig doctor` and `runrig serve --check`."""

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import ServerFault
from runrig.domain.findings import Finding
from runrig.domain.quantities import GPU
from runrig.spec.serve_settings import KubernetesSpec
from runrig.wiring.kubernetes_api import api


def examine(spec: KubernetesSpec, declared: ClusterSpec | None) -> tuple[Finding, ...]:
    """Returns what was found; *declared*: the cluster file, if any.

    Raises InvalidInput for an unusable kubeconfig, Unavailable if the API server does not respond, ServerFault if it refuses.
    """
    cluster = api(spec)
    from runrig.backends.kubernetes.answers import ApiRefusal
    from runrig.backends.kubernetes.doctor import Uses
    from runrig.backends.kubernetes.doctor import examine as examined
    from runrig.backends.kubernetes.pods import RESOURCE_NAMES

    known = declared or ClusterSpec()
    keys = {key.label: f"pool {pool.name}" for pool in reversed(known.pools) for key in pool.topology_keys}
    flavors = {flavor.name: flavor.node_labels for flavor in known.flavors}
    names = {**RESOURCE_NAMES, **known.resource_names}
    try:
        return examined(cluster, spec.namespace, Uses(names[GPU], keys, flavors))
    except ApiRefusal as refusal:
        raise ServerFault(str(refusal)) from refusal
    finally:
        cluster.close()
