"""`runrig workflow list`, `query`, `events` and `spec`: show workflows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.commands.events import print_event
from runrig.cli.lazy import command
from runrig.cli.options import MOMENT
from runrig.cli.printed import workflows
from runrig.cli.rendering import times
from runrig.cli.rendering.array_text import parts, summary
from runrig.cli.rendering.output import say
from runrig.cli.rendering.run_text import last_output
from runrig.cli.rendering.tables import Column, Table, facts, show, show_any
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Value, path
from runrig.domain.errors import NotFound
from runrig.domain.spans import times_in_words
from runrig.domain.workflow_status import WorkflowStatus

_STATUS = click.Choice([status.value for status in WorkflowStatus], case_sensitive=False)


@command(
    "runrig list",
    "runrig list --all --status RUNNING --pool vision",
    "runrig list --label team=vision --label 'run=(a|b)*'",
    "runrig list -t json",
    name="list",
)
@click.option(
    "--count",
    "-c",
    type=click.IntRange(min=1),
    metavar="N",
    default=20,
    show_default=True,
    help="Maximum number of workflows.",
)
@click.option("--offset", type=click.IntRange(min=0), metavar="N", default=0, help="Skip the N newest workflows.")
@click.option("--name", "-n", help="Show only workflows with this text in their name.")
@click.option(
    "--status",
    "-s",
    type=_STATUS,
    multiple=True,
    metavar="STATUS",
    help="Show only this status (repeatable).",
)
@options.users(help="Show only this user (repeatable).")
@click.option("--all", "-a", "all_users", is_flag=True, help="Include workflows of all users.")
@options.pools(help="Show only this pool (repeatable).")
@options.priority(multiple=True, help="Show only this priority (repeatable).")
@click.option(
    "--label",
    multiple=True,
    metavar="K=V",
    help="Show only workflows with this label; V can contain * and (a|b) (repeatable).",
)
@click.option(
    "--no-label",
    multiple=True,
    metavar="K",
    help="Show only workflows without this label key (repeatable).",
)
@click.option("--tag", multiple=True, metavar="TAG", help="Show only workflows with one of these tags (repeatable).")
@click.option("--submitted-after", type=MOMENT, help="Show only workflows submitted at or after this time.")
@click.option("--submitted-before", type=MOMENT, help="Show only workflows submitted at or before this time.")
@with_session
def list_workflows(
    session: Session,
    count: int,
    offset: int,
    users: tuple[str, ...],
    all_users: bool,
    pools: tuple[str, ...],
    **filters: Any,
) -> None:
    """List your workflows, newest first."""
    whose = {"user": () if all_users else users, "mine": None if all_users or users else True}
    query: dict[str, Value] = {**filters, **whose, "pool": pools, "why": True}
    client = session.client
    found = list(client.items(path("workflows"), query, most=offset + count + 1))[offset:]
    entries = [workflows.listed(each, client.url) for each in found[:count]]
    more = len(found) > count
    if session.show({"workflows": entries, "more_entries": more}):
        return
    show_any(table_of(entries), "no workflows" + ("" if all_users else ": --all shows those of all users"))
    if more:
        say(f"More results: use --count {count * 2} or --offset {offset + count}.")


_LISTED = (
    Column("User", 4),
    Column("Workflow ID"),
    Column("Submitted", 0),
    Column("Status", 9),
    Column("Priority", 1),
    Column("Pool", 5),
    Column("GPUs", 6),
    Column("Waited", 3),
    Column("Ran", 2),
    Column("Node or reason", 8, prose=True),
)


def table_of(entries: list[dict[str, Any]]) -> Table:
    rows = [
        (
            workflow["user"],
            workflow["name"],
            times.local(workflow["submit_time"]),
            workflow["status"],
            workflow["priority"],
            workflow.get("pool") or "-",
            gpus_of(workflow),
            times.span(workflow["times"]["waited_s"]),
            times.span(workflow["times"]["running_s"] or None),
            _details(workflow),
        )
        for workflow in entries
    ]
    return Table(_LISTED, rows)


def _details(workflow: Mapping[str, Any]) -> str:
    if workflow.get("array"):
        return summary(workflow["array"])
    return str(workflow["why"]["headline"]) if workflow["why"] else nodes_of(workflow)


def nodes_of(workflow: Mapping[str, Any]) -> str:
    """``n00 and 3 more``."""
    node, nodes = workflow["node"], workflow["nodes"]
    return "-" if node is None else node if nodes == 1 else f"{node} and {nodes - 1:,} more"


def gpus_of(workflow: Mapping[str, Any]) -> str:
    """Returns ``12 of 17`` if it uses fewer GPUs than its tasks request."""
    gpus, asked = workflow["gpus"], workflow["gpus_asked"]
    if gpus is None:
        return "-"
    return str(gpus) if gpus == asked else f"{gpus} of {asked}"


@command("runrig workflow query train-1", "runrig workflow query train-1 -t json")
@click.argument("id", shell_complete=completing.workflows)
@with_session
def query(session: Session, id: str) -> None:
    """Show a workflow and all attempts of its tasks. ID/INDEX is one element of an array."""
    client = session.client
    id, element = parts(id)
    answer = workflows.workflow(client.get(path("workflows", id)), client.url)
    if element is not None:
        answer["groups"] = [group for group in answer["groups"] if group["name"] == element]
        if not answer["groups"]:
            raise NotFound(f"{id} has no element {element!r:.80}")
    if session.show(answer):
        return
    facts(_header(answer))
    say("")
    now = as_of(answer)
    show(Table(_TASK_COLUMNS, [task_row(task, now) for group in answer["groups"] for task in group["tasks"]]))
    for line in last_output(answer["cause"]):
        say(line)


def as_of(answer: Mapping[str, Any]) -> datetime:
    """Returns the time to which *answer* refers, by the server's clock."""
    return times.as_of(answer["submit_time"], answer["times"]["total_s"])


def _waits_s(answer: Mapping[str, Any]) -> float | None:
    """Returns the seconds of its current wait; None if it is not waiting."""
    waits = answer["times"]["now"] == "waited"
    return times.between(answer["times"]["since"], None, now=as_of(answer)) if waits else None


def _header(answer: Mapping[str, Any]) -> tuple[tuple[str, object], ...]:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(answer["labels"].items()))
    return (
        ("Workflow ID", answer["name"]),
        ("Status", answer["status"]),
        ("Message", answer.get("failure_message") or None),
        (
            "Cause" if answer["status"] == WorkflowStatus.FAILED.value else "Last output",
            answer["cause"] and f"{answer['cause']['sentence']} ({answer['cause']['task']})",
        ),
        ("Elements", _elements(answer.get("array"))),
        ("Pool", answer["pool"]),
        ("Priority", answer["priority"]),
        ("User", answer["submitted_by"]),
        ("Cancelled by", answer.get("cancelled_by")),
        ("On hold", answer["held_by"] and f"by {answer['held_by']} since {times.local(answer['held_since'])}"),
        ("Submitted", times.local(answer["submit_time"])),
        ("Started", times.local(answer["start_time"])),
        ("Ended", times.local(answer["end_time"])),
        ("Times", times_in_words(answer["times"], _waits_s(answer))),
        ("Labels", labels or None),
        ("Tags", ", ".join(answer["tags"]) or None),
        *(("Pods", _pods(each)) for group in answer["groups"] for each in group["pods"]),
        ("Restart of", answer.get("parent_name")),
        ("Overview", answer["overview"]),
        *(("Warning", warning) for warning in answer.get("warnings") or ()),
    )


def _elements(array: Mapping[str, Any] | None) -> str | None:
    if array is None:
        return None
    return summary(array) + (f"; at most {array['most']} at a time" if array["most"] else "")


def _pods(pods: Mapping[str, Any]) -> str:
    got = "" if pods["got"] is None else f"{pods['got']} of "
    return f"{pods['task']}: {got}{pods['asked']} (at least {pods['least']})"


_TASK_COLUMNS = (
    Column("Task"),
    Column("Attempt", 1),
    Column("Status"),
    Column("Exit Code", 4),
    Column("Node", 5),
    Column("GPUs", 2),
    Column("Started", 0),
    Column("Duration", 3),
    Column("Message", 6, prose=True),
)


def task_row(task: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    """Returns a task attempt as cells of `query` and `watch`. *now*: by the server's clock."""
    exit_code = task["exit_code"]
    return (
        task["name"],
        str(task["retry_id"]),
        task["status"],
        "-" if exit_code is None else str(exit_code),
        task["node_name"] or "-",
        str(len(task.get("gpus") or ()) or "-"),
        times.local(task["start_time"]),
        times.span(times.between(task["start_time"], task["end_time"], now=now)),
        task["failure_message"] or "",
    )


@command("runrig workflow events train-1", "runrig workflow events train-1 -t json")
@click.argument("id", shell_complete=completing.workflows)
@with_session
def events(session: Session, id: str) -> None:
    """List all events of a workflow, oldest first.

    They include decisions of runrig and events of the cluster.
    """
    answer = workflows.events(session.client.items(path("workflows", id, "events")))
    if not session.show(answer):
        for event in answer:
            print_event(event)


@command("runrig workflow spec train-1", "runrig workflow spec train-1 --template")
@click.argument("id", shell_complete=completing.workflows)
@click.option("--template", is_flag=True, help="Print the file as submitted, before rendering.")
@with_session
def spec(session: Session, id: str, template: bool) -> None:
    """Print the file of a workflow."""
    text = session.client.text(path("workflows", id, "spec"), {"template": template or None})
    session.say({"workflow": id, "spec": text}, text.rstrip("\n"))
