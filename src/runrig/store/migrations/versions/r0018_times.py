"""How each workflow spent its time, computed from the log."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from alembic import op

from runrig.domain.times import Moment, Times, moment_of
from runrig.store.codec import encode
from runrig.store.columns import UtcDateTime
from runrig.store.migrations.types import JSON, add, optional

revision = "0018"
down_revision = "0017"

AT_ONCE = 1_000
LOST = (3001, 3004, 3006)
KINDS = ("Submit", "Queue", "Unqueue", "Admit", "Release", "MoveGroup", "MoveWorkflow", "Hold", "EndHold", "MoveTask")
LIVE = ("WAITING", "SCHEDULING", "INITIALIZING", "RUNNING")
PENDING = ("PENDING", "RUNNING")

workflows = sa.table("workflows", sa.column("id", sa.String()), sa.column("times", sa.JSON()))
tasks = sa.table("tasks", *(sa.column(name, sa.String()) for name in ("workflow", "name", "group")))
events = sa.table(
    "events",
    sa.column("revision", sa.Integer()),
    sa.column("seq", sa.Integer()),
    sa.column("time", UtcDateTime()),
    sa.column("kind", sa.String()),
    sa.column("action", sa.JSON()),
    sa.column("workflow", sa.String()),
)


def upgrade() -> None:
    add("workflows", *optional(times=JSON))
    connection = op.get_bind()
    found = list(_read(connection))
    for at in range(0, len(found), AT_ONCE):
        update = sa.update(workflows).where(workflows.c.id == sa.bindparam("whose"))
        connection.execute(update.values(times=sa.bindparam("passed", type_=sa.JSON())), found[at : at + AT_ONCE])


def _read(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    groups: dict[str, dict[str, str]] = {}
    for whose, pod, group in connection.execute(sa.select(tasks)):
        groups.setdefault(whose, {})[pod] = group
    chosen = sa.select(events).where(events.c.kind.in_(KINDS), events.c.workflow.is_not(None))
    rows = connection.execute(chosen.order_by(events.c.workflow, events.c.revision, events.c.seq))
    for id, own in groupby(rows, key=attrgetter("workflow")):
        times = _times(own, groups.get(id, {}))
        if times is not None:
            yield {"whose": id, "passed": encode(Times, times)}


def _times(log: Iterator[Any], groups: Mapping[str, str]) -> Times | None:
    """As `State.apply` counts them; None if the first events have been deleted."""
    times: Times | None = None
    stands: dict[str, str] = {}
    admitted: dict[str, float] = {}
    ended: dict[tuple[str, int], float] = {}
    held = over = False
    for row in log:
        action, at = row.action, row.time
        match row.kind:
            case "Submit":
                times = Times(float(action["workflow"]["submit_time"]), Moment.BLOCKED)
                stands = {group["name"]: "WAITING" for group in action["groups"]}
            case "Queue":
                stands[_group(action["gang"]["id"])] = "SCHEDULING"
            case "Unqueue":
                stands[_group(action["gang"])] = "WAITING"
            case "Admit":
                stands[_group(action["gang"])], admitted[_group(action["gang"])] = "INITIALIZING", at
            case "Release":
                admitted.pop(_group(action["gang"]), None)
                continue
            case "MoveGroup":
                stands[action["group"]] = action["status"]
            case "MoveWorkflow":
                over = action["status"] not in PENDING
                held = held and not over
            case "Hold" | "EndHold":
                held = row.kind == "Hold"
            case "MoveTask":
                _, pod, retry = action["key"]
                begin = admitted.get(groups.get(pod, ""))
                if times is not None and action["exit_code"] in LOST and begin is not None:
                    times = times.losing(max(begin, ended.get((pod, retry - 1), 0.0)), at)
                if action["status"] not in LIVE:
                    ended[pod, retry] = at
                continue
        if times is not None:
            times = times.moved(at, None if over else moment_of(set(stands.values()), held=held))
    return times


def _group(gang: str) -> str:
    return gang.partition("/")[2]
