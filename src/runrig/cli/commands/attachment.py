"""`runrig attach`: follows a workflow until it ends, as `run` and `shell` do: its output, Ctrl-C, and its exit code."""

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import click

from runrig.cli import completing
from runrig.cli.commands.exec import connected
from runrig.cli.commands.follow import ELEMENTS_S, NOT_RUN, POLL_S, exit_code_of, finished, looked
from runrig.cli.commands.logs import describe_end, lines_of, width_of
from runrig.cli.lazy import command
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.array_text import failures
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.run_text import last_lines, nodes_of
from runrig.cli.transport.remote_program import RemoteProgram
from runrig.cli.transport.session import Session, with_session
from runrig.client.channel import CONNECT_S
from runrig.client.failure import NoAnswer
from runrig.client.transport import Transport, Value, path
from runrig.domain.attached import LOST_S, RENEW_S
from runrig.domain.errors import Conflict, RunrigError, ServerFault, Unavailable
from runrig.domain.laws import cited
from runrig.spec.one_task import TASK
from runrig.spec.shell_task import LABEL, LONGEST_ALONE_S, VISITOR

Answer = Mapping[str, Any]
T = TypeVar("T")

ATTACHED_HELP = f"Cancel the workflow on Ctrl-C and SIGTERM, and if this command is gone for {LOST_S} seconds."
DETACHED = 3
AGAIN_S = 2.0
"""How long a second Ctrl-C cancels."""
_SOON_S = 0.3
"""How long the first line waits for a start."""
_NEXT_CYCLE_S = 5.0
_PAUSE_S = 0.5


def soon_of(client: Transport, id: str) -> Answer:
    """Returns the workflow once it has nodes, or after a moment with `why`: the reason why it waits.

    If nothing prevents its start, the next cycle gives it nodes, which a slow server may delay.
    """
    end = time.monotonic() + _NEXT_CYCLE_S
    while True:
        found = looked(client, id, "RUNNING", _SOON_S)
        if found["status"] != "PENDING" or nodes_of(found):
            return found
        if (why := _reason(client, id)) or time.monotonic() > end:
            return {**found, "why": why}


def _reason(client: Transport, id: str) -> str:
    """Returns why the pending workflow waits; "" if it does not."""
    why = client.get(path("workflows", id, "why"))
    reason = next((each for group in why["groups"] for each in group["reasons"]), None)
    if reason is None:  # It is not in the queue: on hold, in a paused pool, or after others.
        return str(why["sentence"]).partition(f"{id} is waiting: ")[2].rstrip(".")
    return f"{reason['sentence']} {cited(reason['law'])}".rstrip()


def followed(client: Transport, id: str, *, returning: bool = False) -> int:
    """Prints the output of the workflow as it comes, then how it ended; returns its exit code. Use in `interruptible`.

    *returning*: the user comes back to it. If it has ended in the meantime, how it ended is printed first.
    """
    if returning and (waits := _lasting(lambda: soon_of(client, id)).get("why")):
        warn(f"{id} waits: {waits}")
    workflow = until_running(client, id)
    was_over = returning and finished(workflow)
    if was_over:
        _tell_end(workflow)

    def ended(name: str, number: int) -> str:
        return describe_end(_lasting(lambda: client.get(path("workflows", id))), name, number)

    told = set[str]()
    with _telling_failures(client, workflow, told):
        for stream, line in lines_of(_records(client, id), width_of(workflow), with_times=False, ended=ended):
            if stream == "stdout":
                say(line)
            else:
                click.echo(sanitize.block(line), err=True)
    workflow = _lasting(lambda: client.get(path("workflows", id)))
    if not was_over:
        for line in failures(workflow, told):
            warn(line)
        _tell_end(workflow)
    return exit_code_of(workflow)


@contextmanager
def _telling_failures(client: Transport, workflow: Answer, told: set[str]) -> Iterator[None]:
    """Inside, prints each element of an array when it has failed, and adds it to *told*."""
    if not workflow.get("array") or finished(workflow):
        yield
        return

    def tell() -> None:
        for line in failures(client.get(path("workflows", workflow["id"])), told):
            warn(line)

    with _repeating(ELEMENTS_S, tell) as teller:
        yield
    teller.join()


@contextmanager
def _repeating(every_s: float, act: Callable[[], None]) -> Iterator[threading.Thread]:
    """Inside, a thread does *act* every *every_s* seconds. The command itself notices that the server is away."""

    def repeat() -> None:
        while not over.wait(every_s):
            with suppress(RunrigError):
                act()

    over, thread = threading.Event(), threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        over.set()


def until_running(client: Transport, id: str) -> Answer:
    """Returns the workflow once it runs or has ended, and prints when and where if it had no nodes before."""
    workflow: Answer = _lasting(lambda: client.get(path("workflows", id)))
    if workflow["status"] != "PENDING":
        return workflow
    placed = nodes_of(workflow)
    while workflow["status"] == "PENDING":
        workflow = _lasting(lambda: looked(client, id, "RUNNING", POLL_S))
    if (where := nodes_of(workflow)) != placed:
        warn(f"{datetime.now().astimezone():%H:%M:%S}   running on {where}")
    return workflow


def visited(client: Transport, id: str) -> int:
    """Runs the shell of `runrig shell` in its task, then prints how the workflow ended; returns its exit code.

    Raises ServerFault if the connection is lost.
    """
    workflow = _lasting(lambda: client.get(path("workflows", id)))
    if not finished(workflow):
        try:
            connected(RemoteProgram(client, id, TASK, list(VISITOR), CONNECT_S))
        except Conflict:  # The task may end before its exit code arrives.
            if not finished(looked(client, id, "COMPLETED", _NEXT_CYCLE_S)):
                raise
        except ServerFault:
            warn(f"Return to {id} within {LONGEST_ALONE_S // 60} minutes: runrig attach {id}")
            raise
    while not finished(workflow):
        workflow = looked(client, id, "COMPLETED", POLL_S)
    warn(next(last_lines(workflow)))
    return exit_code_of(workflow)


def _tell_end(workflow: Answer) -> None:
    for line in last_lines(workflow):
        warn(line)


def _records(client: Transport, id: str) -> Iterator[Answer]:
    """Yields the output until the workflow has ended, over lost connections: each line once."""
    printed: Counter[tuple[str, int, str]] = Counter()

    def more() -> Iterator[Answer]:
        left = printed.copy()
        query: dict[str, Value] = {"attempt": "all", "stream": "both", "follow": True, "format": "records"}
        for each in map(json.loads, client.lines(path("workflows", id, "logs"), query)):
            key = each["task"], each["attempt"], each["stream"]
            if left[key]:
                left[key] -= 1
                continue
            printed[key] += 1
            yield each

    lost_at = None
    while True:
        try:
            for each in more():
                lost_at = None
                yield each
            if finished(client.get(path("workflows", id))):
                return
        except (NoAnswer, Unavailable):
            lost_at = lost_at or time.monotonic()
            if time.monotonic() > lost_at + LOST_S:
                raise
        time.sleep(_PAUSE_S)


def _lasting(ask: Callable[[], T]) -> T:
    """Returns what *ask* does, and asks again while no server responds, up to `LOST_S`."""
    end = time.monotonic() + LOST_S
    while True:
        try:
            return ask()
        except (NoAnswer, Unavailable):
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE_S)


# ---------------------------------------------------------------- Ctrl-C


@contextmanager
def interruptible(client: Transport, id: str, *, attached: bool) -> Iterator[None]:
    """Inside, Ctrl-C detaches from the workflow, and again within `AGAIN_S` cancels it.

    *attached*: Ctrl-C and SIGTERM cancel it. Raises Exit with the exit code of the command.
    """
    before = signal.signal(signal.SIGTERM, _interrupt) if attached else None
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_cancelled(client, id) if attached else _detached(client, id)) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def tied(client: Transport, id: str, *, attached: bool) -> Iterator[None]:
    """Inside, if *attached*, the workflow is tied to this command: the server cancels it if the command is gone for `LOST_S`."""
    if not attached:
        yield
        return

    def renew() -> None:
        client.call("POST", path("workflows", id, "attach"))

    with suppress(Conflict):  # A workflow that has ended needs no lease.
        renew()
    with _repeating(RENEW_S, renew):
        yield


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _detached(client: Transport, id: str) -> int:
    try:
        warn(f"\n{id} keeps running.  Return to it: runrig attach {id}")
        warn(f"{' ' * len(id)}                 Cancel it:    runrig cancel {id}, or press Ctrl-C again now")
        time.sleep(AGAIN_S)
    except KeyboardInterrupt:
        return _cancelled(client, id)
    return DETACHED


def _cancelled(client: Transport, id: str) -> int:
    try:
        client.call("POST", path("workflows", id, "cancel"), body={"message": "cancelled with Ctrl-C"})
    except Conflict:  # It ended before it could be cancelled.
        workflow = client.get(path("workflows", id))
        if finished(workflow):
            _tell_end(workflow)
            return exit_code_of(workflow)
        raise
    warn(f"{id} is cancelled")
    return NOT_RUN


# ---------------------------------------------------------------- `runrig attach`


@command("runrig attach", "runrig attach train-1", "runrig attach train-1 --attached")
@click.argument("id", required=False, shell_complete=completing.workflows)
@click.option("--attached", is_flag=True, help=ATTACHED_HELP)
@with_session
def attach(session: Session, id: str | None, attached: bool) -> None:
    """Follow the output of a workflow, as `runrig run` does.

    Without ID: your latest workflow. Prints the output so far, then new output until it ends.
    Ctrl-C and the exit code work as with `runrig run`. In a workflow of `runrig shell`, it starts a new shell.
    """
    if session.as_json:
        raise click.UsageError("-t json cannot be used here, because the output of the workflow goes to stdout")
    client, id = session.client, session.or_latest(id)
    workflow = client.get(path("workflows", id))
    if LABEL in workflow["labels"] and workflow["status"] == "RUNNING":
        raise click.exceptions.Exit(visited(client, id))
    with interruptible(client, id, attached=attached), tied(client, id, attached=attached):
        raise click.exceptions.Exit(followed(client, id, returning=True))
