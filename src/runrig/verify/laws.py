"""Placement, quota, order, preemption and partial admission: a law of docs/laws.md is a function, which yields what is wrong. Its
name begins with that of the law.

It is asked before a decision is carried out, after a gang is queued or a commit was carried out, or at the end of a cycle.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .court import Commit, Court, Way
from .gang import ADMITTED, NOMINATED, PENDING, STOPPING, Gang, Placement, counted, counts_of
from .places import MOST_CHOICES, choices, groups, usable
from .quota import CHARGED, LAYERS, REAL, Node
from .world import Action

MOST_REQUEUES = 100
Wrong = Iterator[str]


def t1_placement(court: Court, gang: Gang, action: Action) -> Wrong:
    """Placement, T1: a gang starts only with a node for every pod and one domain for every required group."""
    if [each["pod_set"] for each in action["placement"]] != [each["name"] for each in gang.sets]:
        yield "its placement does not match its pod sets"
        return
    for flavors, each in zip(usable(court, gang), action["placement"], strict=True):
        if sum([share["count"] for share in each["shares"]]) != each["count"]:
            yield f"{each['pod_set']} gets {counted(each['count'], 'pod')}, but not a node for each"
        if gang.state == PENDING and each["flavor"] not in flavors:
            yield f"{each['pod_set']} gets flavor {each['flavor']}, which it cannot use"
    if any(each["topology"] for each in gang.sets):
        yield from _domains(court, gang, action["placement"])
    layers = court.layers_of(gang, action)
    with court.without([gang] if gang.state == ADMITTED else court.mine(action), layers):
        yield from court.no_room(gang, action["placement"], layers)


def _domains(court: Court, gang: Gang, places: Placement) -> Wrong:
    levels = [each["label"] for each in court.pools[gang.pool]["topology_keys"]]
    seen: dict[Any, tuple[Any, ...]] = {}
    for index, each in enumerate(places):
        nodes = [share["node"] for share in each["shares"] for _ in range(share["count"])]
        for number, name in enumerate(nodes):
            if name not in court.nodes or _has_ended(court, gang, index, number):
                continue
            labels = court.nodes[name]["labels"]
            for level, group in enumerate(groups(court, gang, (index, number))):
                domain = tuple(labels.get(label) for label in levels[: level + 1])
                if group is not None and (seen.setdefault(group, domain) != domain or None in domain):
                    yield f"pods of one group are in {seen[group]} and {domain}"
                    return


def _has_ended(court: Court, gang: Gang, index: int, number: int) -> bool:
    """Pods that have ended do not tie the group to their domain. A task without a count has one pod with its own name."""
    name = gang.sets[index]["name"]
    names = {f"{name}-{number}", name} if gang.sets[index]["count"] == 1 else {f"{name}-{number}"}
    return gang.state == ADMITTED and not names.isdisjoint(court.workflow(gang.workflow).get("ended", ()))


def q3_balance(court: Court, gang: Gang, action: Action) -> Wrong:
    """Balance, Q3: a gang may start if no node of the tree on its path then borrows more than its limit.

    Also Q1, Q2, Q4 and Q8, which define the tree, and R4: it must fit in what is held and in what was decided.
    """
    return _beyond(court, gang, action, Node.headroom, "headroom is {}")


def p2_guarantee(court: Court, gang: Gang, action: Action) -> Wrong:
    """Guarantee, P2: HIGH and NORMAL work may use the pool's quota and the unused quota of its cohorts."""
    return _beyond(court, gang, action, Node.promise, "guarantee has {} left") if gang.firm else iter(())


def _beyond(court: Court, gang: Gang, action: Action, ask: Callable[[Node, int], int], what: str) -> Wrong:
    layers = court.layers_of(gang, action)
    with court.without(court.mine(action), layers):
        for key, amount in court.asked(gang, action["placement"]).items():
            for layer in layers:
                most = ask(court.leaf(gang, key), layer)
                if amount > most:
                    yield f"it uses {amount} {key} in pool {gang.pool}, whose {what.format(most)}"


def p2_stays_within_guarantee(court: Court, gang: Gang, action: Action) -> Wrong:
    """Guarantee, P2: running LOW work becomes HIGH or NORMAL only if the guarantee has room for it next to what was decided."""
    becomes = action["priority"]
    for key, amount in court.asked(gang, gang.placement).items() if becomes != "LOW" and not gang.firm else ():
        most = court.tree(key).firm[gang.pool].promise(CHARGED)
        if amount > most:
            yield f"it becomes {becomes} with {amount} {key} in pool {gang.pool}, whose guarantee has {most} left"


def q5_no_cycles(court: Court, gang: Gang, action: Action) -> Wrong:
    """No cycles, Q5: if a cycle of cohorts exists, nothing new starts in that tree."""
    if court.in_circle(gang.pool):
        yield f"a cohort above pool {gang.pool} is its own ancestor"


def p1_priorities(court: Court, gang: Gang, action: Action) -> Wrong:
    """Priorities, P1: HIGH and NORMAL are never preempted; LOW preempts nothing."""
    by = court.gangs.get(action["by"])
    if gang.firm:
        yield f"{gang.priority} is preempted for {action['by']}"
    if by is not None and not by.firm:
        yield f"LOW work preempts it: {by.id}"


def p4_queue_order(court: Court, gang: Gang, action: Action) -> Wrong:
    """Queue order, P4: priority, then LOW within quota before LOW that borrows, then submit time.

    Nobody before the gang could have started in its place. Where weights differ, LOW against LOW is not judged.
    """
    if gang.state != PENDING:
        return
    for other in court.ahead(gang):
        if court.could_start(other) is not None:
            yield f"it starts before {other.id}, which is ahead of it and could start"


def p4_strict_order(court: Court, gang: Gang, action: Action) -> Wrong:
    """Queue order, P4: in a STRICT_FIFO pool a later gang cannot start while the head waits, even if the head is nominated."""
    if gang.state != PENDING or court.pools[gang.pool]["queueing"] != "STRICT_FIFO":
        return
    for other in court.before(gang):
        does = "waits" if other.state == PENDING else "is nominated"
        yield f"it starts while {other.id} {does} ahead of it in STRICT_FIFO pool {gang.pool}"
        if other.state == PENDING:
            return


def p4_keeps_its_place(court: Court, gang: Gang, action: Action) -> Wrong:
    """Queue order, P4: a gang is queued with the pool, priority and submit time of its workflow, also after a preemption (R6)."""
    row = court.workflow(gang.workflow)
    ours = {"pool": gang.pool, "priority": gang.priority, "submit_time": gang.submitted}
    for name, each in ours.items() if row else ():
        if each != row[name]:
            yield f"it is queued with {name.replace('_', ' ')} {each}, but its workflow has {row[name]}"


def p4_follows_its_workflow(court: Court, gang: Gang, action: Action) -> Wrong:
    """Queue order, P4: a running gang has the priority of its workflow."""
    priority = court.workflow(gang.workflow).get("priority", action["priority"])
    if priority != action["priority"]:
        yield f"it becomes {action['priority']}, and its workflow is {priority}"


def p3_gate(court: Court, gang: Gang, action: Action) -> Wrong:
    """Gate, P3: work that could never run is not accepted: HIGH and NORMAL beyond the guarantee, LOW beyond what it could borrow."""
    few = len(court.flavors) ** len(gang.sets) <= MOST_CHOICES
    if gang.workflow in court.arriving and few and not court.could_ever_start(gang):
        yield f"it is accepted in pool {gang.pool}, whose quota could never hold its smallest size"


def p3_refused(court: Court, commit: Commit) -> Iterator[tuple[str, str]]:
    """Gate, P3: everything else is accepted and may wait: what quota and nodes could hold if nothing else ran."""
    for each in commit.refused:
        gang = Gang(each["gang"], each["user"], court.pods) if "gang" in each else None
        if gang is not None and gang.pool in court.pools and court.could_ever_run(gang):
            yield gang.id, f"it is refused, but could run in pool {gang.pool} if nothing else did"


def p5_full_cycle(court: Court) -> Iterator[tuple[Gang, str]]:
    """Full cycle, P5: each cycle admits everything that can be admitted."""
    for queue in [*court.awake(firm=True), *court.awake(firm=False)]:
        gang = court.first(queue, refused=False) if queue.stopped != court.loosened else None
        flavors = None if gang is None else court.could_start(gang)
        if gang is not None and flavors is not None:
            yield gang, f"it is still waiting at the end of a cycle, but fits on {' and '.join(sorted({*flavors}))}"


def r1_named_law(court: Court, gang: Gang, action: Action) -> Wrong:
    """Preempt by priority, R1: PRIORITY takes LOW work of the preemptor's own pool, RECLAIM that of others (R2)."""
    by = court.gangs.get(action["by"])
    if by is not None and (action["law"] == "PRIORITY") != (by.pool == gang.pool):
        yield f"{by.id} of pool {by.pool} preempts it in pool {gang.pool} by {action['law']}"


def r1_own_pool_first(court: Court) -> Iterator[tuple[Gang, str]]:
    """Preempt by priority, R1: after a cycle, no gang within its guarantee is waiting for LOW work of its own pool."""
    for pool, running in court.low.items() if not court.nominated else ():
        asked: list[tuple[Gang, list[Way]]] = []
        for queue in [each for each in court.waiting.get((pool, True), ()) if running and each.vain != court.loosened]:
            ways = court.ways_if_stopped(queue)  # LOW work makes no difference to the guarantee.
            gang = court.first(queue, refused=False) if ways else None
            if not ways:
                queue.vain = court.loosened
            elif gang is not None and court.may_start(gang):
                asked.append((gang, ways))
        if not asked:
            continue
        low = [each for each in running.values() if not court.workflow(each.workflow).get("aside")]
        with court.without(low, LAYERS):
            could = [gang for gang, ways in asked if any(court.barrier(gang, way) is None for way in ways)]
        for gang, _ in asked:
            if gang in could:
                yield gang, f"it is still waiting at the end of a cycle, while LOW work of its pool {pool} is running"
            else:
                gang.queue.vain = court.loosened


def r2_reclaim(court: Court, gang: Gang, action: Action) -> Wrong:
    """Reclaim, R2: a gang within its guarantee preempts LOW work of pools that hold more than their quota."""
    mine = court.mine(action)
    for target in mine:
        if target.state != ADMITTED or target.pool == gang.pool:
            continue
        numbers = []
        for key in court.asked(gang, action["placement"]):
            tree = court.tree(key)
            node = tree.outermost(target.pool, gang.pool)
            with court.without(mine):
                held = node.over()
            for other in mine:
                if other.pool != gang.pool and tree.outermost(other.pool, gang.pool) is node:
                    back = held + court.asked(other, other.placement).get(key, 0)
                    numbers.append((back - (node.whole or 0), back, node.whole, key, node.name))
        over, held, nominal, key, name = max(numbers, default=(1, 0, 0, "", ""))
        if over <= 0:
            yield f"it preempts {target.id} of {name}, which is within its quota (uses {held} of {nominal} {key})"


def r3_no_needless_stops(court: Court, gang: Gang, action: Action) -> Wrong:
    """No needless stops, R3: none of the preempted gangs could have been kept running."""
    mine = court.mine(action)
    flavors = [each["flavor"] for each in action["placement"]]
    way = court.way(gang, flavors, counts_of(action["placement"]), (CHARGED,))
    for target in mine:
        if target.state == ADMITTED:
            with court.without([each for each in mine if each is not target]):
                if court.barrier(gang, way) is None:
                    yield f"it preempts {target.id}, but fits without that"


def r4_reserve_then_start(court: Court, gang: Gang, action: Action) -> Wrong:
    """Reserve, then start, R4: HIGH or NORMAL work is nominated, and waits for gangs that run or stop."""
    if not gang.firm:
        yield "LOW work is nominated"
    for name in action["targets"]:
        target = court.gangs.get(name)
        if target is not None and target.state not in (ADMITTED, STOPPING):
            yield f"it waits for {name}, which does not run"


def r4_preempts_what_it_waits_for(court: Court, gang: Gang, action: Action) -> Wrong:
    """Reserve, then start, R4: who preempts is nominated and waits for whom it preempts."""
    by = court.gangs.get(action["by"])
    if by is not None and (by.state != NOMINATED or gang.id not in by.targets):
        yield f"{by.id} preempts it, but is not nominated to wait for it"


def r4_keeps_its_reservation(court: Court, gang: Gang, action: Action) -> Wrong:
    """Reserve, then start, R4: a nomination ends only if its place or its guarantee is gone, or W8 sets aside what it waits for."""
    for name in (each.partition("/")[0] for each in gang.targets):
        if name in court.leaving or court.workflow(name).get("aside"):
            return
    with court.without([gang]):
        if court.has_quota(gang, (CHARGED,)) and not list(court.no_room(gang, gang.placement, (CHARGED,))):
            yield "its nomination ends, although its nodes and its guarantee are still there"


def r4_free_places(court: Court) -> Iterator[tuple[Gang, str]]:
    """Reserve, then start, R4: the preemptor is admitted in the cycle in which its nodes are free."""
    for gang in list(court.nominated.values()):
        new, aside = gang.since == court.now, court.workflow(gang.workflow).get("aside")
        if new or aside or not court.has_quota(gang, (REAL,)):
            continue
        if not list(court.no_room(gang, gang.placement, (REAL,))):
            yield gang, "it is still nominated at the end of a cycle, although its nodes are free"


def r6_requeue(court: Court, gang: Gang, action: Action) -> Wrong:
    """Requeue, R6: preempted work returns to the queue, at most 100 times."""
    if court.preempted.get(gang.id, 0) > MOST_REQUEUES:
        yield f"it is requeued after {court.preempted[gang.id]} preemptions"


def r7_edits_stop_nothing(court: Court, commit: Commit) -> Wrong:
    """Edits stop nothing, R7: creating, resizing or deleting a pool never stops running work."""
    edits = [kind for kind, action in commit.events if kind in ("PutCohort", "DropCohort") or _declares(kind, action)]
    for kind, action in commit.events if edits else ():
        if kind in ("Preempt", "Stop"):
            yield f"{action['gang']}: {edits[0]} and {kind} in one commit"


def _declares(kind: str, action: Action) -> bool:
    """Whether it creates, resizes or deletes a pool. A pause ends within a cycle, which may preempt (rule S8)."""
    if kind != "PutPool" or action["pool"]["state"] != "ACTIVE":
        return False
    pool, before = action["pool"], action.get("before") or {}
    return any(pool[field] != before.get(field) for field in pool if not field.startswith("paused_"))


def a1_fewer_pods(court: Court, gang: Gang, action: Action) -> Wrong:
    """Fewer pods, A1: a task with `count` and `minCount` starts with the most pods that fit."""
    counts, ladder = counts_of(action["placement"]), gang.sizes
    if counts not in ladder:
        yield f"it gets {counts} pods, which is not a step between {ladder[0]} and {ladder[-1]}"
    elif gang.state == NOMINATED and sum(counts) < sum(counts_of(gang.placement)):
        yield f"it starts with {counts} pods, fewer than it was nominated with"
    elif gang.state == PENDING and "targets" not in action and counts != ladder[0]:
        larger = ladder[ladder.index(counts) - 1]
        ways = [court.way(gang, each, larger) for each in choices(court, gang)]
        if court.user_has_room(gang, larger) and any(court.barrier(gang, way) is None for way in ways):
            yield f"it starts with {counts} pods, but fits with {larger}"


def a3_recorded_size(court: Court, gang: Gang, action: Action) -> Wrong:
    """Recorded size, A3: a requeued gang requests its full count again."""
    first = court.first_sets.setdefault(gang.id, gang.request)
    if gang.request != first:
        yield f"it requests {gang.request}, but requested {first} before"
