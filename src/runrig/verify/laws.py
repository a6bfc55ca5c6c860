"""Quota, order, preemption and partial admission: a law of docs/laws.md is a function, which yields what is wrong.

It is asked before a decision is carried out, or at the end of a cycle.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from .court import MOST_REQUEUES, Action, Commit, Court, Way
from .gang import ADMITTED, NOMINATED, PENDING, STOPPING, Gang
from .places import MOST_CHOICES, choices, no_room
from .quota import CHARGED, LAYERS, REAL, Node

# ---------------------------------------------------------------- quota


def balance(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Balance, Q3: a gang may start if no node of the tree on its path then borrows more than its limit.

    Also Q1, Q2, Q4 and Q8, which define the tree, and R4: it must fit in what is held and in what was decided.
    """
    return _beyond(court, gang, action, court.world.tree.headroom, "headroom is {}")


def guarantee(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Guarantee, P2: HIGH and NORMAL work may use the pool's quota and the unused quota of its cohorts."""
    return _beyond(court, gang, action, court.world.tree.promise, "guarantee has {} left") if gang.firm else iter(())


def _beyond(court: Court, gang: Gang, action: Action, ask: Callable[[Node, str, int], int], what: str) -> Iterator[str]:
    world, nominated = court.world, "targets" in action
    with world.without(court.mine(action)) if nominated else nullcontext():
        for key, amount in world.asked(gang, action["placement"]).items():
            for layer in (CHARGED,) if nominated else court.layers_of(gang):
                most = ask(world.leaf(gang), key, layer)
                if amount > most:
                    yield f"it uses {amount} {key} in pool {gang.pool}, whose {what.format(most)}"


def stays_within_guarantee(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Guarantee, P2: running LOW work becomes HIGH or NORMAL only if the guarantee has room for it next to what was decided."""
    tree = court.world.tree
    for key, amount in court.world.asked(gang, gang.placement).items() if not gang.firm else ():
        most = tree.promise(tree.firm[gang.pool], key, CHARGED)
        if action["priority"] != "LOW" and amount > most:
            yield f"it becomes {action['priority']} with {amount} {key} in pool {gang.pool}, whose guarantee has {most} left"


def no_cycles(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """No cycles, Q5: if a cycle of cohorts exists, nothing new starts in that tree."""
    if court.world.tree.in_circle(gang.pool):
        yield f"a cohort above pool {gang.pool} is its own ancestor"


# ---------------------------------------------------------------- order


def priorities(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Priorities, P1: HIGH and NORMAL are never preempted; LOW preempts nothing."""
    by = court.world.gangs.get(action["by"])
    if gang.firm:
        yield f"{gang.priority} is preempted for {action['by']}"
    if by is not None and not by.firm:
        yield f"LOW work preempts it: {by.id}"


def gate(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Gate, P3: work that could never run is not accepted: HIGH and NORMAL beyond the guarantee, LOW beyond what it could borrow."""
    few = len(court.world.flavors) ** len(gang.sets) <= MOST_CHOICES
    if gang.workflow in court.arriving and few and not court.could_ever_start(gang):
        yield f"it is accepted in pool {gang.pool}, whose quota could never hold its smallest size"


def queue_order(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Queue order, P4: priority, then LOW within quota before LOW that borrows, then submit time.

    Nobody before the gang could have started in its place. Where weights differ, LOW against LOW is not judged.
    """
    if gang.state != PENDING:
        return
    for other in court.ahead(gang):
        if court.could_start(other) is not None and court.may_start(other) and not court.had_its_turn(other):
            yield f"it starts before {other.id}, which is ahead of it and could start"


def strict_order(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Queue order, P4: in a STRICT_FIFO pool a later gang cannot start while the head waits, even if the head is nominated."""
    if gang.state != PENDING or court.world.pools[gang.pool]["queueing"] != "STRICT_FIFO":
        return
    for queue in court.world.waiting_in(gang.pool):
        other = court.first(queue)
        if other is not None and (court.borrows(other), other.order) < (court.borrows(gang), gang.order):
            yield f"it starts while {other.id} waits ahead of it in STRICT_FIFO pool {gang.pool}"
            return
    for other in court.world.nominated.values():
        if other.pool == gang.pool and other.order < gang.order:
            yield f"it starts while {other.id} is nominated ahead of it in STRICT_FIFO pool {gang.pool}"


def keeps_its_place(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Queue order, P4: a gang is queued with the pool, priority and submit time of its workflow, also after a preemption (R6)."""
    row = court.world.workflows.get(gang.workflow, {})
    ours = {"pool": gang.pool, "priority": gang.priority, "submit_time": gang.submitted}
    for name, each in ours.items() if row else ():
        if each != row[name]:
            yield f"it is queued with {name.replace('_', ' ')} {each}, but its workflow has {row[name]}"


def full_cycle(court: Court) -> Iterator[tuple[Gang, str]]:
    """Full cycle, P5: each cycle admits everything that can be admitted."""
    for queue in [*court.awake(firm=True), *court.awake(firm=False)]:
        gang = court.first(queue, refused=False)
        flavors = None if gang is None else court.could_start(gang)
        if gang is not None and flavors is not None and court.may_start(gang) and not court.had_its_turn(gang):
            yield gang, f"it is still waiting at the end of a cycle, but fits on {' and '.join(sorted({*flavors}))}"


# ---------------------------------------------------------------- preemption


def named_law(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Preempt by priority, R1: PRIORITY takes LOW work of the preemptor's own pool, RECLAIM that of others (R2)."""
    by = court.world.gangs.get(action["by"])
    if by is not None and (action["law"] == "PRIORITY") != (by.pool == gang.pool):
        yield f"{by.id} of pool {by.pool} preempts it in pool {gang.pool} by {action['law']}"


def own_pool_first(court: Court) -> Iterator[tuple[Gang, str]]:
    """Preempt by priority, R1: after a cycle, no gang within its guarantee is waiting for LOW work of its own pool."""
    world = court.world
    if world.nominated:
        return
    asked: dict[str, list[tuple[Gang, list[Way]]]] = {}
    waiting = [world.waiting.get((pool, True), {}) for pool, low in world.low.items() if low]
    for queue in [each for queues in waiting for each in queues if each.vain != world.loosened]:
        # LOW work makes no difference to the guarantee.
        ways = court.ways_if_stopped(queue.row[0][1])
        gang = court.first(queue, refused=False) if ways else None
        if not ways:
            queue.vain = world.loosened
        elif gang is not None and court.may_start(gang):
            asked.setdefault(gang.pool, []).append((gang, ways))
    for pool, several in asked.items():
        low = [each for each in world.low[pool].values() if not world.workflows.get(each.workflow, {}).get("aside")]
        with world.without(low, LAYERS):
            could = [gang for gang, ways in several if any(court.fits(gang, way, (CHARGED,)) for way in ways)]
        for gang, _ in several:
            if gang not in could:
                gang.queue.vain = world.loosened
                continue
            yield gang, f"it is still waiting at the end of a cycle, while LOW work of its pool {pool} is running"


def reclaim(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Reclaim, R2: a gang within its guarantee preempts LOW work of pools that hold more than their quota."""
    world, mine = court.world, court.mine(action)
    keys = world.asked(gang, action["placement"])
    for target in mine:
        if target.state != ADMITTED or target.pool == gang.pool or not keys:
            continue
        node = world.tree.outermost(target.pool, gang.pool)
        numbers = []
        with world.without(mine):
            for other in mine:
                if other.pool != gang.pool and world.tree.outermost(other.pool, gang.pool) is node:
                    back = world.asked(other, other.placement)
                    for key in keys:
                        held, nominal = world.tree.over(node, key)
                        numbers.append((held + back.get(key, 0) - nominal, held + back.get(key, 0), nominal, key))
        over, held, nominal, key = max(numbers)
        if over <= 0:
            yield f"it preempts {target.id} of {node.name}, which is within its quota (uses {held} of {nominal} {key})"


def no_needless_stops(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """No needless stops, R3: none of the preempted gangs could have been kept running."""
    mine = court.mine(action)
    flavors, counts = [each["flavor"] for each in action["placement"]], [each["count"] for each in action["placement"]]
    for target in mine:
        if target.state == ADMITTED:
            with court.world.without([each for each in mine if each is not target]):
                if court.fits(gang, court.way(gang, flavors, counts, (CHARGED,)), (CHARGED,)):
                    yield f"it preempts {target.id}, but fits without that"


def reserve_then_start(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Reserve, then start, R4: HIGH or NORMAL work is nominated, and waits for gangs that run or stop."""
    if not gang.firm:
        yield "LOW work is nominated"
    for name in action["targets"]:
        target = court.world.gangs.get(name)
        if target is not None and target.state not in (ADMITTED, STOPPING):
            yield f"it waits for {name}, which does not run"


def preempts_what_it_waits_for(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Reserve, then start, R4: who preempts is nominated and waits for whom it preempts."""
    by = court.world.gangs.get(action["by"])
    if by is not None and (by.state != NOMINATED or gang.id not in by.targets):
        yield f"{by.id} preempts it, but is not nominated to wait for it"


def keeps_its_reservation(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Reserve, then start, R4: a nomination ends only if its place or its guarantee is gone, or W8 sets aside what it waits for."""
    world = court.world
    for name in (each.partition("/")[0] for each in gang.targets):
        if name in court.leaving or world.workflows.get(name, {}).get("aside"):
            return
    with world.without([gang]):
        lost = next(no_room(court.world, gang, gang.placement, (CHARGED,)), None)
        if lost is None and not court.short_of_quota(gang, world.asked(gang, gang.placement), (CHARGED,)):
            yield "its nomination ends, although its nodes and its guarantee are still there"


def free_places(court: Court) -> Iterator[tuple[Gang, str]]:
    """Reserve, then start, R4: the preemptor is admitted in the cycle in which its nodes are free."""
    for gang in list(court.world.nominated.values()):
        aside = court.world.workflows.get(gang.workflow, {}).get("aside")
        new = gang.since == court.world.now
        if new or aside or court.short_of_quota(gang, court.world.asked(gang, gang.placement), (REAL,)):
            continue
        if not list(no_room(court.world, gang, gang.placement, (REAL,))):
            yield gang, "it is still nominated at the end of a cycle, although its nodes are free"


def follows_its_workflow(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Queue order, P4: a running gang has the priority of its workflow."""
    row = court.world.workflows.get(gang.workflow)
    if row is not None and row["priority"] != action["priority"]:
        yield f"it becomes {action['priority']}, and its workflow is {row['priority']}"


def requeue(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Requeue, R6: preempted work returns to the queue, at most 100 times."""
    if court.preempted.get(gang.id, 0) > MOST_REQUEUES:
        yield f"it is requeued after {court.preempted[gang.id]} preemptions"


def edits_stop_nothing(court: Court, commit: Commit) -> Iterator[str]:
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


# ---------------------------------------------------------------- partial admission


def fewer_pods(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Fewer pods, A1: a task with `count` and `minCount` starts with the most pods that fit."""
    counts, ladder = [each["count"] for each in action["placement"]], gang.sizes
    if counts not in ladder:
        yield f"it gets {counts} pods, which is not a step between {ladder[0]} and {ladder[-1]}"
    elif gang.state == NOMINATED and sum(counts) < sum(each["count"] for each in gang.placement):
        yield f"it starts with {counts} pods, fewer than it was nominated with"
    elif gang.state == PENDING and "targets" not in action and counts != ladder[0]:
        larger = ladder[ladder.index(counts) - 1]
        ways = [court.way(gang, each, larger) for each in choices(court.world, gang)]
        if court.user_has_room(gang, larger) and any(court.fits(gang, way) for way in ways):
            yield f"it starts with {counts} pods, but fits with {larger}"


def recorded_size(court: Court, gang: Gang, action: Action) -> Iterator[str]:
    """Recorded size, A3: a requeued gang requests its full count again."""
    first = court.first_sets.setdefault(gang.id, gang.request)
    if gang.request != first:
        yield f"it requests {gang.request}, but requested {first} before"
