"""`runrig workflow wait`."""

import math
import time
from collections.abc import Mapping
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.printed import workflows
from runrig.cli.rendering.array_text import failures
from runrig.cli.rendering.output import tell, warn
from runrig.cli.rendering.run_text import cause_tells, described
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import ANSWER_S, Transport, path
from runrig.domain.errors import Unavailable
from runrig.domain.workflow_status import WorkflowStatus

Answer = Mapping[str, Any]

POLL_S = 20.0
_SHORTEST_POLL_S = 0.2
ELEMENTS_S = 5.0
"""How often the elements of an array are checked."""
_LARGEST_EXIT_CODE = 255
"""Larger ones are runrig's own, such as 3006 for a preempted task."""
_STATUS = click.Choice([status.value for status in WorkflowStatus], case_sensitive=False)
ENDED_OTHERWISE = 1
TIME_UP, NOT_RUN = 124, 125
"""Exit codes where the command of the workflow has none: it reached its time limit; it was cancelled, or could not run."""


@command(
    "runrig wait train-1",
    "runrig wait train-1 train-2 && runrig run -- python compare.py",
    "runrig wait train-1 --for RUNNING --timeout 60",
)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completing.workflows)
@click.option(
    "--for",
    "status",
    type=_STATUS,
    metavar="STATUS",
    help="Status to wait for. Default: any final status.",
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Timeout in seconds. Default: no timeout.")
@with_session
def wait(session: Session, ids: tuple[str, ...], status: str | None, timeout: float | None) -> None:
    """Wait until workflows have ended or reached a status. Without ID, your latest workflow.

    The exit code is that of the command that failed first, 0 if none did; 124 if it reached its time limit; 125 if
    it was cancelled or could not run. Of several workflows, it is that of the first in your list that did not
    complete. Prints each failed element of an array once.

    With --for: 0 when all have the status; 1 if one ended with another one, or had
    already ended when you wait for RUNNING. 75 on timeout.
    """
    if timeout is not None and math.isnan(timeout):
        raise click.UsageError("--timeout must be a number of seconds")
    until = None if timeout is None else time.monotonic() + timeout
    wanted = status or WorkflowStatus.COMPLETED.value
    client = session.client
    each_id = dict.fromkeys(ids) or [session.or_latest(None)]
    seen = [looked(client, id, wanted, 0.0) for id in each_id]  # A wrong ID is reported before the first wait.
    shown, codes = [], []
    for answer in seen:
        came, now = _awaited(client, answer, wanted, until)
        if not came and not finished(now):
            raise Unavailable(f"{now['id']} is {now['status']} after {timeout:g} s. To see why: runrig why {now['id']}")
        shown.append(workflows.workflow(now, client.url))
        codes.append(0 if came else ENDED_OTHERWISE if status else exit_code_of(now))
        if not session.as_json:
            (tell if came else warn)(ending(shown[-1]))
    session.show(shown if len(ids) > 1 else shown[0])
    if code := next(filter(None, codes), 0):
        raise click.exceptions.Exit(code)


def looked(client: Transport, id: str, status: str, seconds: float) -> Answer:
    """Returns the workflow once it has *status*, has finished, or *seconds* are over."""
    query = {"for": status, "timeout": f"{seconds:.3f}"}
    found: Answer = client.get(path("workflows", id, "wait"), query, timeout_s=seconds + ANSWER_S)
    return found


def _awaited(client: Transport, seen: Answer, status: str, until: float | None) -> tuple[bool, Answer]:
    """Waits for a workflow after it was *seen*, and prints failures of elements of an array; *until* None: no timeout.

    Returns True if it has *status*, and the workflow. RUNNING does not count if it had ended before.
    """
    if finished(seen):
        return reached(seen, status) and status != WorkflowStatus.RUNNING.value, seen
    answer, told, poll_s = seen, set[str](), ELEMENTS_S
    while not (reached(answer, status) or finished(answer)):
        begun = time.monotonic()
        ask = poll_s if until is None else max(0.0, min(poll_s, until - begun))
        answer = looked(client, seen["id"], status, ask)
        for line in failures(answer, told):
            warn(line)
        poll_s = ELEMENTS_S if answer.get("array") else POLL_S
        now = time.monotonic()
        if until is not None and now >= until:
            break
        # Do not poll a server that answers immediately, such as one that is stopping.
        time.sleep(0.0 if finished(answer) else max(0.0, min(_SHORTEST_POLL_S, begun + _SHORTEST_POLL_S - now)))
    return reached(answer, status), answer


def exit_code_of(answer: Answer) -> int:
    """The exit code of a workflow that has ended, as `wait` describes it."""
    if answer["status"] == WorkflowStatus.COMPLETED.value:
        return 0
    if answer["status"] == WorkflowStatus.FAILED_EXEC_TIMEOUT.value:
        return TIME_UP
    tasks = [
        task for group in answer["groups"] for task in group["tasks"] if task["status"] == WorkflowStatus.FAILED.value
    ]
    codes = [task["exit_code"] for task in sorted(tasks, key=lambda task: task["end_time"] or "")]
    return next((code for code in codes if code is not None and 0 < code <= _LARGEST_EXIT_CODE), NOT_RUN)


def reached(answer: Answer, status: str) -> bool:
    """Whether the workflow has *status*. RUNNING includes workflows that ran in the meantime, FAILED all failures."""
    now = answer["status"]
    if status == WorkflowStatus.RUNNING.value and finished(answer):
        return answer["start_time"] is not None
    if status == WorkflowStatus.FAILED.value:
        return str(now).startswith(status)
    return bool(now == status)


def finished(answer: Answer) -> bool:
    return answer["status"] not in (WorkflowStatus.PENDING.value, WorkflowStatus.RUNNING.value)


def ending(answer: Answer) -> str:
    """Returns the workflow's status as a sentence, with the cause if a task failed."""
    why = described(answer["cause"]) if cause_tells(answer) else answer.get("failure_message")
    return f"{answer['name']} is {answer['status']}" + (f": {why}" if why else "")
