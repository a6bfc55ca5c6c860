"""The Kubernetes API client of a `serve` file."""

from typing import TYPE_CHECKING

from runrig.domain.errors import ServerFault
from runrig.spec.serve_settings import KubernetesSpec

if TYPE_CHECKING:
    from runrig.backends.kubernetes.cluster import Cluster


def api(spec: KubernetesSpec) -> "Cluster":
    """Returns the Kubernetes API client. Imported here, so that other backends do not need its library."""
    try:
        from runrig.backends.kubernetes.cluster import connect
    except ImportError as error:
        raise ServerFault(f"the kubernetes backend needs {error.name}: pip install 'runrig[kubernetes]'") from error
    return connect(spec.kubeconfig, spec.context)
