"""Amounts: exact integers in one unit per resource (rule Q2).

cpu is in milli-cores, memory and storage are in bytes, and everything else, such as gpu, is in whole units.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeVar

GPU = "gpu"
CPU = "cpu"
MEMORY = "memory"
STORAGE = "storage"
BYTES = (MEMORY, STORAGE)
PODS = "pods"
"""Pod slots of a node. Every pod needs one, although no request names it."""

UNLISTED_IS_UNCOUNTED = (CPU, MEMORY, STORAGE, PODS)
"""A node that does not list one of these has no limit on it. Of any other resource that it does not list, it has none."""

LARGEST = 2**63 - 1

Requests = tuple[tuple[str, int], ...]
"""Requests of one pod: (resource, amount), sorted by resource, amounts above zero."""

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_BYTE_UNITS = ("Ti", "Gi", "Mi", "Ki")
"""The units in which bytes are shown, largest first."""
_WHOLE = re.compile("[0-9]+")
_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,4})?)(Ki|Mi|Gi|Ti|Pi|Ei|m|k|M|G|T|P|E)?")


class FlavorResource(NamedTuple):
    """The key of a quota: one resource on one kind of node."""

    flavor: str
    resource: str

    def __str__(self) -> str:
        return f"{self.flavor}/{self.resource}"


def parse_quantity(resource: str, value: str | int) -> int:
    """The amount of *resource* that *value* denotes, in the unit of the resource, rounded up.

    Accepts whole numbers and Kubernetes quantities (``500m``, ``1.5``, ``64Gi``). Raises ValueError, with a message for users,
    if *value* is not a quantity, is negative, does not fit 64 bits, or is not a whole number of GPUs.
    """
    match = _QUANTITY.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    if match is None:
        raise ValueError(f"{value!r} is not a quantity: use a number such as 4, 500m or 64Gi")
    try:
        number = Decimal(match[1]) * _SUFFIXES[match[2] or ""]
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a finite quantity") from None
    if number < 0:
        raise ValueError(f"{value!r} is negative: amounts of {resource} must be at least 0")
    scaled = number * 1000 if resource == CPU else number
    if scaled > LARGEST:
        most = format_quantity(resource, LARGEST)
        raise ValueError(f"{value!r:.80} does not fit in 64 bits: amounts of {resource} must be at most {most}")
    whole = int(scaled.to_integral_value(ROUND_CEILING))
    if resource == GPU and whole != scaled:
        raise ValueError(f"{value!r} is not a whole number of GPUs")
    return whole


def is_bytes(resource: str) -> bool:
    """Whether *resource*, by runrig's name or Kubernetes', is measured in bytes."""
    return resource in BYTES or resource == "ephemeral-storage" or resource.startswith("hugepages-")


def format_quantity(resource: str, amount: int, *, largest_unit: str = "Ti") -> str:
    """*amount* for people, exact: cores for cpu, binary units up to *largest_unit* for bytes, otherwise the number itself.

    Bytes use the largest unit that is exact with three decimals, so different amounts never look the same. `parse_quantity`
    reads every non-negative amount back unchanged.
    """
    if resource == CPU:
        return _from_thousandths(amount)
    if is_bytes(resource):
        for unit in _BYTE_UNITS[_BYTE_UNITS.index(largest_unit) :]:
            size = int(_SUFFIXES[unit])
            thousandths, rest = divmod(amount * 1000, size)
            if abs(amount) >= size and not rest:
                return _from_thousandths(thousandths) + unit
    return str(amount)


def rounded_quantity(resource: str, amount: int) -> str:
    """*amount* for tables, not to be parsed: bytes in their largest unit, with one decimal."""
    if not is_bytes(resource):
        return format_quantity(resource, amount)
    unit = next((unit for unit in _BYTE_UNITS if abs(amount) >= int(_SUFFIXES[unit])), None)
    return str(amount) if unit is None else f"{amount / int(_SUFFIXES[unit]):.1f}".removesuffix(".0") + unit


def amount_in_a_sentence(resource: str, amount: int) -> str:
    """*amount* for people, not to be parsed: ``1,280``, ``64Gi``."""
    return _WHOLE.sub(lambda found: f"{int(found[0]):,}", format_quantity(resource, amount), count=1)


def amount_in_words(resource: str, amount: int) -> str:
    """``8 GPUs``, ``1 CPU core``, ``64Gi memory``."""
    if resource == GPU:
        return "1 GPU" if amount == 1 else f"{amount:,} GPUs"
    if resource == CPU:
        return "1 CPU core" if amount == 1000 else f"{amount_in_a_sentence(resource, amount)} CPU cores"
    return f"{amount_in_a_sentence(resource, amount)} {resource}"


def has_several_flavors(keys: Iterable[FlavorResource], resource: str) -> bool:
    """Whether more than one of *keys* is of *resource*, so that sentences must name the flavor."""
    return sum(key.resource == resource for key in keys) > 1


def amount_of_flavor(key: str, amount: int, *, named: bool) -> str:
    """*amount* of *key*, ``flavor/resource``, with the flavor if *named*: ``8 h100 GPUs``, ``64Gi memory of flavor h100``."""
    flavor, _, resource = key.partition("/")
    if not named or not flavor:
        return amount_in_words(resource, amount)
    if resource == GPU:
        return f"1 {flavor} GPU" if amount == 1 else f"{amount:,} {flavor} GPUs"
    return f"{amount_in_words(resource, amount)} of flavor {flavor}"


def kind_of_flavor(key: str, *, named: bool) -> str:
    """The resource of *key*, ``flavor/resource``, without an amount: ``GPUs``, ``h100 GPUs``, ``memory of flavor h100``."""
    flavor, _, resource = key.partition("/")
    kind = {GPU: "GPUs", CPU: "CPU cores"}.get(resource, resource)
    if not named or not flavor:
        return kind
    return f"{flavor} GPUs" if resource == GPU else f"{kind} of flavor {flavor}"


def whole_number(text: str) -> int | None:
    """The number that *text* consists of, in ASCII digits; None if it is none, or too long to be meant."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 100 else None


def counted(number: int, one: str, several: str = "") -> str:
    """``1 workflow``, ``1,200 workflows``. *several*: if it is not *one* with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def few(names: Collection[str], most: int = 20, joint: str = ", ") -> str:
    """``a, b and 1,200 more``: only the first *most* of *names*."""
    rest = len(names) - most
    more = f"{joint.strip(', ')} and {rest:,} more" if rest > 0 else ""
    return joint.join(islice(names, most)) + more


def listed(names: Sequence[str], joint: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f" {joint} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _from_thousandths(amount: int) -> str:
    """*amount* / 1000 without trailing zeros."""
    whole, rest = divmod(abs(amount), 1000)
    return f"{'-' if amount < 0 else ''}{whole}{f'.{rest:03}'.rstrip('0') if rest else ''}"


def requests_of(amounts: Mapping[str, int]) -> Requests:
    """*amounts* in canonical form: sorted by resource, without zeros."""
    return tuple(sorted((resource, amount) for resource, amount in amounts.items() if amount))


@lru_cache(maxsize=10_000)
def gpus_in(requests: Requests) -> int:
    return dict(requests).get(GPU, 0)


K = TypeVar("K")


def totals(parts: Iterable[tuple[K, int]]) -> dict[K, int]:
    """The sum of the amounts of each key, in the order of the keys."""
    found: dict[K, int] = {}
    for key, amount in parts:
        found[key] = found.get(key, 0) + amount
    return found


def of_one_pod(requests: Requests) -> Requests:
    """Usage of a node by one pod with *requests*: these amounts and one pod slot."""
    return requests_of({**dict(requests), PODS: 1})


def own_and_shared(own: int, shared: Mapping[str, int], key: str, kind: str = "of its own") -> str:
    """``2 of its own, 4 shared by research``. *key*: ``flavor/resource``. *kind*: what to call the pool's own amount."""
    resource = key.partition("/")[2]
    parts = [f"{amount_in_a_sentence(resource, amount)} shared by {cohort}" for cohort, amount in shared.items()]
    return ", ".join((f"{amount_in_a_sentence(resource, own)} {kind}", *parts))
