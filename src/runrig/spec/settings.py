"""Reads the settings of pools in files and requests: one reader for each kind of value."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from runrig.domain.pools import TopologyKey, name_problem, topology_problem
from runrig.domain.settings import SETTINGS, Choice, Codes, CohortName, Duration, Keys, Names, Number, Setting
from runrig.spec.fields import Field, Fields, Problems, closest, each, repeated
from runrig.spec.quota import Kinds
from runrig.spec.task import exit_rules
from runrig.spec.values import parse_duration
from runrig.spec.yamltree import node_of


def read_name(field: Field, kind: str) -> str:
    """Returns a valid name for a pool or cohort (rule S4); "" if there is none."""
    return field.checked(partial(name_problem, kind)) or ""


def read_settings(fields: Fields, kinds: Kinds) -> dict[str, Any]:
    """The settings that *fields* have, by field of `Pool`.  What cannot be read is reported and left out."""
    found = {}
    for setting in SETTINGS:
        field = fields[setting.asked]
        if field and (value := _value(field, setting, kinds)) is not None:
            found[setting.name] = value
            if problem := setting.kind.problem(value):
                field.wrong(problem)
    return found


def settings_from_json(sent: Mapping[str, Any], kinds: Kinds) -> dict[str, Any]:
    """`read_settings` of a request.  Null takes a removable setting away, and means nothing elsewhere.

    Raises InvalidInput.
    """
    problems = Problems()
    found = read_settings(Field(node_of(sent), "", problems).fields("a pool", sent), kinds)
    problems.raise_if_any()
    gone = [each.name for each in SETTINGS if each.removable and sent.get(each.asked, ...) is None]
    return found | dict.fromkeys(gone)


def _value(field: Field, setting: Setting, kinds: Kinds) -> Any:
    kind = setting.kind
    match kind:
        case Number(takes=takes):
            return field.whole(int(kind.least), int(kind.most)) if takes is int else field.number(kind.least, kind.most)
        case Duration():
            return field.parsed(parse_duration)
        case Choice():
            return field.choice({word.value: word for word in kind.of})
        case Names():
            return _flavors(field, kinds)
        case Keys():
            return _topology_keys(field)
        case Codes():
            return tuple((rule.action.value, rule.first, rule.last) for rule in exit_rules(field))
        case CohortName():
            return read_name(field, "cohort") or None
    return field.text()


def _flavors(field: Field, kinds: Kinds) -> tuple[str, ...]:
    found = [(name, item) for item in field.items() if (name := item.text()) is not None]
    for name, item in found:
        if name not in kinds.declared:
            item.wrong(f"unknown flavor {name!r}. {closest(name, kinds.declared)}")
    repeated(found, "flavor")
    return tuple(dict.fromkeys(name for name, _ in found if name in kinds.declared))


def _topology_keys(field: Field) -> tuple[TopologyKey, ...]:
    keys, labels, found = [], [], []
    needs = {"key": "key: rack", "label": "label: topology.kubernetes.io/rack"}
    for _, (key, label) in each(field.items(), "a topology key", tuple(needs), needs):
        found.append(TopologyKey(key.text() or "", label.text() or ""))
        keys.append((found[-1].key, key))
        labels.append((found[-1].label, label))
    repeated(keys, "the key")
    repeated(labels, "the label")
    unlike = len(dict(keys)) == len(dict(labels)) == len(found)
    if unlike and (problem := topology_problem(found)):
        field.wrong(problem)
    return tuple(found)
