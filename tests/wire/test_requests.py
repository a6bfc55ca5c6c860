"""Requests take numbers as JSON numbers."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from runrig.wire import v1
from runrig.wire.base import Request

WRONG: tuple[object, ...] = (True, False, "5", " 5 ", "1_000", "+5", "٣", "true", [5], {})


def requests(kind: type[Request]) -> Iterator[type[Request]]:
    yield kind
    for each in kind.__subclasses__():
        yield from requests(each)


def numbers() -> Iterator[tuple[type[Request], str]]:
    """Yields (model, field) for each field that is a number, and nothing else."""
    for model in dict.fromkeys(requests(Request)):
        for name, schema in model.model_json_schema().get("properties", {}).items():
            kinds = {each.get("type") for each in (schema, *schema.get("anyOf", ()))}
            if kinds & {"integer", "number"} and "string" not in kinds:
                yield model, name


def test_text_and_booleans_are_not_numbers() -> None:
    """A client with a mistake in it would otherwise set a weight of 1, or 1000 for 1_000, without a word."""
    found = list(numbers())
    assert (v1.PoolEdit, "weight") in found
    for model, name in found:
        check = model.__pydantic_validator__.validate_assignment
        check(model.model_construct(), name, 5)
        for wrong in WRONG:
            with pytest.raises(ValidationError):
                pytest.fail(f"{model.__name__}.{name} took {wrong!r}: {check(model.model_construct(), name, wrong)}")
