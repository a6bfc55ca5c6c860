"""The OpenAPI document, made once in each process that runs tests: it takes a second."""

from functools import cache
from typing import Any

from runrig.api.app import described


@cache
def document() -> dict[str, Any]:
    return described().openapi()
