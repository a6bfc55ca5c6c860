"""`runrig usage report`: the usage of a month as one page, for people who do not use the command line."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from runrig.cli import options
from runrig.cli.lazy import command
from runrig.cli.rendering.output import tell
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import InvalidInput

_MONTH = re.compile("([0-9]{4})-(0[1-9]|1[0-2])")

Answer = Mapping[str, Any]


def _month(_: click.Context, __: click.Parameter, typed: str) -> tuple[datetime, datetime]:
    """Returns its begin and end. Raises InvalidInput."""
    found = _MONTH.fullmatch(typed)
    if found is None or found[1] in ("0000", "9999"):
        raise InvalidInput.one(f"--month {typed!r:.40} is not a month. Use for example 2026-10.")
    year, month = int(found[1]), int(found[2])
    begin = datetime(year, month, 1, tzinfo=UTC)
    return begin, begin.replace(year=year + month // 12, month=month % 12 + 1)


@command(
    "runrig usage report --month 2026-10 --html october.html",
    "runrig usage report --month 2026-10 --pool vision --html vision.html",
)
@click.option("--month", required=True, metavar="YYYY-MM", callback=_month, help="The month, in UTC.")
@click.option(
    "--html",
    "file",
    required=True,
    metavar="FILE",
    help="Write the page to FILE; - writes to stdout.",
)
@options.pools(help="Show only this pool and its subpools (repeatable).")
@with_session
def report(session: Session, month: tuple[datetime, datetime], file: str, pools: tuple[str, ...]) -> None:
    """Write a report on the usage of a month.

    The report is one file that needs no server or network. It shows how much of the cluster was in use, and what pools and users used,
    borrowed, waited for and lost. You see the same as with `runrig usage`.
    """
    from runrig.cli.rendering.usage_page import page  # imported here because it needs a template engine

    since, until = month
    times = {"since": since.isoformat(), "until": until.isoformat(), "pool": pools}

    def asked(by: str, every: str | None = None) -> Answer:
        answer: Answer = session.client.get(path("usage"), {"by": [by], "every": every, **times})
        return answer

    text = page(
        session.client.url, asked("pool"), asked("user"), asked("flavor"), asked("pool", "day"), asked("flavor", "day")
    )
    if file == "-":
        click.echo(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput.one(f"{file} cannot be written: {error.strerror}") from None
    if not session.show({"file": file, "since": times["since"], "until": times["until"]}):
        tell(f"Wrote {file}.")
