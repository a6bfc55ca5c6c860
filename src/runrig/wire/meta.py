"""Errors, health and version."""

from typing import Any

from pydantic import Field

from runrig.wire.base import Answer, example


class ErrorAnswer(Answer):
    """An error. *details* has the numbers in the message; with status 422, *details.problems* has all problems."""

    model_config = example({"message": "unknown pool 'vison'. Did you mean 'vision'?", "error_code": "NOTFOUND"})

    message: str
    error_code: str
    details: dict[str, Any] = Field(default_factory=dict)


class HealthAnswer(Answer):
    model_config = example({"status": "ok"})

    status: str


class VersionAnswer(Answer):
    """*version*: its three numbers; *hash*: "" in a release."""

    model_config = example({"major": "0", "minor": "1", "revision": "0", "hash": "", "version": "0.1.0"})

    major: str
    minor: str
    revision: str
    hash: str
    version: str
