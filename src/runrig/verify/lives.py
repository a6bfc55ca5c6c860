"""Placement, workflows and pools: a law of docs/laws.md is a function, which yields what is wrong."""

from collections.abc import Iterator, Mapping
from heapq import heappop
from typing import Any

from .budgets import HOUR, budget_of, month_of, scopes_of
from .court import Action, Commit, Court
from .gang import ADMITTED, NOMINATED, PENDING, STOPPING, Gang, Placement, counted, gpus_of
from .places import groups, no_room
from .quota import CHARGED, LAYERS
from .timeouts import EXACT_S, LIMITS, QUEUE, RUN, STATES

# ---------------------------------------------------------------- places


def placement(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Placement, T1: a gang starts only with a node for every pod and one domain for every required group."""
    if [each["pod_set"] for each in action["placement"]] != [each["name"] for each in gang.sets]:
        yield "its placement does not match its pod sets"
        return
    for each in action["placement"]:
        if sum(share["count"] for share in each["shares"]) != each["count"]:
            yield f"{each['pod_set']} gets {counted(each['count'], 'pod')}, but not a node for each"
    usual = court.world.pools[gang.pool]["flavors"] or list(court.world.flavors)
    for one, each in zip(gang.sets, action["placement"], strict=True):
        if gang.state == PENDING and each["flavor"] not in ([one["platform"]] if one.get("platform") else usual):
            yield f"{each['pod_set']} gets flavor {each['flavor']}, which it cannot use"
    yield from _domains(court, gang, action["placement"])
    if gang.state == ADMITTED:
        with court.world.without([gang], LAYERS):
            yield from no_room(court.world, gang, action["placement"], LAYERS, closed_is_fine=True)
    elif "targets" in action:
        with court.world.without(court.mine(action)):
            yield from no_room(court.world, gang, action["placement"], (CHARGED,))
    else:
        yield from no_room(court.world, gang, action["placement"], court.layers_of(gang))


def _has_ended(court: Court, gang: Gang, index: int, number: int) -> bool:
    """Pods that have ended do not tie the group to their domain. A task without a count has one pod with its own name."""
    name = gang.sets[index]["name"]
    names = {f"{name}-{number}", name} if gang.counts[index] == 1 else {f"{name}-{number}"}
    return gang.state == ADMITTED and any((gang.workflow, each) in court.world.ended for each in names)


def _domains(court: Court, gang: Gang, places: Placement) -> Iterator[str]:
    levels = [each["label"] for each in court.world.pools[gang.pool]["topology_keys"]]
    if not any(each["topology"] for each in gang.sets):
        return
    seen: dict[Any, tuple[Any, ...]] = {}
    for index, each in enumerate(places):
        nodes = [share["node"] for share in each["shares"] for _ in range(share["count"])]
        for number, name in enumerate(nodes):
            if name not in court.world.nodes or _has_ended(court, gang, index, number):
                continue
            labels = court.world.nodes[name]["labels"]
            for level, group in enumerate(groups(court.world, gang, (index, number))):
                domain = tuple(labels.get(label) for label in levels[: level + 1])
                if group is not None and (seen.setdefault(group, domain) != domain or None in domain):
                    yield f"pods of one group are in {seen[group]} and {domain}"
                    return


def no_gpu_twice(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Nothing is lost, W2: no GPU is counted twice, and each pod has as many as it requests."""
    taken: set[tuple[str, int]] = set()
    for need, each in zip(gang.requests, action["placement"], strict=False):
        for share in each["shares"]:
            there = court.world.nodes.get(share["node"], {}).get("resources", {}).get("gpu", 0)
            if len(share["gpus"]) != share["count"] * need.get("gpu", 0):
                yield f"{share['count']} pods on {share['node']} get GPUs {share['gpus']}"
            for index in share["gpus"]:
                holder = court.world.gpus.get(share["node"], {}).get(index)
                if (share["node"], index) in taken or holder is not None or not 0 <= index < there:
                    yield f"GPU {index} of {share['node']} is {f'held by {holder}' if holder else 'assigned twice'}"
                    return
                taken.add((share["node"], index))


def drain(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Drain, N2: a drain stops only gangs on cordoned nodes."""
    if action["cause"] == "FAILED_EVICTED":
        nodes = [court.world.nodes.get(share["node"]) for each in gang.placement for share in each["shares"]]
        if not any(node is None or node.get("cordoned") for node in nodes):
            yield "it is evicted, and none of its nodes is cordoned"


# ---------------------------------------------------------------- lives


_STEPS = {
    "Unqueue": (PENDING, NOMINATED),
    "Nominate": (PENDING,),
    "Withdraw": (NOMINATED,),
    "Preempt": (ADMITTED,),
    "Stop": (ADMITTED, STOPPING),
    "Refuse": (ADMITTED,),
    "TryAgain": (PENDING, STOPPING),
    "Admit": (PENDING, NOMINATED),
    "Replace": (ADMITTED,),
    "SetPriority": (ADMITTED,),
}


def legal_step(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Gangs start whole, W1: a gang waits, is nominated, runs and stops in the order of docs/architecture.md."""
    if gang.state not in _STEPS[court.kind]:
        yield f"{court.kind} of a gang that is {gang.state}"


def inputs_are_done(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Gangs start whole, W1: a task group becomes a gang when its inputs are done."""
    row = court.world.workflows.get(gang.workflow, {})
    for name in row.get("upstream", {}).get(gang.id.partition("/")[2], ()):
        if name not in row["done"]:
            yield f"it is queued before group {name} is COMPLETED"


def others_have_ended(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """After, W5: a dependent workflow is queued when the workflows that it names have ended as they must."""
    for each in court.world.workflows.get(gang.workflow, {}).get("after", ()):
        status = each["ended"]
        if status is None and each["workflow"] not in court.world.workflows:
            continue  # Retention deleted the workflow, so how it ended is unknown.
        if status is None:
            yield f"it is queued before {_named(each)} has ended"
        elif each["when"] != "any" and (each["when"] == "ok") != (status == "COMPLETED"):
            yield f"it is queued although {_named(each)} is {status}"


def _named(after: Mapping[str, Any]) -> str:
    return f"{after['workflow']}/{after['element']}" if after.get("element") else str(after["workflow"])


def elements_at_a_time(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Arrays, W4: an element starts only while fewer elements of its array are on nodes than may be."""
    most = court.world.workflows.get(gang.workflow, {}).get("most")
    if most is not None and gang.state != ADMITTED:
        others = sum(each.state in (ADMITTED, STOPPING) for each in court.world.of_workflow(gang.workflow))
        if others >= most:
            yield f"{gang.workflow} has {counted(others, 'element')} on nodes, but at most {most} may be"


def hold(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Hold, W3: groups of a workflow on hold that have not started stay outside the queue; also W8."""
    row = court.world.workflows.get(gang.workflow, {})
    if row.get("held_by") or row.get("aside"):
        yield "it starts while its workflow is on hold"


# ---------------------------------------------------------------- pools


def paused_pools(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Paused pools, S8: a paused pool starts none of its submissions, and neither do its subpools."""
    pool = court.world.pools[gang.pool]
    for each in (pool, court.world.pools.get(pool["parent"])):
        if each is not None and each.get("paused_by"):
            yield f"it starts while pool {each['name']} is paused"


def shares_add_up(court: Court, commit: Commit) -> Iterator[str]:
    """Shares add up, S1: the subpools of a pool together have at most its quota."""
    pools = court.world.pools
    edited = {action["pool"]["parent"] or action["pool"]["name"] for kind, action in commit.events if kind == "PutPool"}
    for parent in sorted(edited & pools.keys()):
        subpools = [each for each in pools.values() if each["parent"] == parent and each["state"] != "ARCHIVED"]
        for key in sorted({key for each in subpools for key in each["quotas"]}):
            whole = pools[parent]["quotas"].get(key, {}).get("nominal", 0)
            shares = sum(each["quotas"].get(key, {}).get("nominal", 0) for each in subpools)
            if shares > whole:
                yield f"pool {parent}: its subpools have {shares} {key}, but it has {whole}"


def drains(court: Court, action: Action) -> Iterator[str]:
    """Drain, S3: a deleted pool lets started work finish, then is ARCHIVED."""
    pool = action["pool"]
    if pool["state"] == "ARCHIVED":
        alive = [
            gang.id
            for gang in court.world.gangs.values()
            if gang.pool == pool["name"] and gang.state in (ADMITTED, STOPPING)
        ]
        if alive:
            yield f"pool {pool['name']} is ARCHIVED while {alive[0]} runs there"


def _set_in(settings: Any) -> Any:
    """*settings* without those that are not set: a log of an older release does not have the newest of them."""
    return {name: each for name, each in settings.items() if each not in (None, "", [])} if settings else settings


def history(court: Court, action: Action) -> Iterator[str]:
    """History, S6: every change of a pool is logged, with what was before."""
    new = action.get("pool") or action["cohort"]
    known = (court.world.pools if "pool" in action else court.world.cohorts).get(new["name"])
    if "before" in action and _set_in(action["before"]) != _set_in(known):
        yield f"{new['name']} is changed from values that it did not have"


def waiting_limit(court: Court, action: Action) -> Iterator[str]:
    """Limits, W6: at most so many workflows of a user wait in a pool and its subpools, and over all pools."""
    workflow = action["workflow"]
    top, user = workflow["pool"].partition("--")[0], workflow["submitted_by"]
    in_pool = court.world.pools.get(workflow["pool"], {}).get("user_waiting")
    over_all = court.world.limits.get(user, {}).get("waiting")
    if in_pool is None and over_all is None:
        return
    waiting = [
        each["pool"].partition("--")[0]
        for each in court.world.workflows.values()
        if each["status"] == "PENDING" and each.get("submitted_by") == user
    ]
    for most, count, where in ((in_pool, waiting.count(top), top), (over_all, len(waiting), "all pools")):
        if most is not None and count >= most:
            has = f"{user} has {counted(count, 'workflow')} waiting"
            yield f"{workflow['id']} is submitted although {has} in {where}, which allows {most}"


def user_gpus(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Limits, W6: one user holds up to `user_gpus` GPUs in a pool and its subpools, and up to a limit of their own over all
    pools. A nomination holds them already.
    """
    for where, most, held in court.limits_of_user(gang) if gang.state == PENDING else ():
        gpus = gpus_of(gang, action["placement"])
        if held + gpus > most:
            yield f"it uses {counted(gpus, 'GPU')} while {gang.user} already uses {held} in {where or 'all pools'}; the limit is {most}"


def closed_pools(court: Court, action: Action) -> Iterator[str]:
    """Closed pools, S7: a closed pool accepts no submissions, and neither does one that is deleted (S3)."""
    pool = court.world.pools.get(action["workflow"]["pool"])
    above = court.world.pools.get(pool["parent"]) if pool is not None and pool["parent"] else None
    for each in (pool, above):
        if each is not None and (each["state"] != "ACTIVE" or each.get("closed_by")):
            state = each["state"] if each["state"] != "ACTIVE" else "closed"
            yield f"{action['workflow']['id']} is submitted to pool {pool['name'] if pool else ''} while {each['name']} is {state}"
            return


# ---------------------------------------------------------------- budgets and timeouts


def reached(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Budgets, W7: nothing new starts once the GPU-hours of a month are held, or only LOW work."""
    world, spending = court.world, court.spending
    for scope in scopes_of(gang) if spending.held else ():
        budget, does = budget_of(world, scope)
        if budget is None or scope not in spending.held or (does == "BORROW" and not gang.firm):
            continue
        held = spending.until(scope, world.now)
        if held >= budget * HOUR:
            yield f"it starts although {' '.join(scope)} has used {held / HOUR:.1f} of {counted(budget, 'GPU-hour')} this month"


def said(court: Court, action: Action) -> Iterator[str]:
    """Budgets, W7: the recorded amounts agree with the rest of the log."""
    world, spending = court.world, court.spending
    spent = action["spent"]
    scope = spent["of"], spent["name"]
    budget, does = budget_of(world, scope)
    whose = " ".join(scope)
    if scope in spending.held and spent["held"] != (mine := spending.until(scope, world.now)):
        yield f"the log says that {whose} used {spent['held'] / HOUR:.6f} GPU-hours this month, but it used {mine / HOUR:.6f}"
    if spent["month"] != month_of(world.now):
        yield f"the budget of {whose} is counted in a month that begins at {spent['month']:.0f}"
    if action["budget"] != budget:
        yield f"the log says that the budget of {whose} is {counted(action['budget'], 'GPU-hour')}, but it is {budget}"
    stops = does if budget is not None and spent["held"] >= budget * HOUR else None
    if spent["stops"] != stops:
        yield f"{whose} used {spent['held'] / HOUR:.1f} of {budget} GPU-hours, so {stops} applies, not {spent['stops']}"


def in_time(court: Court) -> Iterator[tuple[Gang, str]]:
    """Run time limits, P6: at the end of a cycle no group waits or runs beyond its timeout."""
    world, timeouts = court.world, court.timeouts
    while timeouts.ends and timeouts.ends[0][0] + EXACT_S < world.now:
        end, name, cause = heappop(timeouts.ends)
        gang = world.gangs.get(name)
        if gang is None or end != timeouts.end(name, cause) or gang.state not in STATES[cause]:
            continue
        if not world.workflows[gang.workflow].get("aside"):
            yield (
                gang,
                f"its {LIMITS[cause].removesuffix('_s')} ended {world.now - end:.6f} s before the end of a cycle",
            )


def stops_in_time(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Run time limits, P6: nothing is stopped for its `exec_timeout` before that has run out."""
    yield from _early(court, gang.id, action["cause"])


def ends_in_time(court: Court, action: Action) -> Iterator[str]:
    """Run time limits, P6: no group ends for its `queue_timeout` before that has run out."""
    if action["status"] == QUEUE:
        id = f"{action['workflow']}/{action['group']}"
        yield from (f"{id}: {what}" for what in _early(court, id, QUEUE))


def _early(court: Court, gang: str, cause: str) -> Iterator[str]:
    if gang.partition("/")[0] not in court.timeouts.limits or cause not in LIMITS:
        return
    end, now = court.timeouts.end(gang, cause), court.world.now
    if end is None:
        yield f"it ends as {cause}, and has no {LIMITS[cause].removesuffix('_s')} that could have run out"
    elif now + EXACT_S < end:
        yield f"it ends as {cause} {end - now:.6f} s too early"


def run_time(court: Court, action: Action) -> Iterator[str]:
    """Run time limits, P6: a pool accepts only work whose `exec_timeout` is within its maximum, also when work moves there."""
    workflow, limits = action["workflow"], court.timeouts.limits
    if "pool" in action:  # It moves.
        name, pool, known = workflow, action["pool"], limits.get(workflow, {})
        if court.world.workflows.get(name, {}).get("pool") == pool:
            return
    else:
        name, pool = workflow["id"], workflow["pool"]
        known = {RUN: action["exec_timeout_s"]} if "exec_timeout_s" in action else {}
    most, asked = court.world.pools.get(pool, {}).get("max_run_time_s"), known.get(RUN)
    if RUN in known and most is not None and (asked is None or asked > most):
        yield f"{name} is accepted with exec_timeout {asked} s, but pool {pool} allows at most {most:.0f} s"
