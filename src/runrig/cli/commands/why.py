"""`runrig workflow why`: the sentence first, then the laws with their numbers, then who took the room before."""

from collections.abc import Mapping
from typing import Any

import click

from runrig.cli.lazy import examples
from runrig.cli.printed import workflows
from runrig.cli.rendering import times
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.quantities import format_quantity


@click.command(epilog=examples("runrig workflow why train-1", "runrig workflow why train-1 -t json"))
@click.argument("id")
@with_session
def why(session: Session, id: str) -> None:
    """Why the workflow ID waits, with the law and its numbers; who preempted it, and under which law."""
    answer = workflows.why(session.client.get(path("workflows", id, "why")))
    if session.show(answer):
        return
    say(f"{answer['workflow']}  {answer['status']}")
    say(answer["sentence"])
    for group in answer["groups"]:
        say("\n" + "\n".join(_lines(group)))


def _lines(group: Mapping[str, Any]) -> list[str]:
    lines = [f"{group['group']}  {group['state']}{_position(group)}"]
    if group["waits_for"]:
        lines.append(f"  waits for {', '.join(group['waits_for'])}")
    for reason in group["reasons"]:
        lines += _reason(reason)
    for preemption in group["preempted"]:
        lines.append(f"  {times.local(preemption['at'])}  {preemption['law']}  {preemption['sentence']}")
    return lines


def _position(group: Mapping[str, Any]) -> str:
    """Its place in the queue of the pool.  0: it has a place on nodes, and waits for others to stop."""
    if not group["position"]:
        return ""
    ahead = f", {group['ahead']} ahead of it in all pools" if group["ahead"] else ""
    return f"  number {group['position']} in the queue of its pool{ahead}"


def _reason(reason: Mapping[str, Any]) -> list[str]:
    law = f"  law {reason['law']:3} {reason['code']}: {reason['sentence']}"
    lines = [law]
    if reason["where"] and reason["resource"]:
        kind = str(reason["resource"]).rpartition("/")[2]
        have, need = (format_quantity(kind, reason[name]) for name in ("have", "need"))
        lines.append(f"          at {reason['where']}  {reason['resource']}  have {have}  need {need}")
    for each in reason["domains"]:
        lacks = [f"{format_quantity(kind, amount)} {kind}" for kind, amount in each["missing"].items()]
        short = f"lacks {' and '.join(lacks)}" if lacks else "has enough in all, not on single nodes"
        lines.append(f"          {'/'.join(each['domain'])}: {each['have']} of {reason['need']} pods fit, {short}")
    return lines
