"""The capacity of a node for runrig: what it can give to pods, minus what other pods request.

Pure and exact: adds amounts as the cluster writes them, and rounds only the result, down.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from operator import add

from lightkube.utils.quantity import parse_quantity

from runrig.backends.kubernetes.names import NODE_POOL, Object, condition, finished
from runrig.domain.nodes import REPELLING_EFFECTS, Node, Taint
from runrig.domain.quantities import CPU, PODS, UNLISTED_IS_UNCOUNTED

_Amounts = Mapping[str, Decimal]


def node_of(node: Object, foreign: Iterable[Object], names: Mapping[str, str]) -> Node:
    """*foreign*: pods on it that are not runrig's. *names*: runrig's name of a resource → the cluster's; others are the
    same.

    The caller finds the flavor.
    """
    lively = [pod for pod in foreign if not finished(pod)]
    has = _amounts(node.get("status", {}).get("allocatable"))
    taken = _sum(({PODS: Decimal(len(lively))}, *(requests_of(pod) for pod in lively)))
    metadata, spec = node["metadata"], node.get("spec", {})
    ours = {theirs: our for our, theirs in sorted(names.items())}
    # A resource that a node does not list is 0; only in cluster files does a missing one mean unlimited.
    resources = dict.fromkeys(UNLISTED_IS_UNCOUNTED, 0) | {
        ours.get(name, name): _units(ours.get(name, name), amount - taken.get(name, Decimal(0)))
        for name, amount in sorted(has.items())
        if amount or ours.get(name, name) in UNLISTED_IS_UNCOUNTED
    }
    return Node(
        name=metadata["name"],
        resources=dict(sorted(resources.items())),
        labels=dict(metadata.get("labels") or {}),
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each["effect"])
            for each in spec.get("taints") or ()
            if each["effect"] in REPELLING_EFFECTS
        ),
        ready=_ready(node),
    )


def requests_of(pod: Object) -> dict[str, Decimal]:
    """Returns the requests that a scheduler counts for *pod*: its maximum at any time, from the first init container to its end."""
    spec = pod["spec"]
    sidecars: dict[str, Decimal] = {}
    steps = []
    for each in spec.get("initContainers") or ():
        asked = _amounts(each.get("resources", {}).get("requests"))
        if each.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            steps.append(sidecars)
        else:
            steps.append(_sum((sidecars, asked)))
    containers = [_amounts(each.get("resources", {}).get("requests")) for each in spec.get("containers") or ()]
    whole = _most([_sum([sidecars, *containers]), *steps])
    whole |= _amounts((spec.get("resources") or {}).get("requests"))  # For the whole pod: overrides those of its parts.
    return _sum((whole, _amounts(spec.get("overhead"))))


def _ready(node: Object) -> bool:
    says = condition(node, "Ready").get("status") == "True"
    away = NODE_POOL in (node["metadata"].get("labels") or {})  # KAI's default shard ignores such a node.
    return (
        says
        and not away
        and not node.get("spec", {}).get("unschedulable")
        and "deletionTimestamp" not in node["metadata"]
    )


def _units(resource: str, amount: Decimal) -> int:
    """Returns *amount* in runrig's unit, at least 0: after a device failure, others can use more than exists."""
    scaled = amount * 1000 if resource == CPU else amount
    return max(0, int(scaled.to_integral_value(ROUND_FLOOR)))


def _amounts(told: Mapping[str, str | int] | None) -> dict[str, Decimal]:
    return {name: parse_quantity(str(value)) or Decimal(0) for name, value in (told or {}).items()}


def _merged(how: Callable[[Decimal, Decimal], Decimal], parts: Iterable[_Amounts]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = how(found.get(name, Decimal(0)), amount)
    return found


_sum, _most = partial(_merged, add), partial(_merged, max)
