"""Times, and addresses of workflows, for all shapes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload
from urllib.parse import quote

Answer = Mapping[str, Any]
"""JSON of runrig's own API."""
Shape = dict[str, Any]
"""JSON as the reference client reads it."""


@overload
def naive(text: str) -> str: ...
@overload
def naive(text: None) -> None: ...
@overload
def naive(text: str | None) -> str | None: ...
def naive(text: str | None) -> str | None:
    """``2026-01-31T12:00:00Z`` without the zone, which is always UTC."""
    return text and text.removesuffix("Z")


def times(answer: Answer) -> dict[str, str | None]:
    return {name: naive(answer[name]) for name in ("submit_time", "start_time", "end_time") if name in answer}


def page(kind: Literal["workflow", "pool", "node"], name: str, url: str = "") -> str:
    """The address of a page of the server at *url*; "": below any."""
    return f"{url}/{kind}/{quote(name, safe='')}"


@dataclass(frozen=True, slots=True)
class Links:
    """Where an API of the server at *url* has workflows: below *path*.

    *template*: how a file is asked for as it was sent.  *errors*: stderr alone.  *task*, *attempt*: the parameters that choose output.
    """

    url: str
    path: str
    template: str
    errors: str
    task: str
    attempt: str

    def of(self, id: str, rest: str = "") -> str:
        """The address of the workflow *id*, or of a part of it."""
        return f"{self.url}{self.path}{quote(id)}{rest}"

    def page(self, id: str) -> str:
        return page("workflow", id, self.url)

    def output(self, id: str, task: str, attempt: int) -> dict[str, str]:
        which = f"{self.task}={quote(task)}&{self.attempt}={attempt}"
        errors = f"{self.errors}{'&' if '?' in self.errors else '?'}{which}"
        return {"logs": self.of(id, f"/logs?{which}"), "error_logs": self.of(id, errors)}
