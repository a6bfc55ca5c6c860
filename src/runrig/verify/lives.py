"""Gangs, workflows, pools, budgets and timeouts: more laws, as in `laws`."""

from collections.abc import Iterator
from heapq import heappop
from typing import Any

from .court import Commit, Court
from .gang import ADMITTED, NOMINATED, PENDING, STOPPING, Gang, counted, counts_of
from .laws import Wrong
from .replay import ALIVE, LIMITS, QUEUED, RUN, STEPS
from .world import Action, Row, Scope, month_of

HOUR = 3600 * 1_000_000
"""A GPU-hour in GPU × microseconds."""
EXACT_S = 1e-6
"""Times are whole microseconds."""
_NAMES = {cause: limit.removesuffix("_s") for cause, (limit, _) in LIMITS.items()}
MAY_END = {QUEUED: (PENDING, NOMINATED), RUN: (ADMITTED,)}


def w1_legal_step(court: Court, gang: Gang, action: Action) -> Wrong:
    """Gangs start whole, W1: a gang waits, is nominated, runs and stops in the order of docs/architecture.md."""
    if gang.state not in STEPS[court.kind][0]:
        yield f"{court.kind} of a gang that is {gang.state}"


def w1_inputs_are_done(court: Court, gang: Gang, action: Action) -> Wrong:
    """Gangs start whole, W1: a task group becomes a gang when its inputs are done."""
    row = court.workflow(gang.workflow)
    for name in row.get("upstream", {}).get(gang.id.partition("/")[2], ()):
        if name not in row["done"]:
            yield f"it is queued before group {name} is COMPLETED"


def w1_once(court: Court, gang: Gang, action: Action) -> Wrong:
    """Gangs start whole, W1: a task group is one gang at a time, and none after it was COMPLETED."""
    if gang.was is not None:
        yield f"it is queued while it is {gang.was}"
    if gang.id.partition("/")[2] in court.workflow(gang.workflow).get("done", ()):
        yield "it is queued after it was COMPLETED"


def w1_before_the_end(court: Court, gang: Gang, action: Action) -> Wrong:
    """Gangs start whole, W1: nothing of a workflow is queued or starts after the workflow has ended."""
    if gang.workflow in court.over:
        yield f"{court.kind} after its workflow has ended"


def w2_held_to_the_end(court: Court, gang: Gang, action: Action) -> Wrong:
    """Nothing is lost, W2: a gang leaves its nodes or the queue when its group ends, in the same commit, or by W8."""
    if not court.ending[gang.id] and not court.workflow(gang.workflow).get("aside"):
        yield "it is released, and its group has not ended"


def w2_released(court: Court, gang: None, action: Action) -> Wrong:
    """Nothing is lost, W2: a group that has ended holds and wants nothing."""
    if action["status"] not in ALIVE:
        name = f"{action['workflow']}/{action['group']}"
        if name in court.gangs:
            yield f"{name}: it ends as {action['status']} and is still {court.gangs[name].state}"


def w2_no_gpu_twice(court: Court, gang: Gang, action: Action) -> Wrong:
    """Nothing is lost, W2: no GPU is counted twice, and each pod has as many as it requests."""
    taken: set[tuple[str, int]] = set()
    for need, each in zip(gang.requests, action["placement"], strict=False):
        for share in each["shares"]:
            there = court.nodes.get(share["node"], {}).get("resources", {}).get("gpu", 0)
            if len(share["gpus"]) != share["count"] * need.get("gpu", 0):
                yield f"{share['count']} pods on {share['node']} get GPUs {share['gpus']}"
            for index in share["gpus"]:
                holder = court.gpus.get(share["node"], {}).get(index)
                if (share["node"], index) in taken or holder is not None or not 0 <= index < there:
                    yield f"GPU {index} of {share['node']} is {f'held by {holder}' if holder else 'assigned twice'}"
                    return
                taken.add((share["node"], index))


def w3_hold(court: Court, gang: Gang, action: Action) -> Wrong:
    """Hold, W3: groups of a workflow on hold that have not started stay outside the queue; also W8."""
    row = court.workflow(gang.workflow)
    if row.get("held_by") or row.get("aside"):
        yield "it starts while its workflow is on hold"


def w4_elements_at_a_time(court: Court, gang: Gang, action: Action) -> Wrong:
    """Arrays, W4: an element starts only while fewer elements of its array are on nodes than may be."""
    most = court.workflow(gang.workflow).get("most")
    if most is not None and gang.state != ADMITTED:
        others = court.on_nodes[gang.workflow]
        if others >= most:
            yield f"{gang.workflow} has {counted(others, 'element')} on nodes, but at most {most} may be"


def w5_others_have_ended(court: Court, gang: Gang, action: Action) -> Wrong:
    """After, W5: a dependent workflow is queued when the workflows that it names have ended as they must."""
    for each in court.workflow(gang.workflow).get("after", ()):
        status, name = each["ended"], "/".join(filter(None, (each["workflow"], each.get("element"))))
        if status is None and each["workflow"] not in court.workflows:
            continue  # Retention deleted the workflow, so how it ended is unknown.
        if status is None:
            yield f"it is queued before {name} has ended"
        elif each["when"] != "any" and (each["when"] == "ok") != (status == "COMPLETED"):
            yield f"it is queued although {name} is {status}"


def w6_waiting_limit(court: Court, gang: None, action: Action) -> Wrong:
    """Limits, W6: at most so many workflows of a user wait in a pool and its subpools, and over all pools."""
    workflow = action["workflow"]
    top, user = workflow["pool"].partition("--")[0], workflow["submitted_by"]
    in_pool = court.pools.get(workflow["pool"], {}).get("user_waiting")
    over_all = court.limits.get(user, {}).get("waiting")
    theirs = [*court.pending.get(user, {}).values()] if (in_pool, over_all) != (None, None) else []
    here = [each for each in theirs if each["pool"].partition("--")[0] == top]
    for most, waiting, where in ((in_pool, len(here), top), (over_all, len(theirs), "all pools")):
        if most is not None and waiting >= most:
            has = f"{user} has {counted(waiting, 'workflow')} waiting"
            yield f"{workflow['id']} is submitted although {has} in {where}, which allows {most}"


def w6_user_gpus(court: Court, gang: Gang, action: Action) -> Wrong:
    """Limits, W6: one user holds up to `user_gpus` GPUs in a pool and its subpools, and up to a limit of their own over all
    pools. A nomination holds them already.
    """
    for where, most, held in court.limits_of_user(gang) if gang.state == PENDING else ():
        gpus = gang.gpus(counts_of(action["placement"]))
        if held + gpus > most:
            has = f"{gang.user} already uses {held} in {where or 'all pools'}"
            yield f"it uses {counted(gpus, 'GPU')} while {has}; the limit is {most}"


def n2_drain(court: Court, gang: Gang, action: Action) -> Wrong:
    """Drain, N2: a drain stops only gangs on cordoned nodes."""
    if action["cause"] == "FAILED_EVICTED":
        nodes = [court.nodes.get(share["node"]) for each in gang.placement for share in each["shares"]]
        if not any(node is None or node.get("cordoned") for node in nodes):
            yield "it is evicted, and none of its nodes is cordoned"


def s1_shares_add_up(court: Court, commit: Commit) -> Wrong:
    """Shares add up, S1: the subpools of a pool together have at most its quota."""
    pools = court.pools
    edited = {action["pool"]["parent"] or action["pool"]["name"] for kind, action in commit.events if kind == "PutPool"}
    for parent in sorted(edited & pools.keys()):
        subpools = [each for each in pools.values() if each["parent"] == parent and each["state"] != "ARCHIVED"]
        for key in sorted({key for each in subpools for key in each["quotas"]}):
            whole, *parts = (each["quotas"].get(key, {}).get("nominal", 0) for each in (pools[parent], *subpools))
            if sum(parts) > whole:
                yield f"pool {parent}: its subpools have {sum(parts)} {key}, but it has {whole}"


def s3_drains(court: Court, gang: None, action: Action) -> Wrong:
    """Drain, S3: a deleted pool lets started work finish, then is ARCHIVED."""
    name = action["pool"]["name"]
    for each in court.gangs.values() if action["pool"]["state"] == "ARCHIVED" else ():
        if each.pool == name and each.state in (ADMITTED, STOPPING):
            yield f"pool {name} is ARCHIVED while {each.id} runs there"
            return


def s6_history(court: Court, gang: None, action: Action) -> Wrong:
    """History, S6: every change of a pool is logged, with what was before."""
    new = action.get("pool") or action["cohort"]
    known = (court.pools if "pool" in action else court.cohorts).get(new["name"])
    if "before" in action and _set_in(action["before"]) != _set_in(known):
        yield f"{new['name']} is changed from values that it did not have"


def _set_in(settings: Row | None) -> Any:
    """*settings* without those that are not set: a log of an older release does not have the newest of them."""
    return {name: each for name, each in (settings or {}).items() if each not in (None, "", [])}


def s7_closed_pools(court: Court, gang: None, action: Action) -> Wrong:
    """Closed pools, S7: a closed pool accepts no submissions, and neither does one that is deleted (S3)."""
    name = action["workflow"]["pool"]
    for each in court.with_parent(name):
        if each["state"] != "ACTIVE" or each.get("closed_by"):
            state = each["state"] if each["state"] != "ACTIVE" else "closed"
            yield f"{action['workflow']['id']} is submitted to pool {name} while {each['name']} is {state}"
            return


def s8_paused_pools(court: Court, gang: Gang, action: Action) -> Wrong:
    """Paused pools, S8: a paused pool starts none of its submissions, and neither do its subpools."""
    for each in court.with_parent(gang.pool):
        if each.get("paused_by"):
            yield f"it starts while pool {each['name']} is paused"


def _budget_of(court: Court, scope: Scope) -> tuple[int | None, str]:
    """GPU-hours a month, and what a reached budget does; None: there is none."""
    of, name = scope
    row = court.pools.get(name, {}) if of == "pool" else court.limits.get(name, {})
    return row.get("budget") if row.get("state") != "ARCHIVED" else None, row.get("budget_reached") or "STOP"


def w7_reached(court: Court, gang: Gang, action: Action) -> Wrong:
    """Budgets, W7: nothing new starts once the GPU-hours of a month are held, or only LOW work."""
    for scope in [scope for scope in gang.scopes if scope in court.spent]:
        budget, does = _budget_of(court, scope)
        if budget is None or (does == "BORROW" and not gang.firm):
            continue
        held = court.spent_by(scope)
        if held >= budget * HOUR:
            has = f"{' '.join(scope)} has used {held / HOUR:.1f} of {counted(budget, 'GPU-hour')}"
            yield f"it starts although {has} this month"


def w7_said(court: Court, gang: None, action: Action) -> Wrong:
    """Budgets, W7: the recorded amounts agree with the rest of the log."""
    spent = action["spent"]
    scope = spent["of"], spent["name"]
    budget, does = _budget_of(court, scope)
    whose, held = " ".join(scope), spent["held"]
    mine = court.spent_by(scope) if scope in court.spent else held
    if held != mine:
        yield f"the log says that {whose} used {held / HOUR:.6f} GPU-hours this month, but it used {mine / HOUR:.6f}"
    if spent["month"] != month_of(court.now):
        yield f"the budget of {whose} is counted in a month that begins at {spent['month']:.0f}"
    if action["budget"] != budget:
        yield f"the log says that the budget of {whose} is {counted(action['budget'], 'GPU-hour')}, but it is {budget}"
    stops = does if budget is not None and held >= budget * HOUR else None
    if spent["stops"] != stops:
        yield f"{whose} used {held / HOUR:.1f} of {budget} GPU-hours, so {stops} applies, not {spent['stops']}"


def p6_in_time(court: Court) -> Iterator[tuple[Gang, str]]:
    """Run time limits, P6: at the end of a cycle no group waits or runs beyond its timeout."""
    while court.ends and court.ends[0][0] + EXACT_S < court.now:
        end, name, cause = heappop(court.ends)
        gang = court.gangs.get(name)
        if gang is None or end != court.due.get((name, cause)) or gang.state not in MAY_END[cause]:
            continue
        if not court.workflow(gang.workflow).get("aside"):
            yield gang, f"its {_NAMES[cause]} ended {court.now - end:.6f} s before the end of a cycle"


def p6_ends_in_time(court: Court, gang: Gang | None, action: Action) -> Wrong:
    """Run time limits, P6: nothing ends for its `exec_timeout` or `queue_timeout` before that has run out."""
    cause = action["cause"] if gang else action["status"]
    if cause not in (LIMITS if gang else (QUEUED,)):
        return
    name = gang.id if gang else f"{action['workflow']}/{action['group']}"
    end, whose = court.due.get((name, cause)), "" if gang else f"{name}: "
    if not court.workflow(name.partition("/")[0]).get("timed"):
        return  # The log does not say.
    if end is None:
        yield f"{whose}it ends as {cause}, and has no {_NAMES[cause]} that could have run out"
    elif court.now + EXACT_S < end:
        yield f"{whose}it ends as {cause} {end - court.now:.6f} s too early"


def p6_run_time(court: Court, gang: None, action: Action) -> Wrong:
    """Run time limits, P6: a pool accepts only work whose `exec_timeout` is within its maximum, also when work moves there."""
    if "pool" in action:  # It moves.
        name, pool, row = action["workflow"], action["pool"], court.workflow(action["workflow"])
        timed, asked = row.get("timed") and row["pool"] != pool, row.get("limits", {}).get(RUN)
    else:
        name, pool = action["workflow"]["id"], action["workflow"]["pool"]
        timed, asked = "exec_timeout_s" in action, action.get("exec_timeout_s")
    most = court.pools.get(pool, {}).get("max_run_time_s")
    if timed and most is not None and (asked is None or asked > most):
        yield f"{name} is accepted with exec_timeout {asked} s, but pool {pool} allows at most {most:.0f} s"
