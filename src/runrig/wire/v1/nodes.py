"""What is done to nodes."""

from pydantic import Field

from runrig.wire.base import Request, example
from runrig.wire.v1.plans import MOST_NODES


class NodeNames(Request):
    """*nodes*: all of them are changed, or none if one is not there."""

    model_config = example({"nodes": ["n00", "n01"]})

    nodes: list[str] = Field(min_length=1, max_length=MOST_NODES)


class NodesDrain(NodeNames):
    """*force*: HIGH and NORMAL work stops too, and is queued again."""

    model_config = example({"nodes": ["n00", "n01"], "force": False})

    force: bool = False
