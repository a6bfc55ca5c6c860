"""Nodes of our own door."""

from typing import Any

from pydantic import Field

from runrig.domain.shown.plans import PlanGang
from runrig.wire.base import Request, example, example_of
from runrig.wire.v1.base import Page, Shown, Tagged
from runrig.wire.v1.plans import MOST_NODES


class GpuHolder(Shown):
    """Who holds a GPU; both null: work of a pool that you do not see."""

    model_config = example({"workflow": "train-1", "task": "main"})

    workflow: str | None
    task: str | None


_NODE: dict[str, Any] = {
    "name": "n00",
    "backend": "default",
    "ready": True,
    "cordoned": False,
    "conditions": ["Ready"],
    "flavor": "default",
    "resources": {"gpu": 2, "cpu": 96000, "memory": 1099511627776},
    "free": {"gpu": 1, "cpu": 92000, "memory": 1082331758592},
    "gpus": [GpuHolder.example(), None],
    "pools": 2,
    "labels": {"topology.kubernetes.io/rack": "r0"},
    "taints": [],
}


class Node(Tagged):
    """Amounts in milli-cores, bytes and GPUs.  *gpus*: one entry per GPU, null where it is free.

    *ready*: whether it takes new pods, by the cluster and by runrig's own mark, *cordoned* (law N1).  *conditions*: Ready or NotReady,
    as *ready*; behind it Cordoned (here or on Kubernetes), NoFlavor (it matches none; *flavor* is empty then) or Tainted (by what its
    flavor does not name): it takes no new pods either.  *pools*: how many may use it: those whose flavors have its *flavor*, or that
    have none.  *backend*: who runs the tasks there.
    """

    model_config = example(_NODE)

    name: str
    backend: str
    ready: bool
    cordoned: bool
    conditions: list[str]
    flavor: str
    resources: dict[str, int]
    free: dict[str, int]
    gpus: list[GpuHolder | None]
    pools: int
    labels: dict[str, str]
    taints: list[dict[str, str]]


class NodePage(Page):
    """Nodes by name."""

    model_config = example({"items": [_NODE], "next_cursor": None})

    items: list[Node]


class NodeNames(Request):
    """*nodes*: all of them are changed, or none if one is not there."""

    model_config = example({"nodes": ["n00", "n01"]})

    nodes: list[str] = Field(min_length=1, max_length=MOST_NODES)


class NodesDrain(NodeNames):
    """*force*: HIGH and NORMAL work stops too, and is queued again."""

    model_config = example({"nodes": ["n00", "n01"], "force": False})

    force: bool = False


class NodesMarked(Shown):
    """*changed*: the nodes whose mark is another now, by name."""

    model_config = example({"changed": ["n00", "n01"]})

    changed: list[str]


class NodesDrained(NodesMarked):
    """*stops*: what was told to stop, to be queued again.  *stays*: HIGH and NORMAL work that goes on there to its end."""

    model_config = example({"changed": ["n00", "n01"], "stops": [example_of(PlanGang)], "stays": []})

    stops: tuple[PlanGang, ...]
    stays: tuple[PlanGang, ...]


class Flavor(Shown):
    """A kind of node.  *node_labels*: by which a node is of it.  *taints*: that its tasks tolerate.  *allow*: privileged, hostNetwork and
    volumeMounts are refused unless they stand here."""

    model_config = example(
        {
            "name": "h100",
            "node_labels": {"gpu": "h100"},
            "taints": [{"key": "gpu", "value": "h100", "effect": "NoSchedule"}],
            "allow": ["hostNetwork"],
        }
    )

    name: str
    node_labels: dict[str, str]
    taints: list[dict[str, str]]
    allow: list[str]


class FlavorPage(Page):
    """In the order of the cluster file."""

    model_config = example({"items": [Flavor.example()], "next_cursor": None})

    items: list[Flavor]
