"""`runrig workflow watch`: a live view on a terminal, otherwise a line per change; ends with the workflow."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.commands.follow import ENDED_OTHERWISE, ending, finished
from runrig.cli.commands.queries import as_of, task_row
from runrig.cli.lazy import command
from runrig.cli.printed import workflows
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, columns_of, drawn, folded, on_terminal, styled, terminal
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, path
from runrig.domain.quantities import counted

_POLL_S = 0.5
_BAR = 24
"""Width of the bar in characters."""
_COLUMNS = (
    Column("Task"),
    Column("Status"),
    Column("Node", 3),
    Column("GPUs", 1),
    Column("Duration", 2),
    Column("Message", 4, prose=True),
)
_SHOWN = (0, 2, 4, 5, 7, 8)
Answer = Mapping[str, Any]


@command("runrig watch train-1")
@click.argument("id", shell_complete=completing.workflows)
@with_session
def watch(session: Session, id: str) -> None:
    """Follow a workflow until it ends.

    Exit code 0 if it is COMPLETED, 1 if it ended with another status.
    """
    views = _views(session.client, id)
    if session.as_json:
        *_, (last, _) = views
        session.show(last)
    elif on_terminal():
        last = _draw(views)
    else:
        last = _tell(views)
    if last["status"] != "COMPLETED":
        raise click.exceptions.Exit(ENDED_OTHERWISE)


def _views(client: Transport, id: str) -> Iterator[tuple[Answer, str]]:
    """Yields the workflow repeatedly, with why it is waiting ("" if it is not); finished in the last one."""
    while True:
        answer = workflows.workflow(client.get(path("workflows", id)), client.url)
        waits = any(group["status"] == "SCHEDULING" for group in answer["groups"])
        yield answer, str(client.get(path("workflows", id, "why"))["sentence"]) if waits else ""
        if finished(answer):
            return
        time.sleep(_POLL_S)


def _tell(views: Iterator[tuple[Answer, str]]) -> Answer:
    """Prints what is new in each view."""
    told: dict[str, str] = {}
    for answer, why in views:
        for subject, line in _news(answer, why):
            if told.get(subject) != line:
                told[subject] = line
                say(f"{as_of(answer).astimezone():%H:%M:%S}  {line}")
    return answer


def _news(answer: Answer, why: str) -> Iterator[tuple[str, str]]:
    """Yields (subject, line) pairs, to be printed when they change. The status comes last."""
    if why:
        yield "why", sanitize.line(why)
    for group in answer["groups"]:
        for task in group["tasks"]:
            where = f" on {task['node_name']}" if task["node_name"] else ""
            told = task["exit_code"] is None or (task["failure_message"] or "").startswith(
                f"exit code {task['exit_code']}"
            )
            code = "" if told else f" with exit code {task['exit_code']}"
            attempt = f"{task['name']} (attempt {task['retry_id'] + 1})" if task["retry_id"] else task["name"]
            message = f": {task['failure_message']}" if task["failure_message"] else ""
            yield (
                f"{task['name']}/{task['retry_id']}",
                sanitize.line(f"  {attempt} {task['status']}{where}{code}{message}"),
            )
    yield "status", sanitize.line(ending(answer))


def _draw(views: Iterator[tuple[Answer, str]]) -> Answer:
    """Draws each view over the previous one, and leaves the last."""
    height = 0
    for answer, why in views:
        size = terminal()
        lines = picture(answer, why, size.columns)
        # Lines scrolled off the terminal cannot be redrawn, and long names take several lines.
        shown = lines if finished(answer) else _that_fit(lines, size)
        up = f"\x1b[{height}A" if height else ""
        click.echo(f"{up}\r\x1b[J" + "\n".join(shown))
        height = sum(_lines_taken(line, size.columns) for line in shown)
    return answer


def _that_fit(lines: Sequence[str], size: os.terminal_size) -> Sequence[str]:
    taken = accumulate(_lines_taken(line, size.columns) for line in lines)
    return [line for line, height in zip(lines, taken, strict=True) if height < size.lines]


def _lines_taken(line: str, width: int) -> int:
    return max(1, -(-columns_of(click.unstyle(line)) // width))


def picture(answer: Answer, why: str, width: int) -> list[str]:
    """Returns the lines for *answer* on a terminal of *width* columns."""
    # A later attempt replaces earlier ones.
    current = {task["name"]: task for group in answer["groups"] for task in group["tasks"]}
    done = sum(task["status"] in ("COMPLETED", "RESCHEDULED") for task in current.values())
    elapsed = times.span(answer["times"]["total_s"])
    bar = "━" * (_BAR * done // max(1, len(current)))
    head: list[tuple[str, dict[str, Any]]] = [
        (answer["name"], {"bold": True}),
        (answer["status"], {}),
        (f"{bar:{_BAR}}", {"fg": "green"}),
        (f"{done} of {counted(len(current), 'task')}", {}),
        (elapsed, {}),
        (f"pool {answer['pool']}, {answer['priority']}", {"dim": True}),
    ]
    while len("  ".join(text for text, _ in head)) > width and len(head) > 2:  # Only one line can be redrawn.
        head.pop()
    now = as_of(answer)
    rows = [tuple(sanitize.line(task_row(task, now)[at]) for at in _SHOWN) for task in current.values()]
    message = answer.get("failure_message") or why
    said = [styled(line, fg="yellow") for line in folded(sanitize.line(message), width)] if message else []
    first = "  ".join(styled(sanitize.line(text), **how) for text, how in head)
    return [first, *said, *drawn(Table(_COLUMNS, rows), width)]
