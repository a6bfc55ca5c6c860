"""A cluster file, read: what is declared of nodes, flavors, cohorts and pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """*user* has *role* (admin, user, viewer) on *pool*; None: on all."""

    user: str
    role: str
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """*backend_type* and *nodes* are fixed once a server has started.  *pools*: parents before their subpools.

    *resource_names*: our name of a resource → its name in Kubernetes.  *speed*: how fast the simulated backend's time runs.
    """

    backend_name: str = "default"
    backend_type: str | None = None
    nodes: tuple[Node, ...] = ()
    flavors: tuple[Flavor, ...] = (Flavor("default"),)
    cohorts: tuple[Cohort, ...] = ()
    pools: tuple[Pool, ...] = ()
    resource_names: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[RoleGrant, ...] = ()
    speed: float = 1.0
