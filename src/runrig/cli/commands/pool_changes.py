"""The changes of a pool or cohort on one line: ``pool vision: quota 1 → 2, cohort none → research``."""

from collections.abc import Iterator, Mapping
from typing import Any

from runrig.domain.quantities import GPU, amount_in_words, counted, format_quantity
from runrig.domain.settings import NOTHING, PARTS, SETTINGS, called, default, in_words

Node = Mapping[str, Any]
_NEW_POOL: Node = {"quotas": {}} | {each.name: each.kind.plain(default(each)) for each in SETTINGS}
_NEW_COHORT: Node = {"quotas": {}, "parent": None, "weight": 1}
"""A pool and a cohort with defaults only."""


def created(node: Node) -> str:
    """Returns the fields of a new pool or cohort that differ from the defaults."""
    settings = [f"{name} {after}" for name, _, after in _differences(_new(node), node)]
    return f"{_kind(node)} {node['name']}: created" + (f" with {', '.join(settings)}" if settings else "")


def updated(before: Node, after: Node) -> str:
    changes = [f"{name} {old} → {new}" for name, old, new in _differences(before, after)]
    return f"{_kind(after)} {after['name']}: {', '.join(changes) or 'no changes'}"


def given(quotas: Mapping[str, Any]) -> str:
    """``quota 8``, or ``quota of h100/gpu 8, quota of b200/gpu 4``."""
    return ", ".join(f"{name} {after}" for name, _, after in _of_quotas({}, quotas)) or "no quota"


def resized(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {old} → {new}" for name, old, new in _of_quotas(before, after)) or "nothing changed"


def deleted(answer: Node, *, dry_run: bool = False) -> str:
    """Describes what happened, or would happen, to a deleted pool and its workflows."""
    is_, parent = "would be" if dry_run else "is", answer["parent"]
    if answer["state"] == "DELETING":
        count, gpus = answer["workflows"], answer["total"]
        work = f"{counted(count, 'workflow')} with {amount_in_words(GPU, gpus)}"
        run, ended = ("runs", "it has") if count == 1 else ("run", "they have")
        keeps = f"it keeps {amount_in_words(GPU, answer['held'])}" + (f" of {parent}" if parent else "")
        lines = [f"pool {answer['name']} {is_} DELETING: {work} still {run} there, and {keeps} until {ended} ended"]
    else:
        freed = f", and its quota {'would be' if dry_run else 'is'} unallocated in {parent} again" if parent else ""
        lines = [f"pool {answer['name']} {is_} {answer['state']}: nothing runs there{freed}"]
    cancelled = answer.get("cancelled", [])
    if cancelled:
        verb = "would be cancelled, as they" if dry_run else "cancelled, as they"
        lines.append(f"{verb} had not started: {', '.join(cancelled)}")
    return "\n".join(lines)


def _kind(node: Node) -> str:
    return str(node.get("kind", "pool"))


def _new(node: Node) -> Node:
    return _NEW_COHORT if _kind(node) == "cohort" else _NEW_POOL


def _differences(before: Node, after: Node) -> Iterator[tuple[str, str, str]]:
    """Yields (setting, before, after), quotas first."""
    yield from _of_quotas(before["quotas"], after["quotas"])
    for name in _new(after):
        if name != "quotas" and before[name] != after[name]:
            yield called(name), in_words(name, before[name]), in_words(name, after[name])


def settings(pool: Node) -> Iterator[tuple[str, str | None]]:
    """Yields (label, value) of each setting; None for an unset one."""
    for each in SETTINGS:
        value, label = each.in_words(pool[each.name]), called(each.name)
        yield f"{label[:1].upper()}{label[1:]}", None if value == NOTHING else value


def _of_quotas(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yields the name of each changed quota; GPUs of the only flavor need none."""
    places = sorted(
        {(flavor, resource) for quotas in (before, after) for flavor in quotas for resource in quotas[flavor]}
    )
    single = len({flavor for flavor, _ in places}) == 1
    for flavor, resource in places:
        old, new = (quotas.get(flavor, {}).get(resource, {}) for quotas in (before, after))
        of = "" if single and resource == GPU else f" of {flavor}/{resource}"
        for part, name in PARTS.items():
            amounts = [each.get(part, 0 if part == "nominal" else None) for each in (old, new)]
            if amounts[0] != amounts[1]:
                first, second = (NOTHING if each is None else format_quantity(resource, each) for each in amounts)
                yield name.replace("_", " ") + of, first, second
