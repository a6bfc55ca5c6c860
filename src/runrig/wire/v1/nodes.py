"""Commands for nodes."""

from pydantic import Field

from runrig.wire.base import Request, example
from runrig.wire.v1.plans import MOST_NODES


class NodeNames(Request):
    """*nodes*: if one does not exist, none is changed."""

    model_config = example({"nodes": ["n00", "n01"]})

    nodes: list[str] = Field(min_length=1, max_length=MOST_NODES)


class NodesDrain(NodeNames):
    """*force*: also stop and requeue HIGH and NORMAL workflows."""

    model_config = example({"nodes": ["n00", "n01"], "force": False})

    force: bool = False
