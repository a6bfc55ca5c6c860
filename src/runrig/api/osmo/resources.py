"""Routes of nodes."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.shown.nodes import Node
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Serving
from runrig.osmo.nodes import resource
from runrig.osmo.shape import Shape
from runrig.wire.json import to_plain

LONGEST_PAGE = 1000

router = Router("resources")


@router("GET /api/resources", needs(Permission.READ_CLUSTER), shows=models.ResourcesAnswer, errors=(404,))
def list_resources(
    service: Serving,
    visibility: Seeing,
    pools: Annotated[list[str], Query(description="Only nodes available to these pools, and only their rows")] = [],  # noqa: B006
    platforms: Annotated[list[str], Query(description="Only nodes of these flavors")] = [],  # noqa: B006
    all_pools: Annotated[bool, Query(description="Nodes of all pools; overrides `pools`")] = False,
    limit: Annotated[int | None, Query(ge=1, le=LONGEST_PAGE, description="Default: all, as a stream")] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> StreamingResponse:
    """List nodes with their resources and usage."""
    views, more = service.queries.nodes(
        pools=() if all_pools else pools, platforms=platforms, visibility=visibility, limit=limit, offset=offset
    )
    return StreamingResponse(streamed(views, more=more), media_type="application/json")


_BY_POOL = ("platform_allocatable_fields", "pool_platform_labels", "config_fields")
"""Fields with the same value for each pool that can use a node."""
_NODES_AT_ONCE = 50
"""About 10 MB with a thousand pools."""


def streamed(nodes: Sequence[Node], *, more: bool) -> Iterator[bytes]:
    """Yields `models.ResourcesAnswer` as JSON, in parts.

    Each node lists its pools three times, which can be most of the response. Nodes with the same pools share the text.
    """
    texts: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}
    for start in range(0, len(nodes), _NODES_AT_ONCE):
        part = (_resource(node, texts) for node in nodes[start : start + _NODES_AT_ONCE])
        yield (b"," if start else b'{"resources":[') + b",".join(part)
    yield (b"" if nodes else b'{"resources":[') + b'],"more_entries":' + (b"true}" if more else b"false}")


def _resource(node: Node, texts: dict[tuple[Any, ...], tuple[bytes, bytes]]) -> bytes:
    plain = to_plain(node)
    key = (node.flavor, node.pool_names, *sorted(node.resources.items()))
    if key not in texts:
        whole = resource(plain, node.pool_names, node.allow)
        by_pool = to_json({name: whole[name] for name in _BY_POOL})[1:-1]
        texts[key] = to_json(whole["exposed_fields"]["pool/platform"]), by_pool
    platforms, by_pool = texts[key]
    alone = resource(plain, (), node.allow)
    exposed = alone.pop("exposed_fields")
    del exposed["pool/platform"]
    own = to_json({name: each for name, each in alone.items() if name not in _BY_POOL})[1:-1]
    return b'{%b,"exposed_fields":%b,"pool/platform":%b},%b}' % (own, to_json(exposed)[:-1], platforms, by_pool)


@router("GET /api/resources/{name}", needs(Permission.READ_CLUSTER), shows=models.ResourcesAnswer)
def show_resource(service: Serving, visibility: Seeing, name: str) -> Shape:
    """Show a node."""
    node = service.queries.node(name, visibility)
    return {"resources": [resource(to_plain(node), node.pool_names, node.allow)], "more_entries": False}
