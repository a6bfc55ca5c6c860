"""`runrig admin usage`: compares the stored usage with the event log."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from runrig.cli import options
from runrig.cli.commands.backup import place
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group, together
from runrig.cli.options import MOMENT
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, show
from runrig.client.server_address import ServerAddress
from runrig.domain.quantities import counted
from runrig.domain.usage import KEYS, MICROSECONDS
from runrig.domain.value import at

if TYPE_CHECKING:
    from runrig.wiring.usage_check import Difference, Recount

SHOWN = 40
_NAMES = ("pool", "flavor", "priority", "user")
_HOUR_US = 3600 * MICROSECONDS


_place_options = together(
    options.config(),
    options.data,
    click.option(
        "--since", type=MOMENT, help="From the beginning of this day, in UTC. Default: as far as the log goes."
    ),
    options.as_json(),
)


@group("runrig admin usage check --since 7d", "runrig admin usage rebuild --config /etc/runrig/serve.yaml")
def usage() -> None:
    """Compare stored usage with the event log."""


@command("runrig admin usage check", "runrig admin usage check --config /etc/runrig/serve.yaml --since 7d", of=usage)
@_place_options
@click.pass_obj
def check(address: ServerAddress, config: str | None, data: str | None, since: str | None, as_json: bool) -> int:
    """Count usage again from the event log, and compare it with the stored sums.

    Changes nothing. You can run this while the server is up. The exit code is 1 if they differ.
    """
    from runrig.wiring.usage_check import check_usage

    found = check_usage(place(address, config, data)[0], _seconds(since))
    _show(found, as_json=as_json)
    return 1 if found.differences else 0


@command(
    "runrig admin usage rebuild",
    "runrig admin usage rebuild --config /etc/runrig/serve.yaml --since 7d --yes",
    of=usage,
)
@options.yes
@_place_options
@click.pass_obj
def rebuild(
    address: ServerAddress, config: str | None, data: str | None, since: str | None, as_json: bool, yes: bool
) -> None:
    """Replace stored sums that differ from the event log.

    Stop the server first. `runrig admin usage check` shows what would be replaced. All sums are replaced together or not at all.
    """
    from runrig.wiring.usage_check import rebuild_usage

    def before(found: "Recount") -> None:
        if not as_json:
            _show(found, as_json=False)
        confirmed(f"Replace the sums of {_buckets(found)}?", yes=yes)

    found = rebuild_usage(place(address, config, data)[0], _seconds(since), before)
    if as_json or not found.differences:
        _show(found, as_json=as_json)
    else:
        say(f"replaced the sums of {_buckets(found)}")


def _seconds(since: str | None) -> float | None:
    return None if since is None else datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp()


def _show(found: "Recount", *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(_shown(found), indent=2))
        return
    if not sum(found.compared.values()):
        say("no closed hours to compare. Use an earlier --since, or try again in an hour")
        return
    compared = f"{counted(found.compared[1], 'hour')} and {counted(found.compared[24], 'day')}"
    say(f"compared {compared}, {at(found.begin):%Y-%m-%d %H:%M} to {at(found.end):%Y-%m-%d %H:%M} UTC")
    if not found.differences:
        say("the stored usage agrees with the event log")
        return
    say(f"{counted(len(found.differences), 'sum differs', 'sums differ')} from the event log, in GPU-hours:")
    names = ("From", "Hours", "Pool", "Flavor", "Priority", "User", "Sum", "Stored", "In the log")
    rows = [_row(each) for each in found.differences[:SHOWN]]
    show(Table(tuple(map(Column, names)), rows))
    if len(found.differences) > SHOWN:
        more = len(found.differences) - SHOWN
        say(f"and {counted(more, 'other', 'others')}. Use -t json to see all")


def _row(each: "Difference") -> tuple[str, ...]:
    names = _names(each)
    amounts = (f"{amount / _HOUR_US:,.4f}" for amount in (each.stored, each.counted))
    begin = f"{at(each.begin):%Y-%m-%d %H:%M}"
    return begin, str(each.hours), *(names.get(name) or "-" for name in _NAMES), each.key[-1], *amounts


def _names(each: "Difference") -> dict[str, str]:
    return dict(zip(KEYS[each.key[0]], each.key[1:-1], strict=True))


def _shown(found: "Recount") -> dict[str, Any]:
    """Amounts in GPU-seconds."""
    return {
        "since": _time(found.begin),
        "until": _time(found.end),
        "hours": found.compared[1],
        "days": found.compared[24],
        "differences": [
            {"time": _time(each.begin), "hours": each.hours}
            | {name: _names(each).get(name) for name in _NAMES}
            | {"sum": each.key[-1]}
            | {"stored": each.stored / MICROSECONDS, "counted": each.counted / MICROSECONDS}
            for each in found.differences
        ],
    }


def _time(seconds: int) -> str:
    return f"{at(seconds):%Y-%m-%dT%H:%M:%SZ}"


def _buckets(found: "Recount") -> str:
    hours, days = (sum(1 for hours, _ in found.wrong if hours == length) for length in (1, 24))
    parts = [counted(number, noun) for number, noun in ((hours, "hour"), (days, "day")) if number]
    return " and ".join(parts) or "the current hour"
