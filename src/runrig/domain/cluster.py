"""The contents of a cluster file: its nodes, flavors, cohorts and pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.access import Grant
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool

SIMULATED, LOCAL, KUBERNETES = "simulated", "local", "kubernetes"
BACKENDS = (SIMULATED, LOCAL, KUBERNETES)
"""Where tasks run, by the names in cluster files and `serve` files."""
BACKENDS_OF_UP = (LOCAL, SIMULATED)
"""The backends that `up` can start. The first is the default."""
FLAT = (LOCAL,)
"""Those whose nodes have no topology."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster file. A running server does not accept another *backend_type* or other *nodes*.

    *pools*: parents before their subpools. *roles*: pairs of user and role.
    *resource_names*: runrig's name of a resource → its Kubernetes name. *speed*: simulated seconds per second (simulated
    backend).
    """

    backend_name: str = "default"
    backend_type: str | None = None
    nodes: tuple[Node, ...] = ()
    flavors: tuple[Flavor, ...] = (Flavor("default"),)
    cohorts: tuple[Cohort, ...] = ()
    pools: tuple[Pool, ...] = ()
    resource_names: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[tuple[str, Grant], ...] = ()
    speed: float = 1.0

    @property
    def topology(self) -> bool:
        return self.backend_type not in FLAT
