"""The changes of a cluster file, one line per setting."""

import json
from collections.abc import Mapping
from typing import Any

from runrig.domain.settings import in_words, named

SIGNS = {"create": "+", "update": "~", "delete": "-"}


def lines(change: Mapping[str, Any]) -> list[str]:
    """*change*: from an answer of apply or plan, with an action in SIGNS."""
    head = f"{SIGNS[change['action']]} {change['kind']} {change['name']}"
    before, after = _flat(change.get("before")), _flat(change.get("after"))
    if change["action"] != "update":
        return [head]
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [head, *(f"    {name}: {_value(name, before)} -> {_value(name, after)}" for name in differing)]


def _flat(settings: Mapping[str, Any] | None, prefix: str = "") -> dict[str, Any]:
    """Returns ``{"quotas": {"gpu": 4}}`` as ``{"quotas.gpu": 4}``."""
    flat: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        inner = isinstance(value, dict) and value and named(name) is None
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat


def _value(name: str, settings: Mapping[str, Any]) -> str:
    value = settings.get(name)
    if not isinstance(value, list | dict) or named(name) is not None:
        return in_words(name, value)
    return json.dumps(value, ensure_ascii=False)
