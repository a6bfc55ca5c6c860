"""`runrig notify`: notices of your workflows by webhook or mail."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runrig.cli.lazy import command
from runrig.cli.options import words
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import tell
from runrig.cli.transport.session import Session, with_session
from runrig.client.folders import settings_folder
from runrig.client.saved import write_private
from runrig.client.transport import path
from runrig.domain.errors import InvalidInput, ServerFault
from runrig.domain.instants import seconds_of
from runrig.domain.notices import USUAL, When, place
from runrig.domain.spans import span

Answer = Mapping[str, Any]

OFF, TEST = "off", "test"


def _seconds(_: click.Context, __: click.Parameter, typed: str) -> int:
    """Raises InvalidInput."""
    if (found := seconds_of(typed)) is None:
        raise InvalidInput.one(f"--min-run {typed} is not a duration. Use 30s, 10m, 2h or 1d.")
    return found


@command(
    "runrig notify --to ann@example.org",
    "runrig notify --to https://hooks.example.org/runrig --when done,fail --min-run 10m",
    "runrig notify",
    "runrig notify test",
    "runrig notify off",
)
@click.argument("act", required=False, type=click.Choice([OFF, TEST]), metavar="[off|test]")
@click.option("--to", metavar="ADDRESS", help="Send notices to this https or mail address.")
@click.option(
    "--when",
    default=",".join(USUAL),
    show_default=True,
    type=words("event", [each.value for each in When]),
    help=f"Events, separated by commas: {', '.join(When)}.",
)
@click.option(
    "--min-run",
    default="0s",
    metavar="TIME",
    callback=_seconds,
    help="Send no notice of the end of a workflow that ran for less, such as 10m.",
)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the secret that signs notices to a new https address. Default: notify-secret, next to your logins.",
)
@with_session
def notify(
    session: Session, act: str | None, to: str | None, when: tuple[str, ...], min_run: int, secret_file: Path | None
) -> None:
    """Get a notice when one of your workflows fails or is preempted.

    Without options, show what is set and the last result. Notices to an https address are signed; see docs/notices.md.
    """
    client, route = session.client, path("me", "notices")
    if to is not None and act is not None:
        raise click.UsageError(f"use --to or {act}, not both")
    if act == TEST:
        result = client.call("POST", route + ":test")["result"]
        if result != "delivered":
            raise ServerFault(f"the test notice did not arrive: {result}")
        if not session.show({"result": result}):
            tell("The test notice arrived.")
        return
    if act == OFF:
        client.call("DELETE", route)
    elif to is not None:
        found = _without_secret(
            client.call("PUT", route, body={"to": to, "when": when, "min_run_s": min_run}), secret_file
        )
    if to is None:
        found = client.get(route)
    if not session.show(found):
        tell("\n".join(map(sanitize.line, _lines(found))))


def _without_secret(found: dict[str, Any], file: Path | None) -> Answer:
    """Writes the secret to a file: what is printed ends in logs and on shared screens."""
    secret = found.pop("secret")
    if secret is not None:
        target = file or settings_folder() / "notify-secret"
        otherwise = "use --secret-file, after `runrig notify off`"
        found["secret_file"] = str(write_private(target, f"{secret}\n", otherwise).absolute())
    return found


def _lines(found: Answer) -> list[str]:
    if found["to"] is None:
        return ["Notices are off. Turn them on with `runrig notify --to https://HOST/PATH`, or your mail address."]
    least = f", after a run of at least {span(found['min_run_s'])}" if found["min_run_s"] else ""
    lines = [f"Notices go to {place(found['to'])}: {', '.join(found['when'])}{least}."]
    if "secret_file" in found:
        lines.append(f"They are signed with the secret in {found['secret_file']}.")
    if found["tried_at"] is not None:
        lines.append(f"Last attempt {times.local(found['tried_at'])}: {found['result']}.")
    if found["waiting"]:
        lines.append(f"Waiting to be delivered: {found['waiting']}.")
    return lines
