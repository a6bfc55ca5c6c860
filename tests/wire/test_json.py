"""One value of each kind of field is written, read and documented as the API promises."""

import json
import pickle
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from runrig.domain.value import Amounts, Page, Shown, Tagged, Word, at, example, shown_as
from runrig.wire.base import Model
from runrig.wire.base import example as model_example
from runrig.wire.json import adapter, read, to_json, to_plain


class Colour(Word):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Stone(Shown):
    """A stone of *colour*."""

    UNTOLD = ("found_by",)

    colour: Colour
    weights: Amounts
    at: datetime
    name: str | None = None
    found_by: str = "nobody"


@dataclass(frozen=True, slots=True)
class Box(Shown):
    """What is in it, and the *best* of that."""

    stones: tuple[Stone, ...]
    colours: tuple[Colour, ...]
    best: Stone | None
    worst: Colour | None


STONE = shown_as(Stone(Colour.RED, Amounts({"kg": 2, "g": 5}), at(0.25), "ruby", found_by="ann"))
BOX = shown_as(Box((STONE,), (Colour.BLUE,), None, Colour.RED))
PLAIN_STONE = {"colour": "red", "weights": {"kg": 2, "g": 5}, "at": "1970-01-01T00:00:00.250000Z", "name": "ruby"}
PLAIN = {"stones": [PLAIN_STONE], "colours": ["blue"], "best": None, "worst": "red"}


class Shelf(Model):
    """A model with values in it."""

    model_config = model_example({"boxes": [PLAIN], "colour": "red"})

    boxes: list[Box]
    colour: Colour


def test_value_is_written_in_the_order_of_its_fields_without_internal_ones() -> None:
    assert to_json(BOX) == json.dumps(PLAIN, separators=(",", ":")).encode()
    assert to_plain(BOX) == PLAIN


def test_written_value_is_read_back_without_internal_fields() -> None:
    stone = replace(STONE, found_by="nobody")
    assert read(Box, json.loads(to_json(BOX))) == replace(BOX, stones=(stone,))


@dataclass(frozen=True, slots=True)
class Ring(Tagged):
    stone: Stone


class Rings(Page[Ring]):
    """By name."""


def test_page_lists_values_without_their_etags() -> None:
    ring = shown_as(Ring(STONE, etag='"x"'))
    assert to_plain(example(Rings)) == {"next_cursor": None, "items": [{"stone": PLAIN_STONE}]}
    assert read(Rings, to_plain(Rings("on", (ring,)))).items[0].etag is None
    schema = adapter(Rings).json_schema()
    assert (schema["description"], schema["required"]) == ("By name.", ["next_cursor", "items"])
    assert schema["properties"]["items"] == {"type": "array", "items": {"$ref": "#/$defs/Ring"}, "title": "Items"}
    assert "etag" not in str(schema)


def test_later_server_may_have_more_fields_and_more_words() -> None:
    later = {**PLAIN, "colours": ["red", "green"], "stones": [PLAIN_STONE | {"found_by": "bob", "age": 3}]}
    box = read(Box, later)
    assert box.colours[0] is Colour.RED
    assert (box.colours[1], box.colours[1].value, isinstance(box.colours[1], Colour)) == ("green", "green", True)
    assert box.stones == (replace(STONE, found_by="nobody"),)
    assert to_plain(box) == {**PLAIN, "colours": ["red", "green"]}


@pytest.mark.parametrize(
    "wrong",
    [
        {name: value for name, value in PLAIN_STONE.items() if name != "name"},
        PLAIN_STONE | {"weights": {"kg": "much"}},
        PLAIN_STONE | {"colour": 4},
        PLAIN_STONE | {"at": "yesterday"},
    ],
)
def test_missing_field_or_wrong_type_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(Stone, wrong)


def test_model_accepts_values_and_its_own_words_are_strict() -> None:
    shelf = Shelf(boxes=[BOX], colour=Colour.RED)
    assert json.loads(shelf.model_dump_json()) == Shelf.example()
    with pytest.raises(ValidationError, match="red' or 'blue"):
        Shelf.model_validate({"boxes": [], "colour": "green"})


def test_every_public_field_is_documented_with_docstring_and_example() -> None:
    for schema in (adapter(Stone).json_schema(mode="serialization"), adapter(Stone).json_schema()):
        assert schema == {
            "type": "object",
            "title": "Stone",
            "description": "A stone of *colour*.",
            "examples": [PLAIN_STONE],
            "additionalProperties": False,
            "required": ["colour", "weights", "at", "name"],
            "properties": {
                "colour": {"type": "string", "title": "Colour"},
                "weights": {"type": "object", "additionalProperties": {"type": "integer"}, "title": "Weights"},
                "at": {"type": "string", "format": "date-time", "title": "At"},
                "name": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Name"},
            },
        }


def test_amounts_are_a_mapping_in_their_order_that_can_be_hashed() -> None:
    amounts = Amounts([("kg", 2), ("g", 5)])
    assert (list(amounts.items()), amounts["g"]) == ([("kg", 2), ("g", 5)], 5)
    assert amounts == {"g": 5, "kg": 2}
    assert {amounts} == {Amounts({"g": 5, "kg": 2})}
    assert not Amounts()


def test_a_value_crosses_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(BOX)) == BOX


def test_times_are_utc() -> None:
    assert (at(0.25), at(None)) == (datetime(1970, 1, 1, 0, 0, 0, 250000, tzinfo=UTC), None)
