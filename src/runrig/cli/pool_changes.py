"""What a command changed of a pool, in one line: ``pool vision: quota 1 → 2, cohort none → research``."""

from collections.abc import Iterator, Mapping
from typing import Any

from runrig.domain.quantities import GPU, format_quantity

Pool = Mapping[str, Any]
_NONE = "none"
_NEW: Pool = {
    "quotas": {},
    "cohort": None,
    "queueing": "BEST_EFFORT_FIFO",
    "weight": 1,
    "flavors": [],
    "topology_keys": [],
    "description": "",
}
"""A pool of which nothing was said."""


def created(pool: Pool) -> str:
    """What a new pool has beyond the ordinary."""
    said = [f"{name} {after}" for name, _, after in _differences(_NEW, pool)]
    return f"pool {pool['name']}: created" + (f" with {', '.join(said)}" if said else "")


def updated(before: Pool, after: Pool) -> str:
    changes = [f"{name} {old} → {new}" for name, old, new in _differences(before, after)]
    return f"pool {after['name']}: {', '.join(changes) or 'nothing changed'}"


def _differences(before: Pool, after: Pool) -> Iterator[tuple[str, str, str]]:
    """(setting, before, after), quotas first."""
    yield from _of_quotas(before["quotas"], after["quotas"])
    for name in _NEW:
        if name != "quotas" and before[name] != after[name]:
            yield name.replace("_", " "), _shown(before[name]), _shown(after[name])


def _of_quotas(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of the GPUs of a single flavor it need not be said that they are."""
    places = sorted(
        {(flavor, resource) for quotas in (before, after) for flavor in quotas for resource in quotas[flavor]}
    )
    single = len({flavor for flavor, _ in places}) == 1
    for flavor, resource in places:
        old, new = (quotas.get(flavor, {}).get(resource, {}) for quotas in (before, after))
        of = "" if single and resource == GPU else f" of {flavor}/{resource}"
        for field, name, unset in (
            ("nominal", "quota", 0),
            ("borrowing_limit", "borrowing limit", None),
            ("lending_limit", "lending limit", None),
        ):
            amounts = [each.get(field, unset) for each in (old, new)]
            if amounts[0] != amounts[1]:
                first, second = (_NONE if each is None else format_quantity(resource, each) for each in amounts)
                yield name + of, first, second


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return (
            ",".join(f"{each['key']}={each['label']}" if isinstance(each, dict) else str(each) for each in value)
            or _NONE
        )
    return _NONE if value in (None, "") else str(value)
