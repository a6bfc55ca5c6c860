"""Errors of our own door, as RFC 9457 has them."""

from typing import Any

from pydantic import Field

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


class ProblemPart(Shown):
    """One thing wrong with an input.  *path*: of the field or parameter; *line* and *column* of a file count from 1."""

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
    """Every error.  *code* is one of a few words, *detail* a sentence, *details* its numbers; *problems*: all that is wrong with an
    input, with status 400 or 422."""

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
