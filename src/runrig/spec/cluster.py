"""A cluster file → ClusterSpec, or all its errors (interfaces.md section 3)."""

import re
from collections.abc import Sequence

from runrig.domain.access import Grant, RoleKind, role_on, user_problem
from runrig.domain.cluster import BACKENDS, KUBERNETES, LOCAL, SIMULATED, ClusterSpec
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool
from runrig.spec.fields import Field, Fields, closest, each, read_file
from runrig.spec.nodes import read_flavors, read_nodes
from runrig.spec.pools import read_cohorts, read_pools
from runrig.spec.quota import RESOURCES, Kinds

FIELDS = ("backend", "nodes", "cohorts", "pools", "flavors", "resource_names", "roles")
_BACKEND = ("name", "type", "speed")
_TYPES = {name: name for name in BACKENDS}
_ROLES = {"admin": RoleKind.ADMIN, "user": RoleKind.POOL_USER, "viewer": RoleKind.VIEWER}
_SLOWEST, _FASTEST = 0.001, 1_000_000.0
_BACKEND_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_KUBERNETES_RESOURCE = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)


def read_cluster(text: str, *, there: tuple[Flavor, ...] = (), resources: Sequence[str] = ()) -> ClusterSpec:
    """Returns the cluster that *text* declares. *there*: flavors of a text without any; empty: one flavor that all
    nodes match.

    *resources*: known ones in addition to the standard ones and those of the text's nodes. Raises InvalidInput with all
    errors.
    """
    hints = {"workflow": "this is a workflow file. Submit it with `runrig workflow submit`."}
    return read_file(text, "cluster file", FIELDS, lambda fields: cluster_of(fields, there, resources), hints)


def cluster_of(fields: Fields, there: tuple[Flavor, ...] = (), known: Sequence[str] = ()) -> ClusterSpec:
    """Returns the cluster in *fields*, for files that contain more than a cluster. Reports errors in *fields*."""
    name, kind, speed = _backend(fields)
    flavors = read_flavors(fields) if fields["flavors"] or not there else there
    nodes = read_nodes(fields, flavors)
    resource_names = _resource_names(fields)
    declared = tuple(flavor.name for flavor in flavors)
    of_nodes = sorted({resource for node in nodes for resource in node.resources})
    resources = dict.fromkeys((*RESOURCES, *known, *resource_names, *of_nodes))
    kinds = Kinds(declared, declared, tuple(resources))
    cohorts = read_cohorts(fields, kinds)
    pools = read_pools(fields, kinds)
    _check_backend(fields, kind, pools)
    return ClusterSpec(
        backend_name=name,
        backend_type=kind,
        nodes=nodes,
        flavors=flavors,
        cohorts=cohorts,
        pools=pools,
        resource_names=resource_names,
        roles=_roles(fields, pools),
        speed=speed,
    )


def _backend(fields: Fields) -> tuple[str, str | None, float]:
    """Returns (name, type, speed)."""
    inner = fields["backend"].fields("backend", _BACKEND)
    name = inner["name"].matching(_BACKEND_NAME, "must be letters, digits, '-', '_' and '.', at most 63")
    chosen, speed = inner["type"].choice(_TYPES), inner["speed"]
    if chosen not in (None, SIMULATED):
        speed.wrong(f"speed applies only to the simulated backend, not to {chosen}")
    return name or "default", chosen, speed.number(_SLOWEST, _FASTEST) or 1.0


def _check_backend(fields: Fields, kind: str | None, pools: Sequence[Pool]) -> None:
    if kind == KUBERNETES:
        fields["nodes"].wrong("the kubernetes backend reads its nodes from the cluster. Omit nodes.")
    keyed = next((pool.name for pool in pools if pool.topology_keys), None)
    if kind == LOCAL and keyed is not None:
        fields["pools"].wrong(
            f"pool {keyed} has topology_keys, but the local backend is one machine without topology. Omit them."
        )


def _resource_names(fields: Fields) -> dict[str, str]:
    rule = "is not a Kubernetes resource name. Use for example nvidia.com/gpu."
    entries = fields["resource_names"].entries()
    return {key: item.matching(_KUBERNETES_RESOURCE, rule) or "" for key, item in entries}


def _roles(fields: Fields, pools: Sequence[Pool]) -> tuple[tuple[str, Grant], ...]:
    grants = []
    needs = {"user": "user: alice", "role": "role: user"}
    for inner, (user, role) in each(fields["roles"].items(), "a role", (*needs, "pool"), needs):
        name = _known_pool(inner["pool"], pools)
        kind = role.choice(_ROLES)
        if kind is not None:
            grants.append((user.checked(lambda name: user_problem(name) if name else None) or "", role_on(kind, name)))
    return tuple(grants)


def _known_pool(field: Field, pools: Sequence[Pool]) -> str | None:
    """Returns the name of a top-level pool of the file; a subpool has no roles of its own (rule S5)."""
    name = field.text()
    known = [pool.name for pool in pools if pool.parent is None]
    parent = next((pool.parent for pool in pools if pool.name == name and pool.parent is not None), None)
    if parent is not None:
        field.wrong(f"{name!r} is a subpool, and roles on a pool include its subpools. Grant it on {parent!r}")
    elif name is not None and name not in known:
        field.wrong(f"unknown pool {name!r} in this file. {closest(name, known)}")
    return name if name in known else None
