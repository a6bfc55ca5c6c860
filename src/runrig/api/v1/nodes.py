"""Nodes and their topology domains."""

from typing import Annotated

from fastapi import Query

from runrig.api.routes import Router
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cursor_of, cut, place_of
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.shown.nodes import FlavorPage, Node, NodePage, NodesDrained, NodesMarked
from runrig.domain.shown.topology import TopologyAnswer
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Serving, User
from runrig.service.queries.topology import MOST_HOLDERS, MapQuery, parse_size
from runrig.wire import v1

router = Router("nodes")


_BOTH = "nodes are listed only below the finest level. Omit level"
_NO_SIZE = "invalid size '8by8'. Use a number of 1-GPU pods (64) or PODSxGPUS (8x8), each from 1 to 999999999"
_SAID = {
    422: (
        _NO_SIZE,
        {"problems": [{"message": _NO_SIZE, "path": "size", "line": None, "column": None}]},
    )
}

_READ = needs(Permission.READ_CLUSTER)


@router("GET /api/v1/nodes", _READ, errors=(404,))
def list_nodes(
    service: Serving,
    visibility: Seeing,
    pool: Annotated[list[str], Query(description="Only nodes available to these pools")] = [],  # noqa: B006
    flavor: Annotated[list[str], Query(description="Only nodes of these flavors")] = [],  # noqa: B006
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = None,
) -> NodePage:
    """List nodes by name, with their resources and usage."""
    after = place_of(cursor, str)
    found, more = service.queries.nodes(
        pools=pool, platforms=flavor, visibility=visibility, limit=limit, after=after[0] if after else ""
    )
    return NodePage(cursor_of((found[-1].name,)) if more else None, found)


@router("GET /api/v1/nodes/{name}", _READ, tag=True)
def get_node(service: Serving, visibility: Seeing, name: str) -> Node:
    """Show a node.

    The ETag depends on the node's data in the cluster, not on its usage.
    """
    return service.queries.node(name, visibility)


@router("POST /api/v1/nodes:cordon", needs(Permission.CHANGE_CLUSTER, to_nodes="cordon"), errors=(404,))
def cordon_nodes(service: Serving, user: User, body: v1.NodeNames) -> NodesMarked:
    """Cordon nodes: no new pods; running pods stay.

    runrig keeps the cordon itself, so it needs no permission on the cluster. It lasts until the node is uncordoned
    or removed.
    """
    return service.nodes.cordon(body.nodes, user=user, cordoned=True)


@router("POST /api/v1/nodes:uncordon", needs(Permission.CHANGE_CLUSTER, to_nodes="uncordon"), errors=(404,))
def uncordon_nodes(service: Serving, user: User, body: v1.NodeNames) -> NodesMarked:
    """Uncordon nodes that were cordoned through runrig."""
    return service.nodes.cordon(body.nodes, user=user, cordoned=False)


@router("POST /api/v1/nodes:drain", needs(Permission.CHANGE_CLUSTER, to_nodes="drain"), errors=(404,))
def drain_nodes(service: Serving, user: User, body: v1.NodesDrain) -> NodesDrained:
    """Cordon nodes, and stop and requeue their LOW workflows.

    `POST /api/v1/plan` with *drain* previews the effect.
    """
    return service.nodes.drain(body.nodes, user=user, force=body.force)


@router("GET /api/v1/flavors", _READ)
def list_flavors(service: Serving, limit: Limit = USUAL_PAGE, cursor: Cursor = None) -> FlavorPage:
    """List flavors in the order of the cluster file."""
    page, following = cut(tuple(enumerate(service.queries.flavors())), lambda each: (each[0],), limit, cursor, int)
    return FlavorPage(following, tuple(flavor for _, flavor in page))


@router("GET /api/v1/topology", _READ, errors=(404,), said=_SAID)
def get_topology(
    service: Serving,
    visibility: Seeing,
    pool: Annotated[
        str | None,
        Query(description="Use the nodes and topology keys of this pool. Default: one map per list of topology keys"),
    ] = None,
    size: Annotated[
        str | None, Query(description="Size of a gang: 64 means 64 pods of 1 GPU, 8x8 means 8 pods of 8 GPUs")
    ] = None,
    level: Annotated[str | None, Query(description="Finest level to show, as a topology key")] = None,
    nodes: Annotated[
        bool, Query(description="Also list nodes below the finest level (always listed if there are no topology keys)")
    ] = False,
    holders: Annotated[
        int, Query(ge=0, le=1000, description="Maximum number of gangs to name per domain")
    ] = MOST_HOLDERS,
) -> TopologyAnswer:
    """Show free capacity, usage and how many gangs of a size fit, by zone, spine and rack."""
    if nodes and level is not None:
        raise InvalidInput.one(_BOTH, "nodes")
    wanted = None if size is None else parse_size(size)
    return service.topology.maps(MapQuery(pool, wanted, level, nodes, holders), visibility)
