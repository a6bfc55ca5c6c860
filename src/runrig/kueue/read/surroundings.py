"""Reads the settings of a cluster that change the requests in pod templates.

LimitRange: defaults and bounds of containers and pods. RuntimeClass: overhead. Manager settings: which resources are
ignored, and which are transformed into others.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from runrig.domain.quantities import CPU
from runrig.kueue.read.names import Manifest
from runrig.kueue.read.tree import Object

Amounts = Mapping[str, int]

CONTAINER, POD = "Container", "Pod"
DEFAULT_QUEUE = "default"
"""The LocalQueue for jobs that do not name one, if it exists in their namespace."""
EXEMPT = ("kube-system", "kueue-system")
"""Namespaces whose jobs Kueue ignores unless they name a queue."""
_LIMITS = ("type", "max", "min", "default", "defaultRequest")
_RATIO = "the ratio of limits to requests is not checked; Kubernetes rejects pods that exceed it when they start"


@dataclass(slots=True)
class Bounds:
    """Limits of the LimitRanges of a namespace for each container or pod. The first of several defaults is used."""

    default: dict[str, int] = field(default_factory=dict)
    default_request: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)

    def problem(self, what: str, least: Amounts, most: Amounts) -> str:
        """Why *what* (a container or pod) violates the bounds; empty if it does not. *least*, *most*: its requests and
        limits.
        """
        for resource, amount in self.most.items():
            if most.get(resource, 0) > amount:
                return f"{what} has more {resource} than the LimitRange of its namespace allows"
        for resource, amount in self.least.items():
            if resource in least and least[resource] < amount:
                return f"{what} has less {resource} than the LimitRange of its namespace requires"
        return ""


@dataclass(frozen=True, slots=True)
class Transformation:
    """Converts a unit of a resource, such as one core, to *outputs*. *retain*: the resource itself is counted too.

    *multiply_by*: a resource of the same pod whose amount multiplies the outputs; empty if none.
    """

    outputs: tuple[tuple[str, Fraction], ...]
    retain: bool = True
    multiply_by: str = ""


@dataclass(slots=True)
class Surroundings:
    """*bounds*: (namespace, Container or Pod) → its limits and defaults. *overheads*: runtime class → overhead.

    *excluded*: prefixes of ignored resources. *transformations*: by resource. *defaulted*: namespaces with a default
    LocalQueue.
    """

    bounds: dict[tuple[str, str], Bounds] = field(default_factory=dict)
    overheads: dict[str, Amounts] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    transformations: dict[str, Transformation] = field(default_factory=dict)
    defaulted: set[str] = field(default_factory=set)

    def counted(self, requests: Amounts) -> Amounts:
        """The quota that a pod with these *requests* uses."""
        kept = {name: amount for name, amount in requests.items() if not name.startswith(self.excluded)}
        if not kept.keys() & self.transformations.keys():
            return kept
        found = {name: amount for name, amount in kept.items() if self._retained(name)}
        made: dict[str, Fraction] = {}
        for name, amount in kept.items():
            transformation = self.transformations.get(name)
            if transformation is not None:
                units = _units(name, amount) * _units(transformation.multiply_by, kept.get(transformation.multiply_by))
                for output, each in transformation.outputs:
                    made[output] = made.get(output, Fraction(0)) + units * each
        for output, amount_made in made.items():
            found[output] = found.get(output, 0) + _amount(output, amount_made)
        return found

    def _retained(self, name: str) -> bool:
        transformation = self.transformations.get(name)
        return transformation is None or transformation.retain


def _units(name: str, amount: int | None) -> Fraction:
    """The amount in units, such as cores; 1 if there is no such request."""
    if amount is None:
        return Fraction(1)
    return Fraction(amount, 1000 if name == CPU else 1)


def _amount(name: str, units: Fraction) -> int:
    """*units* in the internal unit of the resource, rounded up, at least 0."""
    return max(0, -(-units * (1000 if name == CPU else 1) // 1))


def read_limit_range(manifest: Manifest, around: Surroundings) -> None:
    """Adds the defaults and bounds of a LimitRange to *around*."""
    spec = manifest.spec.only(("limits",))
    for item in spec.objects("limits"):
        item.only(_LIMITS, {"maxLimitRequestRatio": _RATIO})
        bounds = around.bounds.setdefault((manifest.namespace, item.text("type")), Bounds())
        most, least, default, request = (item.object(name).amounts() for name in _LIMITS[1:])
        if item.text("type") == CONTAINER:
            default = {**most, **default}
            request = {**least, **default, **request}
        bounds.default = {**default, **bounds.default}
        bounds.default_request = {**request, **bounds.default_request}
        _keep(bounds.most, most, min)
        _keep(bounds.least, least, max)


def _keep(into: dict[str, int], found: Amounts, better: Callable[[int, int], int]) -> None:
    for resource, amount in found.items():
        into[resource] = better(into.get(resource, amount), amount)


def read_runtime_class(manifest: Manifest, around: Surroundings) -> None:
    body = manifest.body.only(("apiVersion", "kind", "metadata", "handler", "overhead", "scheduling"))
    overhead = body.object("overhead").only(("podFixed",))
    around.overheads[manifest.name] = overhead.object("podFixed").amounts()


def merged(*found: Amounts) -> dict[str, int]:
    """For each resource, the first amount found."""
    together: dict[str, int] = {}
    for each in found:
        for resource, amount in each.items():
            together.setdefault(resource, amount)
    return together


def read_excluded(fields: Object, around: Surroundings) -> None:
    around.excluded = tuple(sorted(prefix for prefix in fields.texts("excludeResourcePrefixes") if prefix))


def read_transformations(items: Iterable[Object], around: Surroundings) -> None:
    for item in items:
        item.only(("input", "strategy", "outputs", "multiplyBy"))
        retain = item.choice("strategy", {"Retain": True, "Replace": False}, True, otherwise="treated as Retain")
        outputs = tuple(sorted((name, at.factor()) for name, at in item.object("outputs").pairs()))
        around.transformations[item.need("input")] = Transformation(outputs, retain, item.text("multiplyBy"))
