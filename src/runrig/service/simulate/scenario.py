"""A scenario of runrig's own format: a cluster file with workflows and their arrival times."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.gangs import Priority
from runrig.service.commands.submission import ParsedSubmission, Submission
from runrig.service.commands.submission import read as read_submission
from runrig.spec import cluster as cluster_file
from runrig.spec.fields import Field, Fields, closest, each, read_file
from runrig.spec.values import parse_duration
from runrig.spec.yamltree import decoded

USER = "simulate"
_WORKFLOW = ("file", "pool", "priority", "at")
_PRIORITIES = {priority.value: priority for priority in Priority}

ReadText = Callable[[str], str]
"""Returns the text of a file named in a scenario, relative to it. Raises InvalidInput."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workflow that is submitted *at* this second. *path*: its position in the scenario."""

    at: float
    parsed: ParsedSubmission
    path: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """*arrivals*: by time, then in the order of the file."""

    cluster: ClusterSpec
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    field: Field
    file: str
    pool: str
    priority: Priority | None
    at: float


def read_scenario(data: bytes | str, read: ReadText) -> Scenario:
    """Raises InvalidInput with all problems of the scenario, or else with all of its workflow files."""
    text = data if isinstance(data, str) else decoded(data, "scenario")

    def declared(fields: Fields) -> tuple[ClusterSpec, list[_Entry]]:
        cluster = cluster_file.cluster_of(fields)
        return cluster, _entries(fields, cluster)

    # The reader of cluster files, with one additional field.
    known = (*cluster_file.FIELDS, "workflows")
    hints = {"workflow": "this is a workflow file. List it under workflows: [{file: NAME}] in a scenario"}
    cluster, entries = read_file(text, "scenario", known, declared, hints)
    return Scenario(cluster, tuple(sorted(_arrivals(entries, read), key=lambda arrival: arrival.at)))


def _entries(fields: Fields, cluster: ClusterSpec) -> list[_Entry]:
    pools = [pool.name for pool in cluster.pools]
    found = []
    items = fields["workflows"].items()
    for inner, (file,) in each(items, "a workflow of a scenario", _WORKFLOW, {"file": "file: train.yaml"}):
        pool, priority = _pool(inner, pools), inner["priority"].choice(_PRIORITIES)
        at = inner["at"].parsed(parse_duration) or 0.0
        found.append(_Entry(inner.field, file.text() or "", pool, priority, at))
    return found


def _pool(fields: Fields, pools: list[str]) -> str:
    field = fields["pool"]
    if not field:
        if len(pools) == 1:
            return pools[0]
        way_out = f"the file has {len(pools)} pools. Set pool: to one of {', '.join(pools)}"
        none = "the file has no pools. Add pools: [{name: NAME, quota: GPUS}]"
        fields.field.wrong(way_out if pools else none)
        return ""
    name = field.text() or ""
    if name and name not in pools:
        field.wrong(f"unknown pool {name!r} in this file. {closest(name, pools)}")
    return name


def _arrivals(entries: list[_Entry], read: ReadText) -> list[Arrival]:
    arrivals: list[Arrival] = []
    problems: list[Problem] = []
    texts: dict[str, str] = {}
    for entry in entries:
        place = entry.field.node.place or (None, None)
        try:
            if entry.file not in texts:
                texts[entry.file] = read(entry.file)
            submission = Submission(texts[entry.file], entry.pool, USER, priority=entry.priority)
            arrivals.append(Arrival(entry.at, read_submission(submission), entry.field.path))
        except InvalidInput as error:
            for problem in error.problems:
                message = problem.located(entry.file) if problem.line is not None else problem.message
                path = f"{entry.field.path}.file"
                problems.append(replace(problem, message=message, path=path, line=place[0], column=place[1]))
    if problems:
        raise InvalidInput(tuple(dict.fromkeys(problems)))
    return arrivals
