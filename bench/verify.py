"""`runrig verify` on the log of a cluster of 256 nodes on which thousands of workflows wait."""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from tests.worlds.seeded import WORK, cluster, nodes_of
from tests.worlds.service import Desk, desk

from bench.section import Rows, verdict
from runrig.domain.gangs import Priority
from runrig.verify.verify import check

NODES, WAITING, ROUNDS = 256, 4_000, 300
MILLION, GOAL_S = 1_000_000, 120.0
ABOUT = f"{NODES} nodes, {WAITING:,} workflows wait; processor time of one process. The goal is seconds for {MILLION:,} decisions"


def rows(runs: int, waiting: int = WAITING, rounds: int = ROUNDS) -> Rows:
    with TemporaryDirectory() as folder:
        history(Path(folder), waiting, rounds)
        took, totals = min((timed(Path(folder) / "runrig.db") for _ in range(runs)), key=lambda each: each[0])
    whole = took / totals["decisions"] * MILLION
    return [
        {
            "decisions": totals["decisions"],
            "s": took,
            "decisions/s": totals["decisions"] / took,
            "goal s": GOAL_S,
            "s for a million": whole,
            "is": verdict(whole <= GOAL_S),
        }
    ]


def timed(database: Path) -> tuple[float, dict[str, int]]:
    """Returns the seconds and the totals. Every decision is lawful."""
    lines: list[str] = []
    began = process_time()
    code = check(str(database), since=0, laws=(), head="", as_json=True, say=lines.append)
    took = process_time() - began
    assert code == 0, lines
    return took, json.loads(lines[-1])


def history(folder: Path, waiting: int, rounds: int) -> None:
    """Leaves the database of a server in *folder*. As many workflows arrive as end."""
    text, chance = cluster(NODES), Random(46)
    with desk(folder, nodes=nodes_of(text), cluster=text.partition("\n")[2].partition("\n")[2], judged=False) as server:
        for _ in range(waiting):
            _arrive(server, chance)
        server.later(60)
        for _ in range(rounds):
            ended = len([each for each in server.backend.desired.run if chance.random() < 0.02])
            for _ in range(ended // 2):
                _arrive(server, chance)
            for _ in range(3):
                server.later(30)


def _arrive(server: Desk, chance: Random) -> None:
    pool, pods = chance.choice(sorted(WORK)), chance.choice((1, 1, 1, 2, 4))
    gpus, lasts_s = chance.choice((1, 2, 4, 8)), chance.choice((600, 1_800, 3_600, 7_200))
    near = ", topology: [{key: rack}]" if chance.random() < 0.2 else ""
    priority = chance.choice((Priority.NORMAL, Priority.LOW)) if pods * gpus <= 8 else Priority.LOW
    count = f", count: {pods}" if pods > 1 else ""
    task = f"{{name: main, image: any, command: [train], duration: {lasts_s}{count}}}"
    file = f"workflow:\n  name: w\n  resources: {{default: {{gpu: {gpus}{near}}}}}\n  tasks: [{task}]\n"
    server.time[0] -= 0.999
    server.submit("w", pool, priority, text=file)
