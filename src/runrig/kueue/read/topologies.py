"""Reads topology requests, in fields or annotations, and topology assignments."""

import json
from collections.abc import Iterator
from itertools import pairwise

from runrig.domain.quantities import counted
from runrig.kueue.declared import Placed, Slices, TopologyMode, TopologyRequest
from runrig.kueue.read.names import KUEUE
from runrig.kueue.read.tree import INT32, Object, Value

MOST_LAYERS = 3
GROUP = f"{KUEUE}/podset-group-name"

_REQUEST = (
    "required", "preferred", "unconstrained", "podSetSliceRequiredTopology", "podSetSliceSize",
    "podsetSliceRequiredTopologyConstraints", "podSetGroupName", "podIndexLabel", "subGroupIndexLabel", "subGroupCount",
)  # fmt: skip
_LAYERS = ("podsetSliceRequiredTopologyConstraints", "podSetSliceRequiredTopologyConstraints")
_ANNOTATION = f"{KUEUE}/podset-"
_SEVERAL = "use only one of required, preferred and unconstrained: this one is ignored"


def read_request(fields: Object) -> TopologyRequest | None:
    """Reads a pod set's topologyRequest; None if it requests nothing."""
    fields.only((*_REQUEST, _LAYERS[1]))
    layers = fields.either(*_LAYERS) if fields.has(_LAYERS[1]) else fields.get(_LAYERS[0])
    slices = list(_layers(layers)) if layers else _one_layer(fields, "podSetSliceRequiredTopology", "podSetSliceSize")
    return _request(
        fields.get("required"), fields.get("preferred"), fields.get("unconstrained"), tuple(slices), fields.at
    )


def read_annotations(fields: Object) -> TopologyRequest | None:
    """Reads a topology request from the annotations of a pod template, or None."""
    found = {name: fields.get(f"{_ANNOTATION}{name}") for name in ("required-topology", "preferred-topology")}
    free = fields.get(f"{_ANNOTATION}unconstrained-topology")
    layers = fields.get(f"{_ANNOTATION}slice-required-topology-constraints")
    if layers is not None:
        slices = list(_written_layers(layers))
    else:
        slices = _one_layer(fields, f"{_ANNOTATION}slice-required-topology", f"{_ANNOTATION}slice-size")
    return _request(found["required-topology"], found["preferred-topology"], free, tuple(slices), fields.at)


def _request(
    required: Value | None, preferred: Value | None, free: Value | None, slices: tuple[Slices, ...], at: Value
) -> TopologyRequest | None:
    if free is not None and not _flag(free):
        free = None
    said = [
        (near, each)
        for near, each in (
            (TopologyMode.REQUIRED, required),
            (TopologyMode.PREFERRED, preferred),
            (TopologyMode.UNCONSTRAINED, free),
        )
        if each is not None
    ]
    for _, each in said[1:]:
        each.warn(_SEVERAL)
    _check_layers(slices, at)
    if not said:
        return TopologyRequest(TopologyMode.SLICES, slices=slices) if slices else None
    near, first = said[0]
    return TopologyRequest(near, "" if near is TopologyMode.UNCONSTRAINED else first.text(), slices)


def _flag(at: Value) -> bool:
    """A boolean in a field, or text in an annotation."""
    return at.text() == "true" if isinstance(at.node.value, str) else at.flag()


def _one_layer(fields: Object, level: str, size: str) -> list[Slices]:
    named, number = fields.get(level), fields.get(size)
    if named is None:
        return []
    if number is None:
        named.warn("slices without a size: this pod set is never placed, unless it leads a group")
        return [Slices(named.text(), 0)]
    return [Slices(named.text(), _size(number))]


def _size(at: Value) -> int:
    """A number in a field, or text in an annotation; 0, with a warning, if it is invalid."""
    if not isinstance(at.node.value, str):
        return at.whole(1)
    text = at.node.value
    if text.isascii() and text.isdigit() and 1 <= len(text) <= 10 and 1 <= int(text) <= INT32:
        return int(text)
    at.warn("not a whole number from 1: this pod set is never placed")
    return 0


def _layers(at: Value) -> Iterator[Slices]:
    for fields in (each.object() for each in at.items()):
        fields.only(("topology", "size"))
        yield Slices(fields.need("topology"), fields.whole("size", 0, 1))


def _written_layers(at: Value) -> Iterator[Slices]:
    """Yields layers of slices from JSON in an annotation."""
    try:
        found = json.loads(at.text())
        layers = [(each["topology"], each["size"]) for each in found]
    except (ValueError, TypeError, KeyError, RecursionError):
        layers = [("", "")]
    for level, size in layers:
        if not isinstance(level, str) or type(size) is not int or not 1 <= size <= INT32:
            at.warn('not a list such as [{"topology": "rack", "size": 4}]: this pod set is never placed')
            yield Slices("", 0)
            return
        yield Slices(level, size)


def _check_layers(slices: tuple[Slices, ...], at: Value) -> None:
    if len(slices) > MOST_LAYERS:
        at.warn(f"{len(slices)} layers of slices: Kueue accepts up to {MOST_LAYERS}")
    for outer, inner in pairwise(slices):
        if inner.size and outer.size % inner.size:
            at.warn(f"slices of {inner.size} do not divide slices of {outer.size}: this pod set is never placed")


def check_count(request: TopologyRequest | None, count: int, at: Value) -> None:
    """Warns if *count* is not a multiple of the slice size."""
    size = request.slices[0].size if request is not None and request.slices else 0
    if size and count % size:
        at.warn(
            f"{counted(count, 'pod is', 'pods are')} not a multiple of the slice size {size}: this pod set is never placed"
        )


# ---------------------------------------------------------------- assignments


def read_assignment(at: Value) -> tuple[Placed, ...]:
    """Reads the domains of an assignment: a list (v1beta1), or slices of values with a common prefix and suffix
    (v1beta2).
    """
    fields = at.object().only(("levels", "domains", "slices"))
    depth = len(fields.texts("levels"))
    found: list[Placed] = []
    for domain in fields.objects("domains", ("values", "count")):
        found.append(Placed(domain.texts("values"), domain.whole("count", 1)))
    for each in fields.objects("slices"):
        found += _unfolded(each)
    wrong = next((each for each in found if len(each.domain) != depth), None)
    if wrong is not None or not depth:
        at.warn("ignored: its domains do not have one value for each level, so it uses no nodes")
        return ()
    return tuple(sorted(found, key=lambda each: each.domain))


def _unfolded(fields: Object) -> list[Placed]:
    fields.only(("domainCount", "valuesPerLevel", "podCounts"))
    size = fields.whole("domainCount", 1, 1, 100_000)
    levels = [_values(each, size) for each in fields.objects("valuesPerLevel")]
    counts = fields.object("podCounts").only(("universal", "individual"))
    same = counts.get("universal")
    pods = [same.whole()] * size if same else [each.whole() for each in counts.items("individual")]
    if len(pods) != size or any(len(each) != size for each in levels):
        fields.at.warn(f"ignored: it declares {counted(size, 'domain')} but lists another number of values or counts")
        return []
    return [Placed(tuple(each[at] for each in levels), count) for at, count in enumerate(pods)]


def _values(fields: Object, size: int) -> list[str]:
    fields.only(("universal", "individual"))
    same = fields.get("universal")
    if same is not None:
        return [same.text()] * size
    each = fields.object("individual").only(("prefix", "suffix", "roots"))
    prefix, suffix = each.text("prefix"), each.text("suffix")
    return [f"{prefix}{root}{suffix}" for root in each.texts("roots")]
