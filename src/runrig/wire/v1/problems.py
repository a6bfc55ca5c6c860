"""Errors of API v1, as in RFC 9457."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from runrig.domain.errors import Problem
from runrig.wire.base import Model, example


@dataclass(frozen=True, slots=True)
class ProblemPart(Problem):
    """A problem in an input. *path*: of the field or parameter; *line* and *column* of a file count from 1."""

    __pydantic_config__ = example(
        {
            "message": "unknown field 'imge'. Did you mean 'image'?",
            "path": "workflow.tasks[0].imge",
            "line": 4,
            "column": 5,
        }
    )


class ProblemDetails(Model):
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
