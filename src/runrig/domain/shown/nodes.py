"""Nodes, the work on them, and the result of cordon and drain."""

from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.nodes import Flavor, Taint
from runrig.domain.shown.plans import PlanGang
from runrig.domain.value import Page, Shown, Tagged, example, shown_as


@dataclass(frozen=True, slots=True)
class GpuHolder(Shown):
    """The holder of a GPU. Both null: a workflow in a pool that you cannot see."""

    workflow: str | None
    task: str | None


shown_as(GpuHolder("train-1", "main"))


@dataclass(frozen=True, slots=True)
class Node(Tagged):
    """Amounts are in milli-cores, bytes and GPUs.  *gpus*: one entry per GPU, null if the GPU is free.

    *ready*: the node accepts new pods; it is not *cordoned* in runrig (rule N1), and the cluster reports it as ready.  *conditions*: Ready
    or NotReady, as in *ready*, and then at most one reason why it accepts no new pods: Cordoned (in runrig or on Kubernetes), NoFlavor
    (it matches no flavor, and *flavor* is empty) or Tainted (its flavor does not tolerate a taint).  *pools*: the number of pools that can
    use it.  *backend*: the backend that runs its tasks.
    """

    UNTOLD = ("etag", "pool_names", "allow")

    name: str
    backend: str
    ready: bool
    cordoned: bool
    conditions: tuple[str, ...]
    flavor: str
    resources: Mapping[str, int]
    free: Mapping[str, int]
    gpus: tuple[GpuHolder | None, ...]
    pools: int
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    pool_names: tuple[str, ...] = ()
    """The pools that can use it and that the user can see."""
    allow: tuple[str, ...] = ()
    """The options that its flavor allows: privileged, hostNetwork or volumeMounts."""


shown_as(
    Node(
        name="n00",
        backend="default",
        ready=True,
        cordoned=False,
        conditions=("Ready",),
        flavor="default",
        resources={"gpu": 2, "cpu": 96000, "memory": 1099511627776},
        free={"gpu": 1, "cpu": 92000, "memory": 1082331758592},
        gpus=(example(GpuHolder), None),
        pools=2,
        labels={"topology.kubernetes.io/rack": "r0"},
        taints=(),
    )
)


class NodePage(Page[Node]):
    """Sorted by name."""


@dataclass(frozen=True, slots=True)
class NodesMarked(Shown):
    """*changed*: the nodes that were cordoned or uncordoned, by name."""

    changed: tuple[str, ...]


shown_as(NodesMarked(("n00", "n01")))


@dataclass(frozen=True, slots=True)
class NodesDrained(Shown):
    """*changed*: the nodes that were cordoned. *stops*: gangs that stop and are requeued. *stays*: HIGH and NORMAL
    gangs that finish on the nodes.
    """

    changed: tuple[str, ...]
    stops: tuple[PlanGang, ...]
    stays: tuple[PlanGang, ...]


shown_as(NodesDrained(("n00", "n01"), (example(PlanGang),), ()))


class FlavorPage(Page[Flavor]):
    """In the order of the cluster file."""
