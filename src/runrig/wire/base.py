"""What all requests and answers share: unknown fields are errors, times are naive UTC, every model shows an example."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Goes out.  Clients must expect further fields in later versions."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def example(cls) -> Any:
        """The example of the class, as JSON."""
        return _example_of(cls)


class Request(BaseModel):
    """Comes in.  An unknown field is a problem of its own, named with its path."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def example(cls) -> Any:
        return _example_of(cls)

    @classmethod
    def of_example(cls) -> Self:
        return cls.model_validate(cls.example())


def _example_of(model: type[BaseModel]) -> Any:
    extra = model.model_config.get("json_schema_extra")
    assert isinstance(extra, dict), f"{model.__name__} has no example"
    examples = extra["examples"]
    assert isinstance(examples, list)
    return examples[0]


def example(value: Mapping[str, Any]) -> ConfigDict:
    """The configuration of a model whose documentation shows *value*."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [dict(value)]})


def utc(at: float | None) -> datetime | None:
    """Seconds since the epoch as the reference client reads times: UTC without a zone."""
    return None if at is None else datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
