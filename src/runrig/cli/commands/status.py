"""`runrig status`: one screen about your work and the pools that it is in."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from runrig.cli.commands.queries import gpus_of, nodes_of
from runrig.cli.commands.screen import MOST, repeated, watching
from runrig.cli.lazy import command
from runrig.cli.rendering import times
from runrig.cli.rendering.array_text import summary
from runrig.cli.rendering.nearest_limit import left_s, nearest_limit
from runrig.cli.rendering.output import say, tell
from runrig.cli.rendering.run_text import cause_tells
from runrig.cli.rendering.tables import Column, Table, show
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, path
from runrig.domain.errors import NotFound

Answer = Mapping[str, Any]

_MOST_CAUSES = 5
_ALIVE = ("RUNNING", "PENDING")
_POOLS = (
    Column("Pool"),
    Column("Quota", 3),
    Column("Used", 2),
    Column("Available"),
    Column("LOW", 1),
    Column("Borrowed", 0),
)
_WORK = (
    Column("Status"),
    Column("Workflow ID"),
    Column("GPUs", 2),
    Column("Priority", 1),
    Column("Details", 3, prose=True, below=True),
)


@command("runrig status", "runrig status -w", "runrig status -t json")
@watching
@with_session
def status(session: Session, watch: bool) -> None:
    """Show your workflows that run, wait or ended today, and the GPUs of their pools.

    Details: where a workflow runs, for how long, and the time left until its run time limit; why it is waiting; how
    it failed. The last line is the limit that is nearest: a quota or a run time.
    """
    repeated(session, watch, _asked, _tell)


def _asked(client: Transport) -> dict[str, Any]:
    me = client.get(path("me"))
    query = {"mine": True, "why": True}
    alive = list(client.items(path("workflows"), query | {"status": _ALIVE}, most=MOST))
    alive.sort(key=lambda each: _ALIVE.index(each["status"]))  # The sort is stable: the newest come first.
    latest = client.items(path("workflows"), {"mine": True}, most=MOST)
    ended = [each | {"cause": None, "message": ""} for each in latest if _today(each["end_time"])]
    for each in [each for each in ended if each["status"].startswith("FAILED")][:_MOST_CAUSES]:
        with suppress(NotFound):  # Retention may have deleted it in between.
            whole = client.get(path("workflows", each["id"]))
            each |= {"cause": whole["cause"], "message": whole["message"]}
    names = {each["pool"] for each in alive} | ({me["default_pool"]} - {None})
    found = client.items(path("pools"), {"name": sorted(names)}) if names else ()
    pools = [each for each in found if each["name"] in names]  # A name also finds its subpools.
    return {
        "user": me["user"],
        "pools": pools,
        "workflows": [*alive, *ended],
        "nearest_limit": nearest_limit(pools, alive),
    }


def _today(ended: str | None) -> bool:
    """Whether *ended* is today in the zone of this machine."""
    return ended is not None and times.local(ended)[:10] == f"{datetime.now().astimezone():%Y-%m-%d}"


def _tell(answer: Answer) -> None:
    if answer["pools"]:
        show(Table(_POOLS, [_pool(each) for each in answer["pools"]]))
        say("")
    if answer["workflows"]:
        show(Table(_WORK, [tuple(_row(each)) for each in answer["workflows"]]))
    else:
        say("You have no workflows that run, wait or ended today. `runrig list` shows earlier ones.")
    if answer["nearest_limit"]:
        tell(f"\nNearest limit: {answer['nearest_limit']}.")


def _pool(pool: Answer) -> tuple[str, ...]:
    gpus = pool["gpus"]
    shared = f" + {gpus['shared_left']} shared" if gpus["shared"] else ""
    numbers = (gpus["quota"], gpus["used"], f"{gpus['available']}{shared}", gpus["low"], gpus["borrowed"])
    return (str(pool["name"]), *map(str, numbers))


def _row(entry: Answer) -> Sequence[str]:
    return entry["status"], entry["id"], gpus_of(entry), entry["priority"], "; ".join(_details(entry))


def _details(entry: Answer) -> Iterator[str]:
    if entry.get("array"):
        yield summary(entry["array"])
    if entry["status"] == "RUNNING" and entry["why"]:
        yield entry["why"]["headline"]
    elif entry["status"] == "RUNNING":
        yield f"on {nodes_of(entry)}" if entry["node"] else "starting"
        yield f"ran {times.span(entry['times']['running_s'])}"
        if (left := left_s(entry)) is not None:
            yield f"{times.span(left)} left"
    elif entry["status"] == "PENDING":
        yield (
            entry["why"]["headline"]
            if entry["why"]
            else f"on hold by {entry['held_by']}"
            if entry["held_by"]
            else "queued"
        )
        if waited_s := entry["times"]["waited_s"]:  # It begins when it is in the queue, not while it waits for others.
            yield f"waited {times.span(waited_s)}"
    else:
        yield f"ended {times.local(entry['end_time'])[11:16]}, ran {times.span(entry['times']['running_s'])}"
        if why := entry["cause"]["sentence"] if cause_tells(entry) else entry["message"]:
            yield why
