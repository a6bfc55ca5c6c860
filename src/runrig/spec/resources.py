"""`resources` of a workflow file: named amounts that a pod requests, and its topology requirements."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runrig.domain.gangs import Requirement
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE, Requests, counted, requests_of
from runrig.domain.workflows import TaskSpec
from runrig.spec.fields import Field, Fields, each, repeated
from runrig.spec.values import parse_size

_KNOWN = (CPU, GPU, MEMORY, STORAGE, "platform", "nodesExcluded", "topology")
_TOPOLOGY = ("key", "group", "requirementType", "sliceSize")
_REQUIREMENTS = {"required": True, "preferred": False}
DEFAULT_TOPOLOGY_GROUP = "default"
LONGEST_GROUP = 128
LARGEST_SLICE = 10_000
_GROUP = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_MOST_CPUS = 1_000_000
_MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class Resource:
    requests: Requests = ()
    platform: str | None = None
    topology: tuple[Requirement, ...] = ()


def read_resources(field: Field) -> Mapping[str, Resource]:
    """Returns resources by name, including invalid ones, so that tasks that use them are not reported too."""
    return {name: _resource(item) for name, item in field.entries()}


def _resource(field: Field) -> Resource:
    if field.node.value is None:
        return Resource()
    fields = field.fields("a resource", _KNOWN)
    fields.refuse({"nodesExcluded": "excluding nodes is not supported yet. Use a platform instead."})
    cpus, gpus = fields[CPU].whole(most=_MOST_CPUS), fields[GPU].whole(most=_MOST_GPUS)
    amounts = {
        CPU: (cpus or 0) * 1000,
        GPU: gpus or 0,
        MEMORY: fields[MEMORY].parsed(parse_size) or 0,
        STORAGE: fields[STORAGE].parsed(parse_size) or 0,
    }
    return Resource(requests_of(amounts), fields["platform"].text(), _topology(fields))


def _topology(fields: Fields) -> tuple[Requirement, ...]:
    """Returns requirements in file order, which has no meaning. The gate checks that the pool has the keys (rule T6)."""
    found, keys, sizes = [], [], []
    for inner, (key,) in each(fields["topology"].items(), "a topology requirement", _TOPOLOGY, {"key": "key: rack"}):
        required = inner["requirementType"].choice(_REQUIREMENTS)
        size = inner["sliceSize"]
        pods = size.whole(1, LARGEST_SLICE)
        found.append(Requirement(key.text() or "", _group(inner), required is not False, pods))
        keys.append((found[-1].key, key))
        if pods:
            sizes.append((pods, found[-1].key, size))
    repeated(keys, "the topology key")
    _check_sizes(sizes)
    return tuple(found)


def _check_sizes(sizes: Sequence[tuple[int, str, Field]]) -> None:
    """Reports slice sizes of two levels that cannot nest, whichever level is finer."""
    for (small, key, _), (large, _, field) in pairwise(sorted(sizes, key=lambda size: size[0])):
        if large % small:
            field.wrong(
                f"slices of {counted(large, 'pod')} cannot be cut into those of {small} that {key!r} has: {small} must divide it"
            )


def _group(fields: Fields) -> str:
    rule = "must be letters, digits, '-' and '_', and start and end with a letter or digit"
    name = fields["group"].matching(_GROUP, rule, LONGEST_GROUP)
    return DEFAULT_TOPOLOGY_GROUP if name is None else name


# ---------------------------------------------------------------- slices, once their task group is known


def check_slices_of_task(fields: Fields, topology: Sequence[Requirement]) -> None:
    """Reports a task without `count` that uses a resource with slices."""
    sizes = [(each.slice_size, each.key) for each in topology if each.slice_size is not None]
    if sizes and not fields["count"]:
        (fields["resource"] or fields.field).wrong(
            f"has slices of {counted(sizes[0][0], 'pod')} for topology key {sizes[0][1]!r}, but a task without count is a single "
            "pod. Set count, or name a resource without sliceSize"
        )


def check_slices_of_group(tasks: Sequence[tuple[TaskSpec, Field]]) -> None:
    """Reports each task that shares a group with slices.

    Only if all of its groups are the same. Otherwise the order of the pool's keys matters, and the gate decides.
    """
    first: dict[frozenset[tuple[str, str]], TaskSpec] = {}
    for task, field in tasks:
        other = first.setdefault(frozenset((asked.key, asked.group) for asked in task.topology), task)
        sliced = next((asked for asked in (*other.topology, *task.topology) if asked.slice_size is not None), None)
        if other is not task and sliced is not None:
            field.wrong(
                f"{task.name!r} and {other.name!r} share group {sliced.group!r} of topology key {sliced.key!r}, and a group with "
                "slices has one task: name a resource with another group"
            )
