"""The `resources` of a workflow file: named amounts that a pod asks for."""

from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE, Requests, requests_of
from runrig.spec.fields import Field, Fields
from runrig.spec.values import parse_size

_KNOWN = (CPU, GPU, MEMORY, STORAGE, "platform", "nodesExcluded", "topology")
_TOPOLOGY = ("key", "group", "requirementType")
_REQUIREMENTS = {"required": True, "preferred": False}
_MOST_CPUS = 1_000_000
_MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class Resource:
    requests: Requests = ()
    platform: str | None = None


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
    _refuse_topology(fields)
    cpus = fields.whole(CPU, most=_MOST_CPUS)
    amounts = {
        CPU: (cpus or 0) * 1000,
        GPU: _gpus(fields),
        MEMORY: _size(fields, MEMORY),
        STORAGE: _size(fields, STORAGE),
    }
    return Resource(requests_of(amounts), fields.text("platform"))


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


def _refuse_topology(fields: Fields) -> None:
    """Law T6: there is no backend with topology, so a well-formed requirement is refused as well as a wrong one."""
    for item in fields.items("topology"):
        inner = item.fields("a topology requirement", _TOPOLOGY)
        if inner is None:
            continue
        inner.need("key", "key: rack")
        inner.text("key")
        inner.text("group")
        kind = inner.get("requirementType")
        if kind is not None:
            kind.choice(_REQUIREMENTS)
    fields.refuse({"topology": "topology requirements are not supported on this backend yet: leave them out"})
