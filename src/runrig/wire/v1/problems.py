"""Errors of API v1, as in RFC 9457."""

from typing import Any

from pydantic import Field

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


class ProblemPart(Shown):
    """A problem in an input. *path*: of the field or parameter; *line* and *column* of a file count from 1."""

    model_config = example(
        {
            "message": "unknown field 'imge'. Did you mean 'image'?",
            "path": "workflow.tasks[0].imge",
            "line": 4,
            "column": 5,
        }
    )

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None


class ProblemDetails(Shown):
    """An error. *code*: one of a few words; *detail*: a sentence; *details*: the numbers in it; *problems*: all
    problems in an input, with status 400 or 422.
    """

    model_config = example(
        {
            "type": "urn:runrig:problem:notfound",
            "title": "Not there",
            "status": 404,
            "detail": "unknown pool 'vison' (pools: batch, vision)",
            "code": "NOTFOUND",
        }
    )

    type: str
    title: str
    status: int
    detail: str
    code: str
    details: dict[str, Any] = Field(default_factory=dict)
    problems: list[ProblemPart] = Field(default_factory=list)
