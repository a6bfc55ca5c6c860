"""The changes of a cluster file, one line per setting."""

import json
from collections.abc import Mapping
from typing import Any

SIGNS = {"create": "+", "update": "~", "delete": "-"}


def lines(change: Mapping[str, Any]) -> list[str]:
    """*change*: from an answer of apply or plan, with an action in SIGNS."""
    head = f"{SIGNS[change['action']]} {change['kind']} {change['name']}"
    before, after = _flat(change.get("before")), _flat(change.get("after"))
    if change["action"] != "update":
        return [head]
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [head, *(f"    {name}: {_value(before.get(name))} -> {_value(after.get(name))}" for name in differing)]


def _flat(settings: Mapping[str, Any] | None, prefix: str = "") -> dict[str, Any]:
    """Returns ``{"quotas": {"gpu": 4}}`` as ``{"quotas.gpu": 4}``."""
    flat: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return flat


def _value(value: object) -> str:
    if value in (None, "", [], {}):
        return "none"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
