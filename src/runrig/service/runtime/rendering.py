"""Values for Kubernetes objects: a workflow, its pool, and the pool's current numbers."""

import uuid

from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.pools import Pool
from runrig.domain.workflows import GroupSpec, WorkflowSpec
from runrig.engine.lifecycle import submission_gate
from runrig.engine.placement.constraint_tree import check_requirements, tree_of
from runrig.engine.placement.subgroups import outline_of
from runrig.engine.state.state import State
from runrig.ports.backend import Blueprint, GangLaunch
from runrig.service.runtime.kai_quota import kai_quotas
from runrig.spec.pools import NAMESPACE

DEFAULT_NAMESPACE = "runrig"

_IDS = uuid.UUID("3f6c2a52-0f0e-5d53-9a4e-7a8c1e0b6d11")


def blueprint(state: State, spec: WorkflowSpec, *, pool: str, priority: Priority, namespace: str) -> Blueprint:
    """Returns *spec* in *pool* of *state*, whether or not it has quota.

    Raises NotFound (pool), InvalidInput (namespace), and Refused for unknown topology keys or platforms and for a
    closed pool.
    """
    if not NAMESPACE.fullmatch(namespace):
        raise InvalidInput.one(
            f"invalid namespace {namespace!r}. Use at most 63 lower-case letters, digits and '-'", "namespace"
        )
    target = submission_gate.open_pool(state, pool)
    check_requirements(target, spec)
    for group in spec.groups:
        for task in group.tasks:
            submission_gate.check_flavors(state, target, task)
    top = target if target.parent is None else state.pools[target.parent]
    return Blueprint(
        namespace=namespace,
        gangs=tuple(_gang(spec, group, target, top, priority) for group in spec.groups),
        pools=tuple(kai_quotas(state, each) for each in (top, target)[: 1 if top is target else 2]),
        flavors=dict(state.flavors),
    )


def _gang(spec: WorkflowSpec, group: GroupSpec, pool: Pool, top: Pool, priority: Priority) -> GangLaunch:
    """Ids are stable, so that outputs can be compared."""
    return GangLaunch(
        id=f"{spec.name}/{group.name}",
        uuid=str(uuid.uuid5(_IDS, f"{pool.name}/{spec.name}/{group.name}")),
        workflow=spec.name,
        workflow_uuid=None,
        pool=pool,
        top=top,
        priority=priority,
        user="",
        group=group,
        outline=outline_of(tree_of(top.topology_keys, group.tasks)),
        labels=spec.labels,
        code=spec.code,
    )
