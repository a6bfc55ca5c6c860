"""Checks a submission without a server: the same checks, on the empty cluster in a cluster
file.

Nothing runs and nothing is stored. Rules, messages and errors are those of a server (rule P3).
"""

from dataclasses import replace

from runrig.domain.cluster import ClusterSpec
from runrig.domain.plan import PutCohort, PutNode
from runrig.domain.pools import Cohort, Quota
from runrig.domain.quantities import GPU, LARGEST, FlavorResource
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.engine.lifecycle import pools
from runrig.engine.state.state import State
from runrig.ports.backend import Blueprint
from runrig.service.commands.submission import Submission, read
from runrig.service.runtime import rendering

NOT_SAID = "local"
"""The backend of `runrig up` if the file does not name one."""

_UNPROMISED = "(unpromised)"  # A cluster file cannot name it.


def check(submission: Submission, cluster: ClusterSpec) -> WorkflowSubmitted:
    """As `Submissions.check` on a server that has just started with *cluster*.

    Without nodes in the file, the size of the cluster is unknown: only quotas are checked, with a warning.
    Raises InvalidInput (workflow file), NotFound (pool), Refused (also for an inconsistent cluster file).
    """
    parsed = replace(read(submission), numbered=False)
    state = _declared(cluster)
    accepted = parsed.accepted(parsed.plan(state, now=0.0), cluster.backend_type or NOT_SAID)
    if cluster.nodes:
        return accepted
    unknown = "the cluster file lists no nodes, so only quotas were checked"
    return replace(accepted, warnings=(*accepted.warnings, unknown))


def blueprint(submission: Submission, cluster: ClusterSpec, namespace: str) -> Blueprint:
    """Like `Submissions.blueprint` on such a server, with the resource names of the file."""
    parsed = read(submission)
    plan = rendering.blueprint(
        _declared(cluster), parsed.spec.spec, pool=parsed.pool, priority=parsed.priority, namespace=namespace
    )
    return replace(plan, resource_names=cluster.resource_names)


def _declared(cluster: ClusterSpec) -> State:
    state = State(fixed_nodes=bool(cluster.nodes), topology=cluster.topology)
    state.apply_all(pools.declare(state, cluster).actions, at=0.0)
    state.apply_all([PutNode(node) for node in cluster.nodes], at=0.0)
    if not cluster.nodes:
        # Capacity beyond all quotas can be borrowed (rule Q8); if the nodes are unknown, it is unlimited.
        keys = {key for pool in cluster.pools for key in pool.quotas}
        keys |= {FlavorResource(flavor.name, GPU) for flavor in cluster.flavors}
        endless = Cohort(_UNPROMISED, quotas=dict.fromkeys(sorted(keys), Quota(LARGEST)))
        state.apply_all([PutCohort(endless)], at=0.0)
    return state
