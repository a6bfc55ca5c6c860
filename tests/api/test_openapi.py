"""The OpenAPI document is complete: a summary, an example of success and of each error, on every route."""

import re
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from runrig import wire
from runrig.domain import shown
from runrig.domain.value import example
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


def test_the_document_names_all_routes(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        operations = _operations(it.get("/openapi.json"))
    assert sorted(f"{method.upper()} {path}" for path, method, _ in operations) == [
        "DELETE /api/auth/access_token/{name}",
        "DELETE /api/auth/user/{user}",
        "DELETE /api/auth/user/{user}/access_token/{name}",
        "DELETE /api/auth/user/{user}/roles/{role}",
        "DELETE /api/configs/pool/{name}",
        "DELETE /api/configs/pool/{parent}/subpool/{subpool}",
        "DELETE /api/credentials/{name}",
        "DELETE /api/v1/cohorts/{name}",
        "DELETE /api/v1/credentials/{name}",
        "DELETE /api/v1/pools/{name}",
        "DELETE /api/v1/roles/{user}/{role}",
        "DELETE /api/v1/tokens/{name}",
        "DELETE /api/v1/users/{user}/tokens/{name}",
        "GET /api/app",
        "GET /api/auth/access_token",
        "GET /api/auth/access_token/{name}/roles",
        "GET /api/auth/login",
        "GET /api/auth/user",
        "GET /api/auth/user/{user}",
        "GET /api/auth/user/{user}/access_token",
        "GET /api/configs/backend",
        "GET /api/configs/diff",
        "GET /api/configs/history",
        "GET /api/configs/pool",
        "GET /api/configs/pool/{parent}/subpool",
        "GET /api/configs/pool/{parent}/subpool/{subpool}",
        "GET /api/configs/role",
        "GET /api/configs/service",
        "GET /api/configs/workflow",
        "GET /api/credentials",
        "GET /api/plugins/configs",
        "GET /api/pool",
        "GET /api/pool_quota",
        "GET /api/profile/settings",
        "GET /api/resources",
        "GET /api/resources/{name}",
        "GET /api/tag",
        "GET /api/task",
        "GET /api/v1/access-events",
        "GET /api/v1/cluster-file",
        "GET /api/v1/cohorts",
        "GET /api/v1/cohorts/{name}",
        "GET /api/v1/credentials",
        "GET /api/v1/credentials/{name}",
        "GET /api/v1/events",
        "GET /api/v1/events/stream",
        "GET /api/v1/flavors",
        "GET /api/v1/me",
        "GET /api/v1/nodes",
        "GET /api/v1/nodes/{name}",
        "GET /api/v1/pools",
        "GET /api/v1/pools/{name}",
        "GET /api/v1/pools/{name}/history",
        "GET /api/v1/pools/{name}/past",
        "GET /api/v1/pools/{name}/why",
        "GET /api/v1/quota-tree",
        "GET /api/v1/roles",
        "GET /api/v1/roles/{user}/{role}",
        "GET /api/v1/sign-in",
        "GET /api/v1/tokens",
        "GET /api/v1/tokens/{name}",
        "GET /api/v1/topology",
        "GET /api/v1/users",
        "GET /api/v1/users/{name}",
        "GET /api/v1/users/{user}/tokens",
        "GET /api/v1/users/{user}/tokens/{name}",
        "GET /api/v1/version",
        "GET /api/v1/workflow-tags",
        "GET /api/v1/workflows",
        "GET /api/v1/workflows/{id}",
        "GET /api/v1/workflows/{id}/changes",
        "GET /api/v1/workflows/{id}/events",
        "GET /api/v1/workflows/{id}/logs",
        "GET /api/v1/workflows/{id}/spec",
        "GET /api/v1/workflows/{id}/wait",
        "GET /api/v1/workflows/{id}/why",
        "GET /api/version",
        "GET /api/workflow",
        "GET /api/workflow/{id}",
        "GET /api/workflow/{id}/error_logs",
        "GET /api/workflow/{id}/events",
        "GET /api/workflow/{id}/logs",
        "GET /api/workflow/{id}/spec",
        "GET /api/workflow/{id}/task/{task}",
        "GET /healthz",
        "GET /metrics",
        "GET /readyz",
        "PATCH /api/configs/pool/{name}",
        "PATCH /api/configs/pool/{parent}/subpool/{subpool}",
        "PATCH /api/v1/cohorts/{name}",
        "PATCH /api/v1/pools/{name}",
        "PATCH /api/v1/tokens/{name}",
        "PATCH /api/v1/users/{name}",
        "PATCH /api/v1/users/{user}/tokens/{name}",
        "PATCH /api/v1/workflows/{id}/tags",
        "POST /api/auth/access_token/{name}",
        "POST /api/auth/jwt/access_token",
        "POST /api/auth/oidc/device",
        "POST /api/auth/oidc/token",
        "POST /api/auth/user",
        "POST /api/auth/user/{user}/access_token/{name}",
        "POST /api/auth/user/{user}/roles",
        "POST /api/configs/history/rollback",
        "POST /api/configs/history/{config_type}/revision/{revision}/tags",
        "POST /api/configs/pool/{parent}/subpool",
        "POST /api/credentials/{name}",
        "POST /api/pool/{pool}/workflow",
        "POST /api/pool/{pool}/workflow/{id}/restart",
        "POST /api/profile/settings",
        "POST /api/v1/apply",
        "POST /api/v1/browser-codes",
        "POST /api/v1/clock/accept",
        "POST /api/v1/cohorts",
        "POST /api/v1/credentials:reseal",
        "POST /api/v1/nodes:cordon",
        "POST /api/v1/nodes:drain",
        "POST /api/v1/nodes:uncordon",
        "POST /api/v1/plan",
        "POST /api/v1/pools",
        "POST /api/v1/pools/{name}/close",
        "POST /api/v1/pools/{name}/open",
        "POST /api/v1/roles",
        "POST /api/v1/sign-in/code",
        "POST /api/v1/sign-in/device",
        "POST /api/v1/sign-in/device/token",
        "POST /api/v1/sign-in/renewal",
        "POST /api/v1/tokens",
        "POST /api/v1/users",
        "POST /api/v1/users/{user}/tokens",
        "POST /api/v1/workflows",
        "POST /api/v1/workflows/{id}/cancel",
        "POST /api/v1/workflows/{id}/hold",
        "POST /api/v1/workflows/{id}/reassign",
        "POST /api/v1/workflows/{id}/release",
        "POST /api/v1/workflows/{id}/repeat",
        "POST /api/v1/workflows/{id}/tasks/{task}:exec",
        "POST /api/v1/workflows/{id}/tasks/{task}:port-forward",
        "POST /api/v1/workflows/{id}/tasks/{task}:rsync",
        "POST /api/v1/workflows:batch",
        "POST /api/v1/workflows:check",
        "POST /api/v1/workflows:render",
        "POST /api/workflow/{id}/cancel",
        "POST /api/workflow/{id}/exec/group/{group}",
        "POST /api/workflow/{id}/exec/task/{task}",
        "POST /api/workflow/{id}/portforward/{task}",
        "POST /api/workflow/{id}/rsync/task/{task}",
        "POST /api/workflow/{id}/tag",
        "PUT /api/configs/pool",
        "PUT /api/configs/pool/{parent}/subpool/{subpool}",
        "PUT /api/v1/credentials/{name}",
    ]


def classes(package: ModuleType) -> list[Any]:
    return [each for each in vars(package).values() if isinstance(each, type)]


def test_every_example_is_one_of_its_model() -> None:
    for model in (*classes(wire), *classes(v1)):
        if issubclass(model, Model) and model not in (v1.Shown, v1.Page):
            model.model_validate(model.example())


def test_every_value_has_an_example_of_its_own_and_writes_nothing_that_stays_inside() -> None:
    """Also where a field that stays inside holds something."""
    for kind in classes(shown):
        marked = replace(example(kind), **dict.fromkeys(kind.UNTOLD, "mark-of-the-inside"))
        assert to_json(marked) == to_json(example(kind))
        assert read(kind, to_plain(marked)) == read(kind, to_plain(example(kind)))
        told = [each.name for each in fields(kind) if each.name not in kind.UNTOLD]
        schema = adapter(kind).json_schema(mode="serialization")
        if "$ref" in schema:  # it has itself inside
            schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        assert list(schema["properties"]) == told
        by_position = [each.name for each in fields(kind) if not each.kw_only]
        assert by_position == [*told, *(name for name in kind.UNTOLD if name in by_position)]


def test_no_page_shows_a_field_that_stays_inside() -> None:
    """Of those whose names nothing else has."""
    kinds = classes(shown)
    told = {each.name for kind in kinds for each in fields(kind) if each.name not in kind.UNTOLD}
    told |= {name for each in classes(v1) if issubclass(each, Model) for name in each.model_fields}
    inside = {name for kind in kinds for name in kind.UNTOLD} - told - {"share"}  # a bar of the page has one
    assert inside >= {"at_least", "older", "preempted_by", "unreachable"}
    for page in (ROOT / "src/runrig/web/templates").iterdir():
        assert set(re.findall(r"\.(\w+)", page.read_text(encoding="utf-8"))) & inside == set(), page.name
