"""`runrig workflow logs`: output of the tasks, ordered by time."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.options import MOMENT
from runrig.cli.rendering import times
from runrig.cli.rendering.array_text import parts
from runrig.cli.rendering.matching import GAP, matching, pattern_of
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.run_text import described
from runrig.cli.rendering.tables import on_terminal
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.attempt_words import ended_as, next_attempt
from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import few, whole_number
from runrig.domain.workflow_status import WorkflowStatus

Answer = Mapping[str, Any]

ON_TERMINAL = 2_000
"""Default number of lines per task on a terminal."""
_STREAMS = {"out": "stdout", "err": "stderr"}
_MOST_NAMED = 5


@command(
    "runrig logs",
    "runrig logs train-1 -f --tail 20",
    "runrig logs sweep-4/7",
    "runrig logs train-1 --task main --attempt all --times",
    "runrig logs train-1 --stream err --since 10m",
    "runrig logs train-1 -f --grep 'loss|Error' -C 3",
)
@click.argument("id", required=False, shell_complete=completing.workflows)
@click.option("--task", shell_complete=completing.tasks, metavar="NAME", help="Show only this task.")
@click.option("--attempt", metavar="N|all", help="Show only this attempt, counted from 1, or all. Default: the latest.")
@click.option("--retry", type=click.IntRange(min=0), hidden=True)
@click.option(
    "-n",
    "--tail",
    "--lines",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Show only the last lines of each task. Default: {ON_TERMINAL:,} on a terminal, else all.",
)
@click.option("--since", type=MOMENT, help="Show only lines since then: 10m, 2h, today, 2026-01-31T12:00.")
@click.option("--grep", metavar="RE", help="Show only lines that match this regular expression.")
@click.option(
    "-C", "--context", type=click.IntRange(min=0), metavar="N", help="With --grep: also N lines around each match."
)
@click.option(
    "--stream",
    type=click.Choice(["out", "err"]),
    help="Show only stdout or stderr. On Kubernetes, both are stdout.",
)
@click.option("--error", is_flag=True, help="Same as --stream err.")
@click.option("--times", "with_times", is_flag=True, help="Prefix each line with its time.")
@click.option("--no-prefix", is_flag=True, help="Do not prefix lines with their task.")
@click.option("--follow", "-f", is_flag=True, help="Follow the output until the workflow ends.")
@with_session
def logs(
    session: Session,
    id: str | None,
    task: str | None,
    attempt: str | None,
    retry: int | None,
    count: int | None,
    since: str | None,
    grep: str | None,
    context: int | None,
    stream: str | None,
    error: bool,
    with_times: bool,
    no_prefix: bool,
    follow: bool,
) -> None:
    """Print the output of a workflow, ordered by time.

    Without ID: your latest workflow. ID/INDEX is one element of an array.

    The output includes both streams of all tasks. For a failed
    workflow, the reason is printed first, on stderr.
    """
    chosen, pattern = _attempt(attempt, retry), _pattern(grep, context)
    id, element = parts(session.or_latest(id))
    query = {
        "task": task,
        "group": element,
        "attempt": chosen,
        "stream": _STREAMS.get("err" if error else stream or "", "both"),
        "last_lines": count or (ON_TERMINAL if on_terminal() and not (follow or pattern) else None),
        "since": since,
        "follow": follow or None,
        "format": "records",
    }
    read: Iterator[Answer] = map(json.loads, session.client.lines(path("workflows", id, "logs"), query))
    records = read if pattern is None else matching(read, pattern, context or 0)
    if session.as_json:
        found = [each for each in records if each is not None]
        session.show({"workflow": id, "lines": [each["text"] for each in found], "records": found})
    else:
        answer = _only(session.client.get(path("workflows", id)), element)
        for told in (*_attempts(answer, task, chosen), *_cause(answer)):
            warn(told)
        width = 0 if no_prefix or task is not None else width_of(answer)

        def ended(name: str, number: int) -> str:
            return describe_end(session.client.get(path("workflows", id)) if follow else answer, name, number)

        for _, line in lines_of(records, width, with_times=with_times, ended=ended):
            say(line)
    if follow:
        # Without permission to read, the output ends early: that is an error.
        session.client.get(path("workflows", id))


def _only(workflow: Answer, element: str | None) -> Answer:
    """Returns *workflow* with only *element* of its array; None: as it is."""
    if element is None:
        return workflow
    return {**workflow, "groups": [group for group in workflow["groups"] if group["name"] == element], "cause": None}


def _attempt(attempt: str | None, retry: int | None) -> str | int | None:
    """Returns it as the server counts, from 0."""
    if attempt is None:
        return retry
    if attempt == "all":
        return attempt
    number = whole_number(attempt)
    if not number:
        raise InvalidInput.one(f"--attempt {attempt:.80} is not an attempt. Use a number from 1, or all.")
    return number - 1


def _pattern(grep: str | None, context: int | None) -> re.Pattern[str] | None:
    if grep is None:
        if context is not None:
            raise InvalidInput.one("-C requires --grep RE")
        return None
    return pattern_of(grep)


def lines_of(
    records: Iterator[Answer | None], width: int, *, with_times: bool, ended: Callable[[str, int], str]
) -> Iterator[tuple[str, str]]:
    """Yields (stream, line) to print, with a rule before each later attempt of a task; its stream is "".

    *width*: of task names; 0: omit them. *ended*: describes how an attempt ended.
    """
    attempts: dict[str, int] = {}
    for each in records:
        if each is None:
            yield "", GAP
            continue
        name, number = each["task"], each["attempt"]
        before = attempts.setdefault(name, number)
        if number > before:
            yield "", f"── {next_attempt(name, before, number, ended(name, before))}:"
            attempts[name] = number
        at = f"{times.local(each['time'])[11:]}  " if with_times else ""
        yield each["stream"], at + (f"{name:{width}} │ " if width else "") + each["text"]


def describe_end(workflow: Answer, name: str, attempt: int) -> str:
    """Returns how an attempt ended, as the end of a sentence."""
    for group in workflow["groups"]:
        for task in group["tasks"]:
            if (task["name"], task["attempt"]) == (name, attempt):
                return ended_as(task["message"], task["status"])
    return "ended"


def width_of(workflow: Answer) -> int:
    """Returns the width of the longest pod name; 0 if there is only one."""
    names = {task["name"] for group in workflow["groups"] for task in group["tasks"]}
    return max(map(len, names)) if len(names) > 1 else 0


def _cause(workflow: Answer) -> Iterator[str]:
    """Yields why it failed, with the last output of the task."""
    cause = workflow["cause"]
    if cause is not None:
        failed = workflow["status"] == WorkflowStatus.FAILED.value
        yield f"{workflow['id']} {workflow['status']}: {described(cause) if failed else workflow['message'] or described(cause)}"


def _attempts(workflow: Answer, only: str | None, chosen: str | int | None) -> Iterator[str]:
    """Yields which attempt is shown, for tasks with several."""
    of_task: dict[str, int] = {}
    for group in workflow["groups"]:
        for each in group["tasks"]:
            of_task[each["name"]] = max(of_task.get(each["name"], 0), each["attempt"] + 1)
    alike: dict[int, list[str]] = {}
    for name, attempts in of_task.items():
        if attempts > 1 and only in (None, name):
            alike.setdefault(attempts, []).append(name)
    for attempts, names in sorted(alike.items()) if chosen != "all" else ():
        shown = attempts if chosen is None else int(chosen) + 1
        way = "omit --attempt to see the latest" if chosen is not None else "use --attempt all to see them all"
        yield f"attempt {shown} of {attempts}: {few(names, _MOST_NAMED)} ({way})"
