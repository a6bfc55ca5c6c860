"""Shared by all requests and responses: unknown fields are errors, and every model has an example."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, overload

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetJsonSchemaHandler, StrictBool, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core import to_json as plain_to_json

from runrig.domain import value
from runrig.wire.json import to_json, to_plain


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @classmethod
    def example(cls) -> Any:
        """Returns the example of the class, as JSON."""
        extra = cls.model_config.get("json_schema_extra")
        assert isinstance(extra, dict), f"{cls.__name__} has no example"
        examples = extra["examples"]
        assert isinstance(examples, list)
        return examples[0]


class Answer(Model):
    """A response, with times in UTC without a zone. Clients must expect new fields in later versions."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Times without a zone, as the osmo client reads them, are not a valid `date-time`."""
        schema = handler(core)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            for each in (field, *field.get("anyOf", ())):
                if each.get("format") == "date-time":
                    each["format"] = "date-time-local"
        return schema


class Request(Model):
    """A request. An unknown field is a problem of its own, with its path."""


def edits_of(record: type) -> Any:
    """Returns a base of requests with the fields of *record*. Each can be missing or null."""
    strict: dict[Any, Any] = {bool: StrictBool, int | None: Whole, tuple[str, ...]: list[str]}
    asked: dict[str, Any] = {each.name: (strict.get(each.type, each.type) | None, None) for each in fields(record)}
    return create_model(f"_{record.__name__}", __base__=Request, **asked)


def example_of(kind: type[Model] | type[value.Shown]) -> Any:
    return kind.example() if issubclass(kind, Model) else to_plain(value.example(kind))


Json = Model | value.Shown | Mapping[str, Any] | Sequence[Model]
"""The values that routes return."""


def json_of(answer: Json) -> str | bytes:
    if isinstance(answer, Model):
        return answer.model_dump_json()
    return to_json(answer) if isinstance(answer, value.Shown) else plain_to_json(answer)


def example(value: Mapping[str, Any]) -> ConfigDict:
    """Returns the configuration of a model whose documentation shows *value*."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [dict(value)]})


@overload
def utc(at: float) -> datetime: ...
@overload
def utc(at: float | None) -> datetime | None: ...
def utc(at: float | None) -> datetime | None:
    """Converts seconds since the epoch to the osmo client's format: UTC without a zone."""
    return None if at is None else datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def _a_number(value: object) -> object:
    """Python accepts true as 1, and "1_0" as 10, but a quota of `true` is a mistake."""
    if isinstance(value, bool | str):
        raise ValueError("write a number")
    return value


Whole = Annotated[int, BeforeValidator(_a_number)]
Number = Annotated[float, BeforeValidator(_a_number)]
NUMBERS: Mapping[Any, Any] = {int: Whole, float: Number}
"""How a request has numbers of each type."""
