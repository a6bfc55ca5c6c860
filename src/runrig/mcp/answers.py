"""Answers for agents: small JSON without empty fields, with harmless text."""

import dataclasses
import json
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from runrig.domain.errors import InvalidInput, RunrigError
from runrig.domain.laws import cited
from runrig.domain.printable import printable
from runrig.domain.value import Shown
from runrig.wire.json import to_plain

LARGEST = 16_000
"""Characters of an answer as JSON."""
_LIMITS = ((100, 4000), (50, 2000), (20, 1000), (10, 500), (5, 250), (2, 120), (1, 60))
"""Items of a list, and characters of a text, to try in this order until an answer is small enough."""
_DEEPEST = 12
_UNTOLD = frozenset({"uuid", "queued_s", "duration_s", "etag"})


def plain(value: Shown | BaseModel) -> dict[str, Any]:
    """Returns an answer of the client as JSON, without empty fields."""
    found: dict[str, Any] = _slim(to_plain(value) if isinstance(value, Shown) else value.model_dump(mode="json"))
    return found


def picked(value: Shown | BaseModel, names: Iterable[str]) -> dict[str, Any]:
    """Returns only the fields *names*."""
    whole = plain(value)
    return {name: whole[name] for name in names if name in whole}


def _slim(value: Any) -> Any:
    if isinstance(value, dict):
        slim = ((key, _slim(each)) for key, each in value.items() if key not in _UNTOLD)
        return {key: each for key, each in slim if each not in (None, "", [], {})}
    return [_slim(each) for each in value] if isinstance(value, list) else value


def small(answer: Mapping[str, Any], largest: int = LARGEST) -> dict[str, Any]:
    """Returns *answer* with harmless text, cut until it fits. ``left_out`` lists what is missing."""
    for items, characters in _LIMITS:
        left_out: list[str] = []
        found: dict[str, Any] = _cut(dict(answer), "", items, characters, left_out)
        if left_out:
            found["left_out"] = left_out[:10] + (["and more"] if len(left_out) > 10 else [])
        if len(written(found)) <= largest:
            return found
    return {"left_out": [f"the answer is larger than {largest} characters: ask for less, by a name or a filter"]}


def _cut(value: Any, at: str, items: int, characters: int, left_out: list[str], depth: int = 0) -> Any:
    if depth > _DEEPEST:
        left_out.append(f"{at}: nested too deeply")
        return None
    if isinstance(value, str):
        text = harmless(value)
        if len(text) <= characters:
            return text
        left_out.append(f"{at}: {len(text) - characters} of {len(text)} characters")
        return text[:characters]
    if isinstance(value, dict):
        most = 4 * items  # Only amounts and labels have this many entries; objects have fewer fields.
        if len(value) > most:
            left_out.append(f"{at}: {len(value) - most} of {len(value)} entries")
        kept = list(value.items())[:most]
        inner = f"{at}." if at else ""
        return {
            harmless(str(key))[:characters]: _cut(each, f"{inner}{key}"[:80], items, characters, left_out, depth + 1)
            for key, each in kept
        }
    if isinstance(value, list | tuple):
        if len(value) > items:
            left_out.append(f"{at}: {len(value) - items} of {len(value)} items")
        return [_cut(each, at, items, characters, left_out, depth + 1) for each in value[:items]]
    return value


def harmless(text: str) -> str:
    """Returns *text* without escape sequences, and without characters that a person cannot see but a model can read."""
    return "".join(each for each in printable(text) if each.isascii() or unicodedata.category(each) not in ("Cf", "Co"))


def written(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def problem(error: RunrigError) -> dict[str, Any]:
    """Returns *error* as an answer: its sentence, its code and numbers, and the problems of a file with their lines."""
    law = str(error.details.get("law", ""))
    found: dict[str, Any] = {"error": f"{error.message} {cited(law)}" if law else error.message, "code": error.code}
    if isinstance(error, InvalidInput) and (len(error.problems) > 1 or any(each.line for each in error.problems)):
        found["problems"] = [_slim(dataclasses.asdict(each)) for each in error.problems]
    return small(found | ({"details": _slim(dict(error.details))} if error.details else {}))
