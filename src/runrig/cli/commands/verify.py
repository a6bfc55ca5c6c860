"""`runrig verify`: checks the decisions in an event log."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command
from runrig.cli.rendering.output import say
from runrig.client.server_address import ServerAddress
from runrig.domain.errors import InvalidInput


@command(
    "runrig verify",
    "runrig verify runrig-monday.backup --from 1200",
    "runrig verify runrig.db --law P4,R3 -t json",
    "runrig verify --live --textfile /var/lib/node_exporter/runrig.prom",
    "runrig verify events.jsonl --head 3f9c0a7e51b2d8c64e90f1a3b7d5c28e6a04f9b1d3c7e582a60b94f8d1e3c57a",
)
@click.argument("file", required=False, shell_complete=completing.files)
@click.option(
    "--from", "since", type=click.IntRange(min=0), default=0, metavar="REVISION", help="Check from this revision on."
)
@click.option("--law", "laws", default="", metavar="LAWS", help="Check only these rules, such as P4,R3.")
@click.option(
    "--head", default="", metavar="HASH", help="Hash of a commit that you noted: it must still be in the log."
)
@options.as_json(help="json: one line per violation, then the totals.")
@click.option(
    "--live",
    is_flag=True,
    help="Follow the database of a running server, and end at the first violation. FILE can be its URL.",
)
@click.option(
    "--textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --live: write metrics for Prometheus to this file.",
)
@click.pass_obj
def verify(
    address: ServerAddress,
    file: str | None,
    since: int,
    laws: str,
    head: str,
    as_json: bool,
    live: bool,
    textfile: Path | None,
) -> int:
    """Check every decision in an event log against the scheduling rules.

    FILE is a SQLite database, a backup or an export of the event log; by default, the database of `runrig up` on this
    machine. It is only read, also while the server runs. The exit code is 0 if all decisions follow the rules, 1 if one does not
    or the log was changed, 2 if the file cannot be read. With --live, it checks new decisions within a second.
    """
    from runrig.verify.chain import Unreadable
    from runrig.verify.verify import check, known_hash, known_laws

    path = file or str(address.database())
    try:
        chosen, noted = known_laws(laws), known_hash(head)
        if live:
            if noted:
                raise InvalidInput.one("--head cannot be combined with --live, which checks only new commits")
            if textfile is not None and (textfile.is_symlink() or (textfile.exists() and not textfile.is_file())):
                raise InvalidInput.one(
                    f"--textfile {textfile} would be replaced, but is not a regular file. Use another path"
                )
            return _follow(path, since, chosen, as_json=as_json, textfile=textfile)
        if textfile is not None:
            raise InvalidInput.one("--textfile needs --live")
        return check(path, since=since, laws=chosen, head=noted, as_json=as_json, say=say)
    except Unreadable as error:
        raise InvalidInput.one(str(error)) from error


def _follow(path: str, since: int, laws: Sequence[str], *, as_json: bool, textfile: Path | None) -> int:
    """Begins at the last snapshot before *since*, or at the last one of all."""
    from runrig.verify.chain import Item
    from runrig.verify.live import follow
    from runrig.verify.reading import log, snapshots
    from runrig.verify.verify import Checker

    read: Callable[[int], Iterable[Item]] = partial(log, path)
    kept: Iterable[int]
    if "://" in path:
        from runrig.wiring.event_export import url_log, url_snapshots

        kept, read = url_snapshots(path), partial(url_log, path)
    else:
        kept = snapshots(path)
    begin = max((at for at in kept if not since or at < since), default=0)
    checker = Checker(since=since, laws=laws)
    return follow(read, begin, checker, name=path, as_json=as_json, say=say, textfile=textfile)
