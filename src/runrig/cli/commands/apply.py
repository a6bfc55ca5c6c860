"""`runrig apply`: what a cluster file declares becomes so; prints every change."""

import json
from collections.abc import Mapping
from typing import Any

import click

from runrig.cli.lazy import examples
from runrig.cli.rendering.output import say
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path

_SIGNS = {"create": "+", "update": "~", "delete": "-"}
_KEPT = "! {kind} {name} is kept: something hangs under it that is not in the file"


@click.command(
    epilog=examples(
        "runrig apply -f cluster.yaml --dry-run", "runrig apply -f cluster.yaml", "runrig apply -f - --prune"
    )
)
@click.option("-f", "--file", "file", required=True, metavar="FILE", help="Cluster file; - reads stdin.")
@click.option("--prune", is_flag=True, help="Remove what an earlier apply made and the file no longer has.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@with_session
def apply(session: Session, file: str, prune: bool, dry_run: bool) -> None:
    """Declare cohorts and pools from a cluster file.  Without --prune nothing is ever removed."""
    body = {"file": read_text(file), "prune": prune, "dry_run": dry_run}
    with located(shown(file)):
        answer = session.client.call("POST", path("apply"), body=body)
    if session.show(answer):
        return
    changed = [change for change in answer["changes"] if change["action"] in _SIGNS]
    for change in changed:
        say("\n".join(_lines(change)))
    for change in answer["changes"]:
        if change["action"] == "keep":
            say(_KEPT.format(**change))
    unchanged = len(answer["changes"]) - len(changed)
    done = "changed" if answer["applied"] else "would change"
    say(f"{len(changed)} {done}, {unchanged} unchanged")


def _lines(change: Mapping[str, Any]) -> list[str]:
    head = f"{_SIGNS[change['action']]} {change['kind']} {change['name']}"
    before, after = _flat(change.get("before")), _flat(change.get("after"))
    if change["action"] != "update":
        return [head]
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [head, *(f"    {name}: {_value(before.get(name))} -> {_value(after.get(name))}" for name in differing)]


def _flat(settings: Mapping[str, Any] | None, prefix: str = "") -> dict[str, Any]:
    """``{"quotas": {"gpu": 4}}`` as ``{"quotas.gpu": 4}``."""
    flat: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return flat


def _value(value: object) -> str:
    if value in (None, "", [], {}):
        return "none"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
