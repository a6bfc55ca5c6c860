"""Labels and tags of workflows: their syntax, and selectors."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import LabelSelector, WorkflowSpec

MOST_LABELS = 16
MOST_PATTERNS = 64
"""Maximum number of patterns that the alternatives of a selector expand to."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_PARTS = re.compile(r"\(([^()]*)\)|([^()|]+)")


def key_problem(key: str) -> str | None:
    """Returns why *key* is not a valid label key; None if it is."""
    prefix, slash, name = key.rpartition("/")
    if _NAME.fullmatch(name) and (not slash or _PREFIX.fullmatch(prefix)):
        return None
    return f"{key!r:.120} is not a label key. Use up to 63 letters, digits, '-', '_' and '.', with an optional prefix/."


def value_problem(value: str, what: str = "label value") -> str | None:
    """Returns why *value* is not a valid label value or tag; None if it is."""
    if _NAME.fullmatch(value):
        return None
    return f"{value!r:.120} is not a valid {what}. Use 1 to 63 letters, digits, '-', '_' and '.'; start and end with a letter or digit."


def number_problem(labels: int) -> str | None:
    """Returns why a workflow cannot have this many *labels*; None if it can."""
    return None if labels <= MOST_LABELS else f"too many labels ({labels}, maximum {MOST_LABELS})"


def with_labels(spec: WorkflowSpec, items: Sequence[str]) -> WorkflowSpec:
    """Returns *spec* with the labels ``KEY=VALUE`` of *items*, which override those of the file. Raises InvalidInput."""
    if not items:
        return spec
    labels = {**spec.labels, **_pairs(items)}
    InvalidInput.check(number_problem(len(labels)), "label")
    return replace(spec, labels=labels)


def _pairs(items: Sequence[str]) -> Mapping[str, str]:
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise InvalidInput.one(f"{item!r:.120} is not a label. Use KEY=VALUE.", "label")
        InvalidInput.check(key_problem(key) or value_problem(value), "label")
        pairs[key] = value
    return pairs


def read_selector(text: str) -> LabelSelector:
    """Returns the filter for ``KEY=VALUE``: ``*`` matches any text, ``(a|b)`` a or b. Raises InvalidInput."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput.one(
            f"{text!r:.120} is not a label selector. Use KEY=VALUE, such as team=vision or run=(a|b)*.", "label"
        )
    InvalidInput.check(key_problem(key), "label")
    patterns = _alternatives(value)
    for pattern in patterns:
        InvalidInput.check(value_problem(pattern.replace("*", "a")), "label")
    return LabelSelector(key, patterns)


def read_key(text: str) -> str:
    """Returns a label key as a filter. Raises InvalidInput."""
    InvalidInput.check(key_problem(text), "no_label")
    return text


def read_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the distinct *tags*, sorted. Raises InvalidInput."""
    found = tuple(sorted(set(tags)))
    for tag in found:
        InvalidInput.check(value_problem(tag, "tag"), "tags")
    return found


def _alternatives(value: str) -> tuple[str, ...]:
    parts = list(_PARTS.finditer(value))
    whole = "".join(part.group() for part in parts) == value and value != ""
    choices = [tuple(part[1].split("|")) if part[2] is None else (part[2],) for part in parts]
    if not whole or any(
        part[2] is None and (len(each) < 2 or "" in each) for part, each in zip(parts, choices, strict=True)
    ):
        raise InvalidInput.one(
            f"{value!r:.120} is not a selector value. Use a value, optionally with * and (a|b).", "label"
        )
    if math.prod(map(len, choices)) > MOST_PATTERNS:
        raise InvalidInput.one(f"{value!r:.120} matches too many values (maximum {MOST_PATTERNS})", "label")
    return tuple(dict.fromkeys(re.sub(r"\*+", "*", "".join(each)) for each in itertools.product(*choices)))
