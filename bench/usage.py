"""Usage: the cost of folding the log of 100,000 workflows, and of asking who used how much in their 30 days."""

from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from types import SimpleNamespace
from typing import Any, cast

from bench.section import Rows, ms, verdict
from runrig.domain.gangs import Assignment, Gang, NodeShare, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Action, Admit, PutNode, PutPool, Queue, Release, SetFlavors
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import Event
from runrig.domain.usage import MICROSECONDS, microseconds, nothing_folded
from runrig.engine.usage.fold import Fold
from runrig.ports.usage import Position
from runrig.service.queries.visibility import ALL
from runrig.service.usage.follower import EVENTS_AT_ONCE, VERSION, Follower
from runrig.service.usage.usage_queries import By, Every, UsageQueries, UsageQuery
from runrig.store import SqlStore

WORKFLOWS, POOLS, USERS, NODES = 100_000, 200, 500, 500
DAYS = 30
BEGIN = 1_790_208_000.0
QUERY_MS = 300.0
EVENTS_PER_S = 5_000
ABOUT = (
    f"{WORKFLOWS:,} workflows in {DAYS} days, {POOLS} pools, {USERS} users, {NODES} nodes; processor time. Folding is off the lock, in a "
    "thread that rests 50 times as long as it works; its goal is events a second"
)
QUESTIONS = {
    "by user": ((By.USER,), None),
    "by user, every week": ((By.USER,), Every.WEEK),
    "by pool and flavor": ((By.POOL, By.FLAVOR), None),
    "by pool, every day": ((By.POOL,), Every.DAY),
    "by flavor, every hour": ((By.FLAVOR,), Every.HOUR),
    "by user, pool, flavor and priority": ((By.USER, By.POOL, By.FLAVOR, By.PRIORITY), None),
}


def rows(runs: int, workflows: int = WORKFLOWS) -> Rows:
    with TemporaryDirectory() as folder:
        store = SqlStore.open(Path(folder) / "runrig.db")
        events, took, save = fold(store, workflows)
        per_s = round(events / took)
        found: Rows = [
            {
                "what": "fold",
                "ms": ms(took),
                "goal": f"{EVENTS_PER_S:,}/s",
                "is": verdict(per_s >= EVENTS_PER_S),
                "rows": f"{per_s:,}/s",
            },
            {"what": "write an hour, the longest", "ms": ms(max(save)), "goal": "-", "is": "-", "rows": len(save)},
        ]
        clock = cast(Any, SimpleNamespace(now=lambda: BEGIN + DAYS * 86_400))
        queries = UsageQueries(store.usage, clock, Follower(store, clock), cast(Any, None))
        for what, (by, every) in QUESTIONS.items():
            query = UsageQuery(by, BEGIN, BEGIN + DAYS * 86_400, every)
            times, count = [], 0
            for _ in range(runs):
                began = process_time()
                count = len(queries.usage(query, ALL).rows)
                times.append(process_time() - began)
            whole = ms(median(times))
            found.append({"what": what, "ms": whole, "goal": QUERY_MS, "is": verdict(whole <= QUERY_MS), "rows": count})
        store.close()
    return found


def fold(store: SqlStore, workflows: int) -> tuple[int, float, list[float]]:
    """Returns the number of events, seconds to fold them, and seconds of each write."""
    since = microseconds(BEGIN)
    folding, took, count, save = Fold(nothing_folded(since)), 0.0, 0, list[float]()
    for page in _pages(log(workflows)):
        users = {
            each.action.gang.workflow: user_of(each.action.gang) for each in page if isinstance(each.action, Queue)
        }
        began = process_time()
        hours = [*folding.apply(page, users)]
        took += process_time() - began
        count += len(page)
        if hours:
            began = process_time()
            store.usage.save(Position(folding.folded(), since, VERSION), hours, keep_hours=0, keep_days=0)
            save.append(process_time() - began)
    return count, took, save


def user_of(gang: Gang) -> str:
    """One of eight users of the pool; some users have several pools."""
    number = sum(map(ord, gang.id)) % 8
    return f"user{(5 * int(gang.pool.removeprefix('pool')) + number) * 3 % USERS:03}"


def _pages(events: Iterator[Event]) -> Iterator[list[Event]]:
    page: list[Event] = []
    for event in events:
        page.append(event)
        if len(page) == EVENTS_AT_ONCE:
            yield page
            page = []
    yield page


def log(workflows: int) -> Iterator[Event]:
    """Gangs of 1 to 8 GPUs, on the node that has been free for longest.  LOW borrows from other pools."""
    chance, revision = Random(1), 0
    declared: list[Action] = [SetFlavors((Flavor("h100"), Flavor("b200")))]
    declared += [PutNode(Node(f"n{at:03}", {GPU: 8}, flavor="h100" if at % 4 else "b200")) for at in range(NODES)]
    quota = 8 * NODES // POOLS
    for at in range(POOLS):
        quotas = {FlavorResource(flavor, GPU): Quota(quota * part // 4) for flavor, part in (("h100", 3), ("b200", 1))}
        declared.append(PutPool(Pool(f"pool{at:03}", quotas)))
    for action in declared:
        revision += 1
        yield Event(revision, 0, BEGIN, "bench", action)
    ends: list[tuple[float, int, str, int]] = []
    free = list(range(NODES))
    step = DAYS * 86_400 / workflows
    for number in range(workflows):
        time = BEGIN + step * (number + 1)
        while ends and (ends[0][0] <= time or not free):
            end, _, gang, node = heappop(ends)
            free.append(node)
            revision += 1
            yield Event(revision, 0, min(end, time), "bench", Release(gang))
        node = free.pop(0)
        priority = chance.choice((Priority.LOW, Priority.NORMAL))
        gpus, gang = chance.randint(1, 8), f"w{number}-1/main"
        pod_set = PodSet("main", 1, ((GPU, gpus),))
        pool = f"pool{int(POOLS * chance.random() ** 2):03}"
        shares = (NodeShare(f"n{node:03}", 1, tuple(range(gpus))),)
        placed = (Assignment("main", "h100" if node % 4 else "b200", 1, shares),)
        queued = Queue(Gang(gang, pool, priority, time, (pod_set,)))
        revision += 1
        yield Event(revision, 0, round(time * MICROSECONDS) / MICROSECONDS, "bench", queued)
        yield Event(revision, 1, round(time * MICROSECONDS) / MICROSECONDS, "bench", Admit(gang, placed))
        heappush(ends, (time + 0.8 * NODES * step * 2 * chance.random(), number, gang, node))
