"""Domain values as JSON, derived from the type hints of the dataclasses.

dataclass → object · NamedTuple and tuple → list · enum → its value · mapping → object, whose keys are text (a
``FlavorResource`` is written ``flavor/resource``). Fields that follow from the log or from another field are omitted.
Equal values give equal bytes: keys are sorted, numbers take the type of the field. A missing field takes its default, so
data of older releases can be read. An unknown field is refused, because it comes from a newer one.
"""

import dataclasses
import enum
import json
import types
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from runrig.domain.plan import Action
from runrig.domain.quantities import FlavorResource
from runrig.domain.times import FOLLOWS

Coder = Callable[[Any], Any]

# No cycle check: values are frozen, so they form a tree.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False)


class Undecodable(ValueError):
    """The data does not match the type; the message has the path."""


def dumps(plain: object) -> str:
    """Returns *plain* as canonical text: sorted keys, no spaces, ASCII."""
    return _ENCODER.encode(plain)


def loads(text: str | bytes) -> Any:
    """Raises Undecodable."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Undecodable(f"{text[:200]!r} is not JSON: {error}") from error


def unpacked(packed: bytes) -> bytes:
    """Returns what zlib compressed. Raises Undecodable."""
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise Undecodable(f"damaged compressed data: {error}") from error


def encode(declared: Any, value: object) -> Any:
    """Returns *value*, of type *declared*, as plain JSON values."""
    return coder(declared)[0](value)


def decode(declared: Any, plain: Any) -> Any:
    """The inverse of `encode`.  Raises Undecodable."""
    try:
        return coder(declared)[1](plain)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Undecodable(f"{dumps(plain)[:200]} is not a {_name(declared)}: {error}") from error


ACTIONS: Mapping[str, type] = {action.__name__: action for action in get_args(Action)}


def encode_action(action: Action) -> tuple[str, Any]:
    """Returns (name of its class, its fields)."""
    kind: type = type(action)
    return kind.__name__, coder(kind)[0](action)


def decode_action(kind: str, plain: Any) -> Action:
    if kind not in ACTIONS:
        raise Undecodable(f"{kind!r} is not an action that this version knows")
    return cast(Action, decode(ACTIONS[kind], plain))


@cache
def coder(declared: Any) -> tuple[Coder, Coder]:
    """Returns the encoder and decoder of a type, each built once."""
    origin, args = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return _optional(args)
    if origin is tuple:
        return _sequence(args[0]) if args[1:] == (...,) else _fixed(tuple, args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*args)
    if dataclasses.is_dataclass(declared):
        return _dataclass(cast(type, declared))
    if declared in (str, int, float, bool):
        return _scalar(declared)
    if issubclass(declared, enum.Enum):
        return value_of, declared
    if issubclass(declared, tuple):
        return _fixed(declared._make, tuple(get_type_hints(declared).values()))
    raise AssertionError(f"no way is known to store {declared!r}")


def _scalar(declared: Callable[[Any], Any]) -> tuple[Coder, Coder]:
    def check(plain: Any) -> Any:
        # Only a whole number may replace a float.
        if type(plain) is not declared and not (declared is float and type(plain) is int):
            raise TypeError(f"{plain!r} is not of type {_name(declared)}")
        return declared(plain)

    return (float if declared is float else _same), check


def _same(value: Any) -> Any:
    """The coder of a type that JSON has too; compared by identity, so that it need not be called."""
    return value


value_of = attrgetter("_value_")
"""The value of an enum member: `value` is a Python descriptor and takes ten times as long."""


def _optional(args: tuple[Any, ...]) -> tuple[Coder, Coder]:
    some = [arg for arg in args if arg is not type(None)]
    assert len(some) == 1, f"only `X | None` can be stored, not {args!r}"
    to, of = coder(some[0])
    return (
        _same if to is _same else lambda value: None if value is None else to(value),
        lambda plain: None if plain is None else of(plain),
    )


def _sequence(item: Any) -> tuple[Coder, Coder]:
    to, of = coder(item)
    return (
        list if to is _same else lambda values: [to(value) for value in values],
        lambda plain: tuple(of(value) for value in _list(plain)),
    )


def _fixed(make: Callable[[list[Any]], Any], items: tuple[Any, ...]) -> tuple[Coder, Coder]:
    coders = [coder(item) for item in items]
    same = all(to is _same for to, _ in coders)
    return (
        list if same else lambda values: [to(value) for (to, _), value in zip(coders, values, strict=True)],
        lambda plain: make([of(value) for (_, of), value in zip(coders, _list(plain), strict=True)]),
    )


def _list(plain: Any) -> list[Any]:
    # A string is iterable, and would be read as a list of characters.
    if not isinstance(plain, list):
        raise TypeError(f"{plain!r} is not a list")
    return plain


def _mapping(key: Any, item: Any) -> tuple[Coder, Coder]:
    to, of = coder(item)
    key_of: Callable[[str], Any] = _flavor_resource if key is FlavorResource else str
    return (
        lambda values: {str(name): to(value) for name, value in values.items()},
        lambda plain: {key_of(name): of(value) for name, value in plain.items()},
    )


def _flavor_resource(text: str) -> FlavorResource:
    # From the left: resources such as nvidia.com/gpu contain a slash, flavors do not.
    flavor, slash, resource = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not of the form flavor/resource")
    return FlavorResource(flavor, resource)


def _dataclass(declared: type) -> tuple[Coder, Coder]:
    hints = get_type_hints(declared)
    coders = {
        field.name: coder(hints[field.name])
        for field in dataclasses.fields(declared)
        if field.metadata.get(FOLLOWS) is not True
    }
    follows = [
        (field.name, source)
        for field in dataclasses.fields(declared)
        if type(source := field.metadata.get(FOLLOWS)) is str
    ]
    changed = [(name, encoder) for name, (encoder, _) in coders.items() if encoder is not _same]
    # With a single name `attrgetter` does not return a tuple.
    values_of = attrgetter(*coders) if len(coders) > 1 else lambda value: [getattr(value, name) for name in coders]

    def to(value: Any) -> dict[str, Any]:
        plain = dict(zip(coders, values_of(value), strict=True))
        for name, source in follows:
            if plain[source] is not None:
                del plain[name]
        for name, encoder in changed:
            if name in plain:
                plain[name] = encoder(plain[name])
        return plain

    def of(plain: Any) -> Any:
        return declared(**{name: coders[name][1](value) for name, value in plain.items()})

    return to, of


def _name(declared: Any) -> str:
    return getattr(declared, "__name__", str(declared))
