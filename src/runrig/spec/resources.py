"""The `resources` of a workflow file: named amounts that a pod asks for, and what it shall lie near to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE, Requests, requests_of
from runrig.domain.workflows import Requirement
from runrig.spec.fields import Field, Fields, repeated
from runrig.spec.values import parse_size

_KNOWN = (CPU, GPU, MEMORY, STORAGE, "platform", "nodesExcluded", "topology")
_TOPOLOGY = ("key", "group", "requirementType")
_REQUIREMENTS = {"required": True, "preferred": False}
DEFAULT_TOPOLOGY_GROUP = "default"
LONGEST_GROUP = 128
_GROUP = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_MOST_CPUS = 1_000_000
_MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class Resource:
    requests: Requests = ()
    platform: str | None = None
    topology: tuple[Requirement, ...] = ()


def read_resources(field: Field) -> Mapping[str, Resource]:
    """Resources by name.  A broken one is there all the same, so that the tasks that use it are not reported too."""
    return {name: _resource(item) for name, item in field.entries()}


def _resource(field: Field) -> Resource:
    if field.node.value is None:
        return Resource()
    fields = field.fields("a resource", _KNOWN)
    if fields is None:
        return Resource()
    fields.refuse({"nodesExcluded": "leaving out nodes is not supported yet: choose a platform instead"})
    cpus = fields.whole(CPU, most=_MOST_CPUS)
    amounts = {
        CPU: (cpus or 0) * 1000,
        GPU: _gpus(fields),
        MEMORY: _size(fields, MEMORY),
        STORAGE: _size(fields, STORAGE),
    }
    return Resource(requests_of(amounts), fields.text("platform"), _topology(fields))


def _gpus(fields: Fields) -> int:
    """Zero is refused: it is more often a slip than a wish, and a task that wants none leaves the line out."""
    found = fields.get(GPU)
    amount = found.whole(most=_MOST_GPUS) if found else None
    if found and amount == 0:
        found.wrong("0 GPUs cannot be asked for: at least 1, or leave gpu out for a task that needs none")
    return amount or 0


def _size(fields: Fields, name: str) -> int:
    found = fields.get(name)
    return (found.parsed(parse_size) if found else None) or 0


def _topology(fields: Fields) -> tuple[Requirement, ...]:
    """In the order of the file, which means nothing.  Whether the pool has the keys is asked at the gate (law T6)."""
    found, keys = [], []
    for item in fields.items("topology"):
        inner = item.fields("a topology requirement", _TOPOLOGY)
        key = inner.need("key", "key: rack") if inner else None
        if inner is None or key is None:
            continue
        kind = inner.get("requirementType")
        required = kind.choice(_REQUIREMENTS) if kind else True
        found.append(Requirement(key.text() or "", _group(inner), required is not False))
        keys.append((found[-1].key, key))
    repeated(keys, "the topology key")
    return tuple(found)


def _group(fields: Fields) -> str:
    field = fields.get("group")
    name = field.text() if field else None
    if field is None or name is None:
        return DEFAULT_TOPOLOGY_GROUP
    if len(name) > LONGEST_GROUP:
        field.wrong(f"{name[:20]!r}... has {len(name)} characters: at most {LONGEST_GROUP}")
    elif not _GROUP.fullmatch(name):
        field.wrong(f"{name!r} must be letters, digits, '-' and '_', and start and end with a letter or digit")
    return name
