"""The `nodes` and `flavors` of a cluster file."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

from runrig.domain.nodes import DEFAULT_FLAVOR, MOST_GPUS, NO_SCHEDULE, TAINT_EFFECTS, Flavor, Node, Taint
from runrig.domain.quantities import GPU, few, parse_quantity
from runrig.spec.fields import Field, Fields, each, repeated
from runrig.spec.patterns import expand_range, parse_pattern

MOST_NODES = 100_000
ALLOWABLE = ("privileged", "hostNetwork", "volumeMounts")

_NODE = ("name", "resources", "labels", "taints", "cordoned")
_FLAVOR = ("name", "node_labels", "taints", "allow")
_TAINT = ("key", "value", "effect")
_EFFECTS = {name: name for name in TAINT_EFFECTS}
_NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_FLAVOR_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_RESOURCE_NAME = re.compile(r"[a-z][a-z0-9_./-]{0,62}")


def read_flavors(fields: Fields) -> tuple[Flavor, ...]:
    """Returns the declared flavors; if there are none, a flavor `default` that matches every node."""
    found: list[Flavor] = []
    names = []
    for inner, (name,) in each(fields["flavors"].items(), "a flavor", _FLAVOR, {"name": "name: h100"}):
        text = name.matching(_FLAVOR_NAME, "must be lower-case letters, digits, '-' and '.', at most 63")
        if text is None:
            continue
        names.append((text, name))
        labels = {key: _label(value) for key, value in inner["node_labels"].entries()}
        found.append(Flavor(text, labels, _taints(inner), _allow(inner), position=len(found)))
    repeated(names, "flavor")
    return tuple(found) or (Flavor(DEFAULT_FLAVOR),)


def _allow(fields: Fields) -> tuple[str, ...]:
    options = {name: name for name in ALLOWABLE}
    return tuple(name for item in fields["allow"].items() if (name := item.choice(options)))


def _taints(fields: Fields) -> tuple[Taint, ...]:
    taints = []
    for inner, (key,) in each(fields["taints"].items(), "a taint", _TAINT, {"key": "key: reserved"}):
        effect = inner["effect"].choice(_EFFECTS) or NO_SCHEDULE
        taints.append(Taint(key.text() or "", _label(inner["value"]), effect))
    return tuple(taints)


def _label(field: Field) -> str:
    """Returns the text; numbers, true and false as written."""
    if isinstance(field.node.value, str | int | float):
        return field.node.text
    field.expected("text")
    return ""


# ---------------------------------------------------------------- nodes


def read_nodes(fields: Fields, flavors: Sequence[Flavor]) -> tuple[Node, ...]:
    """Returns all nodes, patterns expanded, each with its only matching flavor. O(nodes × flavors)."""
    nodes: list[Node] = []
    seen: dict[str, Field] = {}
    for inner, (name,) in each(fields["nodes"].items(), "a node", _NODE, {"name": 'name: "n{00..15}"'}):
        names = name.parsed(expand_range)
        if names is None:
            continue
        if len(nodes) + len(names) > MOST_NODES:
            name.wrong(f"too many nodes (maximum {MOST_NODES:,})")
            break
        _check_names(name, names, seen)
        nodes.extend(_nodes(inner, names, flavors))
    return tuple(nodes)


def _check_names(field: Field, names: Sequence[tuple[str, int | None]], seen: dict[str, Field]) -> None:
    """Reports the first name of a pattern that is invalid or a duplicate."""
    if not _NODE_NAME.fullmatch(names[0][0]):
        field.wrong(
            f"{names[0][0]!r} must be letters, digits, '-', '_' and '.', and start and end with a letter or digit"
        )
        return
    taken = next((name for name, _ in names if name in seen), None)
    if taken is not None:
        place = seen[taken].node.place
        field.wrong(f"node {taken!r} is defined twice; first on line {place.line if place else '?'}")
    seen.update(dict.fromkeys((name for name, _ in names), field))


def _nodes(fields: Fields, names: Sequence[tuple[str, int | None]], flavors: Sequence[Flavor]) -> list[Node]:
    resources = _amounts(fields)
    labels = _labels(fields, [0 if n is None else n for _, n in names], numbered=names[0][1] is not None)
    taints = _taints(fields)
    ready = not fields["cordoned"].flag(False)
    if labels is None:
        return []
    nodes = [
        Node(name, resources, labels=own, taints=taints, ready=ready)
        for (name, _), own in zip(names, labels, strict=True)
    ]
    return _sorted_into(fields.field, nodes, flavors)


def _amounts(fields: Fields) -> Mapping[str, int]:
    amounts = {}
    for name, item in fields.need("resources", "resources: {gpu: 8}").entries():
        if not _RESOURCE_NAME.fullmatch(name):
            item.wrong(f"{name!r} is not a resource name. Use lower-case letters, digits, '.', '/', '-' and '_'.")
        amounts[name] = item.parsed(partial(parse_quantity, name)) or 0
        if name == GPU and amounts[name] > MOST_GPUS:
            item.wrong(f"too many GPUs on one node ({amounts[name]:,}, maximum {MOST_GPUS:,})")
    return amounts


def _labels(fields: Fields, numbers: Sequence[int], *, numbered: bool) -> list[dict[str, str]] | None:
    """Returns the labels of each node, in order; None if one is invalid."""
    whole = True
    result: list[dict[str, str]] = [{} for _ in numbers]
    for key, item in fields["labels"].entries():
        text = _label(item)
        try:
            pattern = parse_pattern(text)
            if pattern.needs_n and not numbered:
                raise ValueError(f"{text!r} needs n. Give the name a range, such as n{{00..15}}")
            for labels, n in zip(result, numbers, strict=True):
                labels[key] = pattern.at(n)
        except ValueError as error:
            item.wrong(str(error))
            whole = False
    return result if whole else None


def _sorted_into(field: Field, nodes: Sequence[Node], flavors: Sequence[Flavor]) -> list[Node]:
    """Returns the nodes with their flavors. Reports only the first node of a pattern that does not match exactly one."""
    result: list[Node] = []
    for node in nodes:
        matching = [flavor.name for flavor in flavors if flavor.matches(node)]
        if len(matching) != 1:
            which = (
                f"the flavors {few(matching)}" if matching else f"none of the flavors {few([f.name for f in flavors])}"
            )
            field.wrong(f"node {node.name!r} matches {which} by its labels. Each node must match exactly one.")
            return result
        result.append(Node(node.name, node.resources, matching[0], node.labels, node.taints, node.ready))
    return result
