"""Documents, writes and reads shown values (`runrig.domain.value`) as JSON.

It adds to `Shown` the two methods that pydantic looks for. `wire.base` imports it, so models can have values as fields.
"""

import dataclasses
import inspect
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from runrig.domain.value import Amounts, Shown, Word, example

NAMES = {
    "Balance": "BalanceAnswer",
    "Concerned": "ConcernedAnswer",
    "DeclaredChange": "ChangeAnswer",
    "DomainGpus": "DomainGpusAnswer",
    "DomainReport": "DomainAnswer",
    "DomainRoom": "DomainRoomAnswer",
    "PodCount": "PodsAnswer",
    "Quota": "QuotaAnswer",
    "GangSize": "GangSizeAnswer",
    "GangsThatFit": "DomainGangsAnswer",
    "Holder": "HolderAnswer",
    "LevelReport": "LevelAnswer",
    "Others": "OthersAnswer",
    "Reason": "ReasonAnswer",
    "TopologyKey": "TopologyKeyModel",
    "TopologyMap": "TopologyMapAnswer",
    "UnlabelledNode": "ApartAnswer",
    "WaitingAlike": "Held",
}
"""Class → schema, where generated clients know a different name. New values need no entry."""

T = TypeVar("T")


_adapters: dict[Any, TypeAdapter[Any]] = {}


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns the adapter of a value or model. Building it takes about a millisecond, so it is cached."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_json(value: Shown) -> bytes:
    return adapter(type(value)).dump_json(value)


def to_plain(value: Shown) -> Any:
    return adapter(type(value)).serializer.to_python(value, mode="json")


def read(kind: type[T], plain: Any) -> T:
    """Reads a value or model from a server's JSON. Ignores unknown fields, because the server may be newer. Raises
    ValidationError.
    """
    found: T = adapter(kind).validate_python(plain, extra="ignore")
    return found


# ---------------------------------------------------------------- for pydantic


def _core_schema(kind: type[Shown], _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    hints = _hints(kind)
    fields = [
        core_schema.dataclass_field(each.name, _inside(each.default), init=False, serialization_exclude=True)
        if each.name in kind.UNTOLD
        else core_schema.dataclass_field(each.name, handler.generate_schema(_in_answers(hints[each.name], kind)))
        for each in dataclasses.fields(cast(Any, kind))
    ]
    arguments = core_schema.dataclass_args_schema(kind.__name__, fields, extra_behavior="forbid")
    names = [each["name"] for each in fields]
    return core_schema.dataclass_schema(kind, arguments, names, ref=_ref(kind), slots=True)


def _ref(kind: type[Shown]) -> str:
    return f"{kind.__module__}.{_name(kind)}:{id(kind)}"


def _hints(kind: type[Shown]) -> dict[str, Any]:
    """Returns the types of the fields; if a base class is generic, with its arguments, such as the type of a page's items."""
    hints = get_type_hints(kind)
    for said in filter(None, map(get_args, vars(kind).get("__orig_bases__", ()))):
        hints |= {name: hint[said] for name, hint in hints.items() if getattr(hint, "__parameters__", ())}
    return hints


def _inside(default: Any) -> CoreSchema:
    return core_schema.with_default_schema(core_schema.any_schema(), default=default)


def _in_answers(hint: Any, kind: type[Shown]) -> Any:
    """Returns the type for reading *hint* in *kind*: enum members leniently, amounts as an object."""
    if hint is kind:
        return Annotated[hint, _Itself(_ref(kind))]
    args = tuple(_in_answers(each, kind) for each in get_args(hint))
    if get_origin(hint) is UnionType:
        return reduce(or_, args)
    if args:
        return get_origin(hint)[args]
    if hint is Amounts:
        return Annotated[hint, _AMOUNTS]
    return Annotated[hint, _Lenient(hint)] if isinstance(hint, type) and issubclass(hint, Word) else hint


@dataclasses.dataclass(frozen=True, slots=True)
class _Lenient:
    """Reads a string. An unknown member, from a newer server, becomes a new member that is not in the list."""

    kind: type[Word]

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._word, core_schema.str_schema())

    def _word(self, text: str) -> Word:
        try:
            return self.kind(text)
        except ValueError:
            unknown = str.__new__(self.kind, text)
            unknown._name_ = unknown._value_ = text
            return unknown


@dataclasses.dataclass(frozen=True, slots=True)
class _Itself:
    """A value inside one of the same class."""

    ref: str

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.definition_reference_schema(self.ref)


class _Object:
    """Amounts as an object."""

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        plain = core_schema.dict_schema(core_schema.str_schema(), core_schema.int_schema())
        written = core_schema.plain_serializer_function_ser_schema(dict, return_schema=plain)
        amounts = core_schema.is_instance_schema(Amounts)
        read = core_schema.no_info_after_validator_function(Amounts, plain)
        return core_schema.json_or_python_schema(read, core_schema.union_schema([amounts, read]), serialization=written)


_AMOUNTS = _Object()


def _json_schema(kind: type[Shown], core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    schema = handler(core)
    found = handler.resolve_ref_schema(schema)
    for name in kind.UNTOLD:
        found["properties"].pop(name, None)
    found |= {"title": _name(kind), "additionalProperties": False, "examples": [to_plain(example(kind))]}
    # Without it, a dataclass would use its signature.
    if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
        found["description"] = inspect.cleandoc(kind.__doc__)
    return schema


def _name(kind: type[Shown]) -> str:
    return NAMES.get(kind.__name__, kind.__name__)


setattr(Shown, "__get_pydantic_core_schema__", classmethod(_core_schema))  # noqa: B010 - it has none of its own
setattr(Shown, "__get_pydantic_json_schema__", classmethod(_json_schema))  # noqa: B010
