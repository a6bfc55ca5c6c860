"""`runrig verify` on the log of a cluster of 256 nodes with thousands of waiting workflows."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from tests.worlds.seeded import WORK, cluster, nodes_of
from tests.worlds.service import Desk, desk

from bench.section import Rows, verdict
from runrig.domain.gangs import Priority
from runrig.verify.reading import snapshots
from runrig.verify.verify import judge, parts_of

NODES, WAITING, ROUNDS = 256, 4_000, 500
MILLION, GOALS_S = 1_000_000, (120.0, 60.0)
"""For one processor, and for two."""
ABOUT = f"{NODES} nodes, {WAITING:,} workflows wait; processor time. The goal is seconds for {MILLION:,} decisions"


def rows(runs: int, waiting: int = WAITING, rounds: int = ROUNDS) -> Rows:
    """On two processors, the log is cut at a snapshot, and the longer part counts. A snapshot costs as much as 2,000 decisions;
    in a long log there is one for some 100,000.
    """
    with TemporaryDirectory() as folder:
        database = Path(folder) / "runrig.db"
        history(Path(folder), waiting, rounds)
        several = [parts_of(snapshots(str(database)), 0, processors) for processors in (1, 2)]
        took = [min((timed(database, parts) for _ in range(runs)), key=lambda each: each[0]) for parts in several]
    return [
        {
            "processors": len(parts),
            "decisions": decisions,
            "s": seconds,
            "decisions/s": decisions / seconds,
            "goal s": goal,
            "s for a million": seconds / decisions * MILLION,
            "is": verdict(seconds / decisions * MILLION <= goal),
        }
        for parts, (seconds, decisions), goal in zip(several, took, GOALS_S, strict=True)
    ]


def timed(database: Path, parts: Sequence[tuple[int, int]]) -> tuple[float, int]:
    """Returns the seconds of the longest part, and the decisions of all.  Every decision follows the rules."""
    longest, decisions = 0.0, 0
    for after, upto in parts:
        began = process_time()
        found = judge(str(database), 0, (), "", after, upto)
        longest = max(longest, process_time() - began)
        assert not found.reports, found.reports
        decisions += found.numbers.decisions
    return longest, decisions


def history(folder: Path, waiting: int, rounds: int) -> None:
    """Writes the database of a server into *folder*.  As many workflows arrive as end."""
    text, chance = cluster(NODES), Random(46)
    with desk(folder, nodes=nodes_of(text), cluster=text.partition("\n")[2].partition("\n")[2], judged=False) as server:
        for _ in range(waiting):
            _arrive(server, chance)
        server.later(60)
        for nth in range(rounds):
            if nth == rounds * 2 // 5:  # Half of the work is before it: the first workflows are.
                server.store.snapshots.take()
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
