"""Schemathesis against a real server with the token of an administrator: what the document promises, and what it forbids."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.document import document
from tests.api.permissions.rows import ENDLESS
from tests.attack.target import Target
from tests.patience import PATIENCE_S

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
KNOWN = {
    "pool": ["team", "team--a", "team2"],
    "name": ["team", "team--a", "zebra", "n0", "admin", "fuzzed"],
    "parent": ["team", "zebra"],
    "subpool": ["a", "b", "x"],
    "id": ["treasure-1", "x-1"],
    "user": ["admin", "ann"],
    "token": ["t"],
    "role": ["viewer", "team-user"],
}
"""Names that are there, because chance does not find any."""
FILE = "workflow: {name: x, tasks: [{name: a, image: i, command: [x], duration: 0.01}]}"
LONGEST_WAIT_S = 0.05


def operations() -> dict[str, Any]:
    """Returns the operations by name, from the document that the application has without a server."""
    schema = schemathesis.openapi.from_dict(document(), config=SchemathesisConfig())
    found = {}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), f"an operation that the document does not describe well: {result}"
        if result.ok().label not in ENDLESS:
            found[result.ok().label] = result.ok()
    return found


def hammer(target: Target, operation: Any, *, examples: int, start: int | None = None) -> None:
    """*examples* requests that the document allows and as many that it does not.  *start*: of chance; None: always the same."""
    for mode in GenerationMode:
        _hammer(target, operation, mode, examples, start)


def _hammer(target: Target, operation: Any, mode: GenerationMode, examples: int, start: int | None) -> None:
    cases = operation.as_strategy(generation_mode=mode)
    base = f"http://127.0.0.1:{target.port}"
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {target.tokens['admin']}"

        @settings(
            max_examples=examples,
            derandomize=start is None,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, known=st.randoms(use_true_random=False))
        def run(case: Any, known: Any) -> None:
            _be_brief(case, known)
            response = case.call(base_url=base, session=session, timeout=PATIENCE_S)
            case.validate_response(response, checks=CHECKS)

        # A route without parameters that could be invalid has no invalid request.
        with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
            (run if start is None else seed(start)(run))()


def _be_brief(case: Any, known: Any) -> None:
    """Names that are there in every second request, a file that is one, and no waiting for what does not come."""
    for name in case.path_parameters or {}:
        if name in KNOWN and known.random() < 0.6:
            case.path_parameters[name] = known.choice(KNOWN[name])
    query = case.query or {}
    if ("timeout" in query and known.random() < 0.9) or isinstance(query.get("timeout"), int | float):
        query["timeout"] = LONGEST_WAIT_S
    query.pop("follow", None)
    if isinstance(case.body, dict) and isinstance(case.body.get("file"), str) and known.random() < 0.7:
        case.body["file"] = FILE


def requests_of(target: Target) -> Iterator[str]:
    """Lines of the log that tell of a mistake of the server."""
    return (line for line in target.log.read_text().splitlines() if "Traceback" in line or "level=ERROR" in line)
