"""The cost of recording usage for submissions and cycles: the same work with and without the thread that follows the log, in turns.

The world grows, so later turns cost more. Turns alternate therefore, and begin and end without the thread: each that is followed is
compared with the mean of its neighbours. Shuffled turns once had most of the followed ones at the end, which looked like 12 %.
"""

from pathlib import Path
from statistics import fmean, median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time

from bench.section import Cell, Rows, ms, verdict
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.service.commands.submission import Submission
from runrig.service.runtime.background import Background
from runrig.service.service import Service
from runrig.service.usage.follower import PAUSE_S, REST
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore

EACH, TURNS = 150, 8
POOLS, NODES = 20, 500
CYCLE_GOAL, SUBMIT_GOAL = 1.0, 3.0
CLUSTER = f"""
nodes: [{{name: "n{{1..{NODES}}}", resources: {{gpu: 8, cpu: 64}}}}]
pools: [{", ".join(f"{{name: p{at}, quota: {8 * NODES // POOLS}}}" for at in range(POOLS))}]
"""
FILE = """
workflow:
  name: work
  tasks: [{name: main, image: any, command: [sleep, '1'], duration: 100000, resource: one}]
  resources: {one: {gpu: 1}}
"""
ABOUT = (
    f"{TURNS} turns of {EACH} submissions with a cycle each while the log is followed, and as many without, in turns; "
    f"SQLite, {POOLS} pools, {NODES} nodes. Cycles: processor time, compared with their neighbours; "
    "*again*: turns without compared with each other, which is what chance does. "
    f"Goals: {CYCLE_GOAL:g} % of a cycle, {SUBMIT_GOAL:g} % of the 99th percentile of a submission"
)


def rows(runs: int, each: int = EACH) -> Rows:
    """*runs*: times `TURNS`."""
    cycles, submits = list[list[float]](), list[list[float]]()
    with TemporaryDirectory() as folder:
        declared, clock = read_cluster(CLUSTER), SimulatedClock()
        service = Service(SqlStore.open(Path(folder) / "runrig.db"), SimulatedBackend(declared.nodes, clock), clock)
        service.prepare(declared, user="bench")
        _turn(service, each, [], [])
        for follows in (*(False, True) * runs * TURNS, False):
            while service.usage.step():  # earlier events must not count in this turn
                pass
            thread = Background("usage", service.usage.step, lambda took_s, _: max(PAUSE_S, REST * took_s))
            if follows:
                thread.start()
            cycles.append([])
            submits.append([])
            _turn(service, each, cycles[-1], submits[-1])
            thread.stop()
        service.close()
    means, medians = [fmean(each) for each in cycles], [median(each) for each in cycles]
    without, followed = ([each for turn in submits[of::2] for each in turn] for of in (0, 1))
    return [
        _row("cycle, mean", fmean(means[::2]), fmean(means[1::2]), _more(means), CYCLE_GOAL),
        _row("cycle, median", median(medians[::2]), median(medians[1::2]), _more(medians), CYCLE_GOAL),
        _row("cycle, median, again", median(medians[::2]), median(medians[2::2]), _more(medians[::2])),
        _row("submission, median", *(both := (median(without), median(followed))), both[1] / both[0]),
        _row("submission, 99 %", *(both := (_longest(without), _longest(followed))), both[1] / both[0], SUBMIT_GOAL),
    ]


def _more(turns: list[float]) -> float:
    """Each second turn, compared with the mean of the two beside it."""
    return median(turns[at] / fmean((turns[at - 1], turns[at + 1])) for at in range(1, len(turns) - 1, 2))


def _turn(service: Service, each: int, cycles: list[float], submits: list[float]) -> None:
    for number in range(each):
        wanted = Submission(FILE, f"p{number % POOLS}", f"user{number % 50}")
        began = perf_counter()
        (done,) = service._transactor.carry_out_all([service.submissions.submitting(wanted)])
        assert not isinstance(done, Exception), done
        submits.append(perf_counter() - began)
        spent = thread_time()
        service._reconciler.round()
        cycles.append(thread_time() - spent)


def _longest(found: list[float]) -> float:
    return quantiles(found, n=100)[98]


def _row(what: str, without: float, followed: float, ratio: float, goal: float | None = None) -> dict[str, Cell]:
    more = 100 * (ratio - 1)
    return {
        "what": what,
        "without, ms": ms(without),
        "followed, ms": ms(followed),
        "more, %": more,
        "goal, %": "-" if goal is None else goal,
        "is": "-" if goal is None else verdict(more <= goal),
    }
