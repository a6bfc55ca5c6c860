"""Any value of a type of the domain, read off its type hints."""

import dataclasses
import enum
import types
from collections.abc import Mapping
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from runrig.domain.quantities import FlavorResource
from runrig.domain.workflows import Array, GroupSpec, TaskSpec, WorkflowSpec

# All text that a store keeps: valid Unicode without NUL (tests/store/contract/test_text.py).
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
WHOLE = st.integers(-(2**63), 2**63 - 1)
# Whole microseconds until the year 2106.
TIMES = st.integers(0, 2**32 * 1_000_000).map(lambda microseconds: microseconds / 1_000_000)
FLAVOR_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), max_size=6)


def values_of(declared: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values_of(arg) for arg in args))
    if origin is tuple and args[1:] == (...,):
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(arg) for arg in args))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=3)
    if declared is FlavorResource:
        return st.builds(FlavorResource, FLAVOR_NAMES, TEXTS)
    simple = {str: TEXTS, int: WHOLE, float: TIMES, bool: st.booleans(), type(None): st.none()}
    if declared in simple:
        return simple[declared]
    if issubclass(declared, enum.Enum):
        return st.sampled_from(declared)
    assert dataclasses.is_dataclass(declared) or issubclass(declared, tuple)
    hints = {name: hint for name, hint in get_type_hints(declared).items() if get_origin(hint) is not ClassVar}
    if declared is Array:
        indices = st.lists(st.integers(0, 999), max_size=3, unique=True).map(sorted).map(tuple)
        return st.builds(Array, values_of(GroupSpec), indices, WHOLE, st.just(()), values_of(int | None), st.booleans())
    if declared is TaskSpec:
        del hints["array"]  # derived from the array
    if declared is WorkflowSpec:
        del hints["_by_name"], hints["groups"], hints["array"]
        groups, arrays = (values_of(each) for each in (tuple[GroupSpec, ...], Array))
        contents = st.one_of(groups.map(lambda each: {"groups": each}), arrays.map(lambda each: {"array": each}))
        return st.builds(lambda more, **rest: WorkflowSpec(**rest, **more), contents, **fields_of(hints))
    return st.builds(declared, **fields_of(hints))


def fields_of(hints: Mapping[str, Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: values_of(hint) for name, hint in hints.items()}
