"""The route of the domains of the nodes."""

from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.osmo.answers import topology as as_answers
from runrig.api.permissions import Seeing, needs
from runrig.api.routing import Route, Serving, answers
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.service.queries.topology import MOST_HOLDERS, MapQuery, parse_size

router = APIRouter(route_class=Route, tags=["resources"])

_BOTH = "nodes stand below the finest level: leave level out"
_NO_SIZE = (
    "size '8by8' is no size of a gang: write its pods of one GPU, such as 64, or PODSxGPUS, such as 8x8, "
    "each at least 1 and at most 999999999"
)
SAID = {
    422: (
        _NO_SIZE,
        {"problems": [{"message": _NO_SIZE, "path": "size", "line": None, "column": None}]},
    )
}


OfPool = Annotated[str | None, Query(description="The nodes and keys of this pool; else one map per list of keys")]
OfSize = Annotated[
    str | None, Query(description="Of a gang: 64 is that many pods of one GPU, 8x8 is 8 pods of 8 GPUs each")
]
Level = Annotated[str | None, Query(description="The finest level to show, by its topology key")]
WithNodes = Annotated[bool, Query(description="Nodes below the finest level; without keys they are always there")]
Holders = Annotated[int, Query(ge=0, le=1000, description="How many gangs are named per domain")]


@router.get(
    "/api/topology",
    summary="Zones, spines, racks: what is free there, who holds the rest, how many gangs of a size fit",
    dependencies=[needs(Permission.READ_CLUSTER)],
    responses=answers(wire.TopologyAnswer, 404, said=SAID),
)
def topology(
    service: Serving,
    visibility: Seeing,
    pool: OfPool = None,
    size: OfSize = None,
    level: Level = None,
    nodes: WithNodes = False,
    holders: Holders = MOST_HOLDERS,
) -> wire.TopologyAnswer:
    if nodes and level is not None:
        raise InvalidInput.one(_BOTH, "nodes")
    wanted = None if size is None else parse_size(size)
    found = service.topology.maps(MapQuery(pool, wanted, level, nodes, holders), visibility)
    return as_answers.maps(found, wanted)
