"""`runrig export`: prints everything declared as a cluster file, or the event log."""

import sys

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import InvalidInput


@command(
    "runrig export > cluster.yaml",
    "runrig export | runrig apply -f - --dry-run",
    "runrig export --events > events.jsonl",
    "runrig export --events postgresql:///runrig > events.jsonl",
)
@click.option("--events", is_flag=True, help="Export the event log of DATABASE, for `runrig verify`.")
@click.argument("database", required=False, shell_complete=completing.files)
@with_session
def export(session: Session, events: bool, database: str | None) -> None:
    """Export pools, cohorts and roles as a cluster file.

    Applying it to the same server changes nothing.

    With --events, export the event log without a server: one line of JSON per event, without commands, environment
    variables and credentials. DATABASE is a SQLite file, a PostgreSQL URL or a backup; by default, the database of `runrig up` on this
    machine.
    """
    if events:
        from runrig.wiring.event_export import export_events

        export_events(database or str(session.server_address.database()), sys.stdout)
        return
    if database is not None:
        raise InvalidInput.one(
            f"{database!r:.80} names a database, which only --events reads. Add --events, or leave it out"
        )
    answer = session.client.get(path("cluster-file"))
    session.say(answer, answer["file"].removesuffix("\n"))
