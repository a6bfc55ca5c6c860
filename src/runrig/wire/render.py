"""A workflow as Kubernetes objects."""

from typing import Any

from runrig.wire.base import Answer, example


class RenderAnswer(Answer):
    """*objects*: Kubernetes objects in the order in which a cluster needs them."""

    model_config = example(
        {
            "objects": [
                {
                    "apiVersion": "kai.scheduler/v1alpha1",
                    "kind": "Topology",
                    "metadata": {"name": "osmo-pool-runrig-vision-topology"},
                    "spec": {"levels": [{"nodeLabel": "topology.kubernetes.io/rack"}]},
                }
            ]
        }
    )

    objects: list[dict[str, Any]]
