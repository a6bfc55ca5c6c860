"""A cluster file → ClusterSpec, or all its errors (interfaces.md section 3)."""

import re
from collections.abc import Sequence

from runrig.domain.access import Grant, RoleKind, role_on, user_problem
from runrig.domain.cluster import BACKENDS, KUBERNETES, LOCAL, SIMULATED, ClusterSpec
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool
from runrig.spec.fields import Field, Fields, closest, each, root
from runrig.spec.nodes import read_flavors, read_nodes
from runrig.spec.pools import read_cohorts, read_pools
from runrig.spec.quota import RESOURCES, Kinds
from runrig.spec.yamltree import read_yaml

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
    top = root(read_yaml(text, "cluster file"))
    fields = top.fields(
        "a cluster file", FIELDS, {"workflow": "this is a workflow file. Submit it with `runrig workflow submit`."}
    )
    spec = cluster_of(fields, there, resources) if fields else None
    top.problems.raise_if_any()
    assert spec is not None, "a file without a problem declares a cluster"
    return spec


def cluster_of(fields: Fields, there: tuple[Flavor, ...] = (), known: Sequence[str] = ()) -> ClusterSpec:
    """Returns the cluster in *fields*, for files that contain more than a cluster. Reports errors in *fields*."""
    name, kind, speed = _backend(fields)
    flavors = read_flavors(fields) if fields.get("flavors") or not there else there
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
    field = fields.get("backend")
    inner = field.fields("backend", _BACKEND) if field else None
    if inner is None:
        return "default", None, 1.0
    name, speed = inner.get("name"), inner.get("speed")
    text = name.text() if name else "default"
    if name is not None and text is not None and not _BACKEND_NAME.fullmatch(text):
        name.wrong(f"{text!r} must be letters, digits, '-', '_' and '.', at most 63")
    chosen = inner.choice("type", _TYPES)
    if speed is not None and chosen not in (None, SIMULATED):
        speed.wrong(f"speed applies only to the simulated backend, not to {chosen}")
    factor = speed.number(_SLOWEST, _FASTEST) if speed else None
    return text or "default", chosen, factor or 1.0


def _check_backend(fields: Fields, kind: str | None, pools: Sequence[Pool]) -> None:
    nodes = fields.get("nodes")
    if kind == KUBERNETES and nodes is not None:
        nodes.wrong("the kubernetes backend reads its nodes from the cluster. Omit nodes.")
    keyed = next((pool.name for pool in pools if pool.topology_keys), None)
    field = fields.get("pools")
    if kind == LOCAL and keyed is not None and field is not None:
        field.wrong(
            f"pool {keyed} has topology_keys, but the local backend is one machine without topology. Omit them."
        )


def _resource_names(fields: Fields) -> dict[str, str]:
    names = {}
    for key, item in fields.map("resource_names"):
        text = item.text()
        if text is not None and not _KUBERNETES_RESOURCE.fullmatch(text):
            item.wrong(f"{text!r} is not a Kubernetes resource name. Use for example nvidia.com/gpu.")
        names[key] = text or ""
    return names


def _roles(fields: Fields, pools: Sequence[Pool]) -> tuple[tuple[str, Grant], ...]:
    grants = []
    needs = {"user": "user: alice", "role": "role: user"}
    for inner, (user, role) in each(fields.items("roles"), "a role", (*needs, "pool"), needs):
        pool = inner.get("pool")
        name = _known_pool(pool, pools) if pool else None
        kind = role.choice(_ROLES)
        if kind is not None:
            grants.append((_user_name(user), role_on(kind, name)))
    return tuple(grants)


def _user_name(field: Field) -> str:
    name = field.text() or ""
    problem = user_problem(name) if name else None
    if problem is not None:
        field.wrong(problem)
    return name


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
