"""What recording usage costs submissions and cycles: the same work with and without the thread that follows the log, in turns."""

from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time

from bench.section import Rows, ms, verdict
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
    f"{TURNS} turns of {EACH} submissions with a cycle each, in shuffled order, half of them while the log is followed; "
    f"SQLite, {POOLS} pools, {NODES} nodes. "
    f"Goals: {CYCLE_GOAL:g} % of a cycle's processor time, {SUBMIT_GOAL:g} % of the 99th percentile of a submission"
)


def rows(runs: int, each: int = EACH) -> Rows:
    """*runs*: times `TURNS`."""
    cycles: dict[bool, list[float]] = {True: [], False: []}
    submits: dict[bool, list[float]] = {True: [], False: []}
    with TemporaryDirectory() as folder:
        declared, clock = read_cluster(CLUSTER), SimulatedClock()
        service = Service(SqlStore.open(Path(folder) / "runrig.db"), SimulatedBackend(declared.nodes, clock), clock)
        service.prepare(declared, user="bench")
        turns = [True, False] * (runs * TURNS // 2)
        Random(1).shuffle(turns)
        _turn(service, each, [], [])
        for followed in turns:
            while service.usage.step():  # earlier events must not count in this turn
                pass
            thread = Background("usage", service.usage.step, lambda took_s, _: max(PAUSE_S, REST * took_s))
            if followed:
                thread.start()
            _turn(service, each, cycles[followed], submits[followed])
            thread.stop()
        service.close()
    return [
        _row("cycle, median", median(cycles[False]), median(cycles[True]), CYCLE_GOAL),
        _row("submission, median", median(submits[False]), median(submits[True])),
        _row("submission, 99 %", _longest(submits[False]), _longest(submits[True]), SUBMIT_GOAL),
    ]


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


def _row(what: str, without: float, followed: float, goal: float | None = None) -> dict[str, str | float | int]:
    more = 100 * (followed / without - 1)
    return {
        "what": what,
        "without, ms": ms(without),
        "followed, ms": ms(followed),
        "more, %": more,
        "goal, %": "-" if goal is None else goal,
        "is": "-" if goal is None else verdict(more <= goal),
    }
