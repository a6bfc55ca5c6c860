"""A plan, as an answer."""

from typing import Any

from runrig.api.v1.answers.declared import change
from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.engine.foresight.consequences import Loss, Never, Preempted, Start
from runrig.engine.foresight.outcome import Party, PoolRow
from runrig.service.foresight.plans import Planned
from runrig.wire import v1


def plan(planned: Planned, verdict: WorkflowDryRun | None) -> v1.Plan:
    found = planned.seen.consequences
    return v1.Plan.model_validate(
        {
            "revision": found.revision,
            "verdict": verdict,
            "rests": found.rests,
            "cycles": found.cycles,
            "changes": [change(each) for each in planned.changes],
            "nodes": list(planned.nodes),
            "starts": [_start(each) for each in found.starts],
            "waits": [_start(each) for each in found.waits],
            "preempted": [_preempted(each) for each in found.preempted],
            "spared": [_preempted(each) for each in found.spared],
            "moves": [_gang(each) for each in found.moves],
            "loses": [_loss(each) for each in found.loses],
            "cancels": [_gang(each) for each in found.cancels],
            "stays": [_gang(each) for each in found.stays],
            "exposed": [
                {name: getattr(each, name) for name in ("pool", "resource", "held", "nominal")}
                | {"gangs": [_gang(gang) for gang in each.gangs]}
                for each in found.exposed
            ],
            "never": [_never(each) for each in found.never],
            "drains": [
                {"pool": each.pool, "workflows": each.workflows, "gpus": each.gpus, "until": v1.at(each.until)}
                for each in found.drains
            ],
            "pools": [
                {"pool": each.pool, "before": _row(each.before), "after": _row(each.after)} for each in found.pools
            ],
            "others": {
                name: {"gangs": each.gangs, "gpus": each.gpus} for name, each in sorted(planned.seen.others.items())
            },
        }
    )


def _gang(party: Party) -> dict[str, Any]:
    return {"gang": party.gang, "pool": party.pool, "priority": party.priority, "gpus": party.gpus}


def _start(each: Start) -> dict[str, Any]:
    nodes = sorted({share.node for assignment in each.placement for share in assignment.shares})
    return _gang(each.party) | {"nodes": nodes}


def _preempted(each: Preempted) -> dict[str, Any]:
    return _gang(each.party) | {"by": each.by, "law": each.law.value, "again": each.again}


def _loss(each: Loss) -> dict[str, Any]:
    return _gang(each.party) | {"cause": each.cause, "then": each.then}


def _never(each: Never) -> dict[str, Any]:
    return _gang(each.party) | {"why": each.why}


def _row(row: PoolRow) -> dict[str, Any]:
    state = None if row.state is None else row.state.value
    numbers = {name: getattr(row, name) for name in ("quota", "used", "total", "available", "waiting")}
    return {"state": state, **numbers}
