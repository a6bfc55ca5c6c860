"""Which nodes take new pods."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

_keys = itemgetter("key", "value", "effect")


def takes_pods(node: Mapping[str, Any], flavors: Mapping[str, Mapping[str, Any]]) -> bool:
    """Law N1 and the rules of *flavors*: it is ready and open, and its flavor tolerates its taints."""
    if not node["ready"] or node.get("cordoned"):
        return False
    tolerated = [_keys(each) for each in flavors.get(node["flavor"], {}).get("taints", ())]
    return all(each["effect"] == "PreferNoSchedule" or _keys(each) in tolerated for each in node["taints"])
