"""Workflows: in the shape of the reference client, then what only runrig has."""

from collections.abc import Iterable, Mapping
from typing import Any

from runrig.osmo import workflows
from runrig.osmo.shape import Links, naive

Answer = Mapping[str, Any]

_OURS = ("times", "held_by", "array")


def _links(url: str) -> Links:
    """Addresses at the server *url*."""
    return Links(url, "/api/v1/workflows/", "?template=true", "/logs?stream=stderr", "task", "attempt")


def submitted(answer: Answer, url: str) -> dict[str, Any]:
    return workflows.submitted(answer, _links(url))


def one_of_many(outcome: Answer, url: str) -> dict[str, Any]:
    """Returns the outcome of one file of several that was submitted."""
    return {name: each for name, each in submitted(outcome, url).items() if name not in ("spec", "dashboard_url")}


def rendered(answer: Answer) -> dict[str, Any]:
    """Returns the answer of a dry run."""
    return workflows.rendered(answer) | {"verdict": answer["verdict"]}


def listed(entry: Answer, url: str) -> dict[str, Any]:
    ours = {name: entry.get(name) for name in (*_OURS, "node", "nodes", "why")}
    return workflows.entry(entry, _links(url)) | ours | {"held_since": naive(entry["held_since"])}


def workflow(answer: Answer, url: str) -> dict[str, Any]:
    """Includes its groups and tasks."""
    ours = {name: answer.get(name) for name in (*_OURS, "cause")}
    return workflows.workflow(answer, _links(url)) | ours | {"held_since": naive(answer["held_since"])}


def events(found: Iterable[Answer]) -> list[dict[str, Any]]:
    """*law* null: an event reported by the cluster."""
    return [
        {**each, "time": naive(each["time"]), "law": None if each["revision"] is None else each["law"]}
        for each in found
    ]
