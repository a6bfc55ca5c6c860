"""`runrig events`: events of the whole cluster."""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command
from runrig.cli.options import MOMENT, words
from runrig.cli.printed import workflows
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.matching import pattern_of
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.tables import folded, on_terminal, terminal
from runrig.cli.transport.session import Session, with_session
from runrig.client.caller import PAGE
from runrig.client.transport import Query, Transport, path
from runrig.domain.errors import InvalidInput

KINDS = ("submitted", "started", "preempted", "refused", "held", "ended", "failed", "resized", "nodes")

Answer = Mapping[str, Any]


@command(
    "runrig events --since yesterday --kind preempted",
    "runrig events --since 2h --pool vision --user ada",
    "runrig events --kind failed,resized -t json",
    "runrig events -f --node n3 --grep 'exit code|evicted'",
)
@click.option("--since", type=MOMENT, help="Show only events at or after this time.")
@click.option("--until", type=MOMENT, help="Show only events at or before this time.")
@options.pool(help="Show only this pool, its subpools and their workflows.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=words("kind", KINDS),
    metavar="KIND",
    shell_complete=lambda *_: list(KINDS),
    help=f"Show only this kind: {', '.join(KINDS)} (repeatable, or a list with commas). refused: rejected by the "
    "cluster's scheduler.",
)
@options.user(help="Show only what this user did, and what happened to workflows that they submitted.")
@click.option(
    "--workflow", shell_complete=completing.workflows, metavar="ID", help="Show only events of this workflow."
)
@click.option(
    "--node",
    shell_complete=completing.nodes,
    metavar="NAME",
    help="Show only this node, and workflows that run or last ran on it.",
)
@click.option("--grep", metavar="RE", help="Show only events whose text matches this regular expression.")
@click.option("--follow", "-f", is_flag=True, help="Show events as they happen; with --since, past ones first.")
@click.option("--head", is_flag=True, help="Show only the hash of the newest commit, for `runrig verify --head`.")
@with_session
def events(session: Session, grep: str | None, follow: bool, head: bool, **asked: Any) -> None:
    """List cluster events that you may see, oldest first.

    A preemption names the preemptor, the rule, and the lower-cost candidates that could not be used. With -f, JSON is
    one line per event.
    """
    if head:
        _head(session)
        return
    query = {"kind": [kind for kinds in asked.pop("kinds") for kind in kinds], **asked}
    takes = _matching(grep)
    if not follow:
        _list(
            session, filter(takes, session.client.items(path("events"), query)), filtered=any([grep, *query.values()])
        )
        return
    if query.pop("until") is not None:
        raise InvalidInput.one("--until cannot be combined with -f, which does not end")
    for event in filter(takes, _followed(session.client, query)):
        if session.as_json:
            click.echo(json.dumps(workflows.events([event])[0]))
        else:
            print_event(event)


def _head(session: Session) -> None:
    page = session.client.get(path("events"), {"limit": 1})
    session.say(
        {"revision": page["revision"], "head": page["head"]},
        page["head"] or "the log has no hashes yet: the server was upgraded, and nothing has happened since",
    )


def _matching(grep: str | None) -> Callable[[Answer], bool]:
    """The server takes no patterns from users: some take years to match."""
    pattern = re.compile("") if grep is None else pattern_of(grep)
    return lambda event: pattern.search(event["text"]) is not None


def _list(session: Session, found: Iterable[Answer], *, filtered: bool) -> None:
    if session.as_json:
        session.show(workflows.events(found))
        return
    nothing = True
    for event in found:
        nothing = False
        print_event(event)
    if nothing:
        say("no events" + (" match" if filtered else ""))


def print_event(event: Answer) -> None:
    """Prints one line; a terminal gets the text in lines next to the time, or below it if there is little room."""
    time, text = times.local(event["time"]), sanitize.line(event["text"])
    room = terminal().columns - len(time) - 2
    if not on_terminal():
        say(f"{time}  {text}")
    elif room > len(time):
        say("\n".join(f"{'' if at else time:{len(time)}}  {line}" for at, line in enumerate(folded(text, room))))
    else:
        say("\n  ".join((time, *folded(text, terminal().columns - 2))))


def _followed(client: Transport, query: Query) -> Iterator[Answer]:
    """Yields events without end: past ones if *query* has a time, then those that happen."""
    past = query if query["since"] is not None else {"after": int(client.get(path("events"), {"limit": 1})["revision"])}
    live = {name: value for name, value in query.items() if name != "since"}
    revision = yield from _past(client, {**live, **past})
    while True:
        for told in client.followed(live, revision):
            if told.reset and told.revision >= revision:  # The client was away for too long: read what it missed.
                revision = yield from _past(client, {**live, "after": revision})
                break
            if told.reset:
                warn("The server has another event log, such as that of a restored backup. Following it from its end.")
            revision = told.revision
            yield from told.events


def _past(client: Transport, query: Query) -> Generator[Answer, None, int]:
    """Yields past events; returns the last revision that was searched."""
    cursor = None
    while True:
        page = client.get(path("events"), {**query, "limit": PAGE, "cursor": cursor})
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return int(page["revision"])
