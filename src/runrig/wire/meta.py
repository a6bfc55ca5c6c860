"""Errors, health, version, and cluster files."""

from typing import Any

from pydantic import Field

from runrig.domain.shown.declared import DeclaredChange
from runrig.wire.base import Answer, Request, Whole, example, example_of


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


class ApplyRequest(Request):
    """*file*: the text of a cluster file. *prune*: delete what an earlier apply created and the file no longer
    contains.

    *if_revision*: of a plan; refused if its subject was declared again since. *force*: also undo changes by hand since
    the last apply.
    """

    model_config = example(
        {"file": "pools:\n- {name: vision, quota: 8}\n- {name: batch, quota: 8}\n", "prune": False, "dry_run": True}
    )

    file: str
    prune: bool = False
    dry_run: bool = False
    if_revision: Whole | None = Field(default=None, ge=0)
    force: bool = False


class ApplyAnswer(Answer):
    """*applied*: false for a dry run."""

    model_config = example({"changes": [example_of(DeclaredChange)], "applied": False})

    changes: tuple[DeclaredChange, ...]
    applied: bool
