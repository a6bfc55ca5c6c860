"""The OpenAPI document: the framework's, with additions."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from runrig.http.permissions import OPENLY
from runrig.wire import v1

BEARER = "bearer"
TAGS = {
    "access": "Users, roles, tokens and their audit trail",
    "cohorts": "Groups of pools that share quota",
    "configs": "Settings and their history, for the osmo client",
    "events": "Past and live events",
    "usage": "GPU usage by user, pool, flavor and priority",
    "nodes": "Nodes and their topology",
    "pools": "Named shares of GPUs that users submit workflows to",
    "resources": "Nodes, for the osmo client",
    "server": "Server version, health and cluster files",
    "sessions": "Commands, ports and files of running tasks",
    "subpools": "Guaranteed slices of a pool, for the osmo client",
    "workflows": "Workflows: submit, change and query",
}
_PARTS = "#/components/schemas/{model}"


def install(app: FastAPI) -> None:
    """Adds the ways to sign in, and the errors of API v1, to the document of *app*."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            written = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            routes = [each for each in app.routes if isinstance(each, APIRoute) and each.include_in_schema]
            app.openapi_schema = _completed(written, routes)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _completed(found: dict[str, Any], routes: Iterable[APIRoute]) -> dict[str, Any]:
    found["info"]["contact"] = {"name": "runrig"}
    found["info"]["license"] = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    found["servers"] = [{"url": "/", "description": "This server"}]
    parts = found.setdefault("components", {})
    problem = v1.ProblemDetails.model_json_schema(ref_template=_PARTS)
    parts.setdefault("schemas", {}).update({**problem.pop("$defs", {}), "ProblemDetails": problem})
    parts["securitySchemes"] = {BEARER: {"type": "http", "scheme": "bearer"}}
    found["security"] = [{BEARER: []}]
    _restore_examples(found, routes)
    operations = [each for methods in found["paths"].values() for each in methods.values()]
    for operation in operations:
        if operation["x-permission"] == OPENLY:
            operation["security"] = []
    used = sorted({tag for each in operations for tag in each["tags"]})
    found["tags"] = [{"name": tag, "description": TAGS[tag]} for tag in used]
    return found


def _restore_examples(found: dict[str, Any], routes: Iterable[APIRoute]) -> None:
    """Restores null values in examples, which the framework removes."""
    for route in routes:
        for method in route.methods or ():
            operation = found["paths"][route.path_format][method.lower()]
            for status, response in route.responses.items():
                for media_type, content in response.get("content", {}).items():
                    if "example" in content:
                        operation["responses"][str(status)]["content"][media_type]["example"] = content["example"]
