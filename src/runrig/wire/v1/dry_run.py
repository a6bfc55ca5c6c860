"""What the next cycle would do with a submission."""

from runrig.wire.base import example
from runrig.wire.v1.base import Shown
from runrig.wire.why import ReasonAnswer


class GroupDryRun(Shown):
    """*nodes*: where it would start, by name; *stops*: the gangs that would have to stop for it; *reasons*: why it would wait."""

    model_config = example(
        {"group": "main-group", "verdict": "STARTS", "nodes": ["node-1"], "stops": [], "reasons": []}
    )

    group: str
    verdict: str
    nodes: list[str]
    stops: list[str]
    reasons: list[ReasonAnswer]


class WorkflowDryRun(Shown):
    """What the next cycle would do.  *verdict*: STARTS, STARTS_AFTER_STOPS, WAITS or NOT_PROVEN, the gravest of its groups';
    *sentence* tells it.  Groups that wait for others of the workflow are left out."""

    model_config = example(
        {"verdict": "STARTS", "sentence": "would start now on node-1", "groups": [GroupDryRun.example()]}
    )

    verdict: str
    sentence: str
    groups: list[GroupDryRun]
