"""`runrig workflow submit` with several files: few requests, and a result per file."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import click

from runrig.cli.printed import workflows
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.tables import Column, Table, show
from runrig.cli.transport.failure import FileProblems, document, located
from runrig.cli.transport.files import shown
from runrig.cli.transport.session import Session
from runrig.client.failure import server_said
from runrig.client.transport import Transport, path
from runrig.domain.errors import RunrigError, ServerFault
from runrig.domain.quantities import counted

MOST = 1_000
LARGEST = 1_500_000
"""Maximum characters of workflows in a request, unless a single one is larger."""
_REFUSED = 1

Result = dict[str, Any] | RunrigError
"""The server's answer for a file, or why it was not submitted."""


def each_of(files: Sequence[str], ask: Callable[[str], dict[str, Any]]) -> list[Result]:
    """Returns the answer of *ask* for each of *files*, or its error. Raises ServerFault, which does not depend on a file."""
    found: list[Result] = []
    for file in files:
        try:
            with located(shown(file)):
                found.append(ask(file))
        except ServerFault:
            raise
        except RunrigError as error:
            found.append(error)
    return found


def send(
    client: Transport,
    files: Sequence[str],
    bodies: Sequence[dict[str, Any]],
    whole: Mapping[str, Any],
    *,
    together: bool,
) -> list[Result]:
    """Submits *bodies*, which belong to *files*. *whole*: fields for all. *together*: all or none."""
    found: list[Result] = []
    for part in [bodies] if together else list(_parts(bodies)):
        try:
            body = {**whole, "workflows": part, "all_or_nothing": together}
            answer = client.call("POST", path("workflows") + ":batch", body=body, key=str(uuid4()))
        except RunrigError as error:
            if not found:
                raise
            return found + [error] * (len(files) - len(found))
        of_part = files[len(found) : len(found) + len(part)]
        found += [_result(file, each, client.url) for file, each in zip(of_part, answer["outcomes"], strict=True)]
        if len(part) < len(bodies):
            warn(f"{len(found):,} of {counted(len(files), 'file')} sent")
    return found


def _parts(bodies: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for body in bodies:
        more = len(json.dumps(body))
        if part and (len(part) == MOST or size + more > LARGEST):
            yield part
            part, size = [], 0
        part.append(body)
        size += more
    yield part


def _result(file: str, outcome: dict[str, Any], url: str) -> Result:
    problem = outcome["problem"]
    if problem is None:
        return workflows.one_of_many(outcome, url)
    error = server_said(problem["status"], json.dumps(problem))
    try:
        with located(shown(file)):
            raise error
    except RunrigError as placed:
        return placed


def report(session: Session, files: Sequence[str], results: Sequence[Result], *, done: str) -> None:
    """Prints *results*, one per file. *done*: what happened to those without an error. Raises Exit if one failed."""
    good = [(file, each) for file, each in zip(files, results, strict=True) if isinstance(each, dict)]
    failed = [(file, each) for file, each in zip(files, results, strict=True) if isinstance(each, RunrigError)]
    in_json = {
        done: [{"file": shown(file)} | each for file, each in good],
        "failed": [{"file": shown(file)} | document(error) for file, error in failed],
    }
    if not session.show(in_json):
        _print(good, done)
        for file, error in failed:
            warn(error.message if isinstance(error, FileProblems) else f"{shown(file)}: {error.message}")
        if failed:
            warn(f"{len(good):,} of {counted(len(files), 'file')} {done}")
    if failed:
        codes = {error.exit_code for _, error in failed}
        raise click.exceptions.Exit(codes.pop() if len(codes) == 1 and not good else _REFUSED)


def _print(good: Sequence[tuple[str, dict[str, Any]]], done: str) -> None:
    if done == "submitted" and good:
        show(Table((Column("File"), Column("Workflow ID")), [(shown(file), each["name"]) for file, each in good]))
    for file, each in good:
        if done != "submitted":
            say(f"# {shown(file)}\n" + each["spec"].rstrip("\n"))
            if each["verdict"] is not None:
                warn(f"{shown(file)}: {each['verdict']['sentence']}")
        for warning in each.get("warnings") or ():
            warn(f"Warning: {shown(file)}: {warning}")
