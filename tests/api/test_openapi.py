"""The OpenAPI document is complete: a summary, an example of success and of each error, on every route."""

import re
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from runrig import wire
from runrig.api.osmo import models
from runrig.domain import shown
from runrig.domain.value import Page, Shown, Tagged, example
from runrig.wire import v1
from runrig.wire.base import Model
from runrig.wire.json import adapter, read, to_json, to_plain
from tests.api.client import api
from tests.docs.test_docs import ROOT

OPEN = ("/healthz", "/readyz")


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def _has_example(response: dict[str, Any]) -> bool:
    contents = response.get("content", {}).values()
    return any("example" in content for content in contents)


def test_every_route_shows_success_and_each_error(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        document = it.get("/openapi.json")
    problems = []
    for path, method, operation in _operations(document):
        where, responses = f"{method} {path}", operation["responses"]
        if not operation.get("summary") or not operation.get("tags"):
            problems.append(f"{where}: no summary")
        expected = {"403"} if path in OPEN else {"401", "403", "422", "500", "503"}
        if path.startswith("/api/v1/"):
            expected |= {"400", "429"}
        if not {"200", "201", "204"} & set(responses):
            problems.append(f"{where}: success is not described")
        if "{" in path:
            expected |= {"404"}
        problems += [f"{where}: {status} is not described" for status in sorted(expected - set(responses))]
        problems += [
            f"{where}: {status} has no example"
            for status, each in responses.items()
            if status != "204" and not _has_example(each)
        ]
    assert problems == []


def classes(package: ModuleType) -> list[Any]:
    return [each for each in vars(package).values() if isinstance(each, type)]


def values() -> list[Any]:
    """All values in answers; what they only have in common has no example."""
    bases = (shown.DeclaredPool, shown.GangCount, shown.PlacedPool, shown.PoolNow, shown.WorkflowHead)
    common = (Shown, Tagged, Page, *bases)
    return [each for each in classes(shown) if issubclass(each, Shown) and each not in common]


def test_every_example_is_valid_for_its_model() -> None:
    for model in (*classes(wire), *classes(v1), *classes(models)):
        if issubclass(model, Model) and not model.__module__.endswith(".base"):
            model.model_validate(model.example())


def test_every_value_has_its_own_example_and_writes_no_internal_field() -> None:
    """Also where a field that stays inside holds something."""
    for kind in values():
        marked = replace(example(kind), **dict.fromkeys(kind.UNTOLD, "mark-of-the-inside"))
        assert to_json(marked) == to_json(example(kind))
        assert read(kind, to_plain(marked)) == read(kind, to_plain(example(kind)))
        told = [each.name for each in fields(kind) if each.name not in kind.UNTOLD]
        schema = adapter(kind).json_schema(mode="serialization")
        if "$ref" in schema:  # a recursive model
            schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        assert list(schema["properties"]) == told
        by_position = [each.name for each in fields(kind) if not each.kw_only]
        assert by_position == [name for name in (*told, *kind.UNTOLD) if name in by_position]


def test_no_page_shows_an_internal_field() -> None:
    """Checks only internal fields whose names no shown field has."""
    kinds = values()
    told = {each.name for kind in kinds for each in fields(kind) if each.name not in kind.UNTOLD}
    told |= {name for each in classes(v1) if issubclass(each, Model) for name in each.model_fields}
    inside = {name for kind in kinds for name in kind.UNTOLD} - told - {"share", "places"}  # required by bars and maps
    assert inside >= {"at_least", "older", "preempted_by", "unreachable"}
    for page in (ROOT / "src/runrig/web/templates").iterdir():
        assert set(re.findall(r"\.(\w+)", page.read_text(encoding="utf-8"))) & inside == set(), page.name
