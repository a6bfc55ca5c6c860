"""``runrig verify``, or ``python3 verify.py export.jsonl`` in a copy of this folder where runrig is not installed."""

import argparse
import gc
import json
import math
import multiprocessing
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

if not __package__:  # Run as a file: its folder is the package.
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    __package__ = Path(__file__).resolve().parent.name
    __import__(__package__)

from . import laws, lives
from .chain import LAST, Chain, Snapshot, Unreadable
from .court import Commit, Court
from .gang import counted
from .reading import commits, snapshots
from .replay import ALIVE, STEPS
from .snapshots import court_of, difference

COMMIT, AT_REST, REFUSED = "a commit", "the end of a cycle", "refusals"
_STARTS = (
    *(
        laws.t1_placement,
        laws.q3_balance,
        laws.p2_guarantee,
        laws.q5_no_cycles,
        laws.p4_strict_order,
        laws.a1_fewer_pods,
    ),
    *(lives.w1_legal_step, lives.w1_before_the_end, lives.w3_hold, lives.s8_paused_pools, lives.w6_user_gpus),
    lives.w7_reached,
)
LAWS: Mapping[str, Sequence[Callable[..., Iterator[Any]]]] = {
    "Queue": (
        *(laws.p4_keeps_its_place, laws.r6_requeue, laws.a3_recorded_size),
        *(lives.w1_once, lives.w1_before_the_end, lives.w1_inputs_are_done, lives.w5_others_have_ended, laws.p3_gate),
    ),
    "Admit": (*_STARTS, laws.p4_queue_order, lives.w2_no_gpu_twice, lives.w4_elements_at_a_time),
    "Nominate": (*_STARTS, laws.r2_reclaim, laws.r3_no_needless_stops, laws.r4_reserve_then_start),
    "Preempt": (lives.w1_legal_step, laws.p1_priorities, laws.r1_named_law, laws.r4_preempts_what_it_waits_for),
    "Withdraw": (lives.w1_legal_step, laws.r4_keeps_its_reservation),
    "Stop": (lives.w1_legal_step, lives.n2_drain, lives.p6_ends_in_time),
    "Replace": (lives.w1_legal_step, laws.t1_placement),
    "SetPriority": (lives.w1_legal_step, laws.p2_stays_within_guarantee, laws.p4_follows_its_workflow),
    **dict.fromkeys(("Unqueue", "Refuse", "TryAgain"), (lives.w1_legal_step,)),
    "PutPool": (lives.s3_drains, lives.s6_history),
    "PutCohort": (lives.s6_history,),
    "SetSpent": (lives.w7_said,),
    "Submit": (lives.s7_closed_pools, lives.w6_waiting_limit, lives.p6_run_time),
    "Reassign": (lives.p6_run_time,),
    "Release": (lives.w2_held_to_the_end,),
    "MoveGroup": (lives.p6_ends_in_time, lives.w2_released),
    COMMIT: (laws.r7_edits_stop_nothing, lives.s1_shares_add_up),
    REFUSED: (laws.p3_refused,),
    AT_REST: (laws.p5_full_cycle, laws.r1_own_pool_first, laws.r4_free_places, lives.p6_in_time),
}
"""Before an action is carried out, after a gang is queued, after a commit with edits, and at the end of a cycle. The first two take
the gang, if it is about one, and the action.
"""
CODES = sorted({law.__name__[:2].upper() for each in LAWS.values() for law in each})
CHAIN = "chain"
EDITS, DECISIONS = frozenset(("PutPool", "PutCohort", "DropCohort")), frozenset({*STEPS, "Queue"})
PART, PER_PROCESSOR = 50_000, 4
"""Events that are worth a part, and parts per processor: some take longer than others."""
LAWFUL, UNLAWFUL, NOT_READABLE = 0, 1, 2
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


class Report(NamedTuple):
    """An unlawful decision. *who*: the gang, or what was declared."""

    revision: int
    law: str
    who: str
    what: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"revision {self.revision}, {self.law}", self.who, self.what)))


@dataclass
class Numbers:
    """*first*, *last*: times. *revision*: the last one."""

    decisions: int = 0
    rests: int = 0
    not_proven: int = 0
    first: float | None = None
    last: float = 0.0
    revision: int = 0

    def text(self, reports: int) -> str:
        span = self.last - (self.first or self.last)
        unit, size = next((each for each in _UNITS if span >= each[1]), _UNITS[-1])
        return (
            f"{counted(self.decisions, 'decision')} of {span / size:,.1f} {unit}, {reports:,} unlawful, "
            f"{self.not_proven:,} not proven; {counted(self.rests, 'rest')}"
        )


class Checker:
    """Judges the commits of a log, in order. *laws*: only these; none: all."""

    def __init__(self, *, since: int = 0, laws: Iterable[str] = ()) -> None:
        self.court, self.numbers = Court(), Numbers()
        self._since, chosen = since, frozenset(laws) or frozenset(CODES)
        coded = {kind: [(law.__name__[:2].upper(), law) for law in several] for kind, several in LAWS.items()}
        listed = {kind: [each for each in several if each[0] in chosen] for kind, several in coded.items()}
        self._laws = {kind: several for kind, several in listed.items() if several}
        self._told, self._excused = set[tuple[str, str]](), set[str]()
        self._edited = math.inf

    def read(self, log: Iterable[Commit | Snapshot]) -> list[Report]:
        """Returns the unlawful decisions. Raises Unreadable where an event lacks what its kind needs.

        Where events are missing, retention has deleted a workflow that had ended; only what comes after that is judged.
        """
        found: list[Report] = []
        for commit in log:
            try:
                for report in self.take(commit):
                    found.append(report)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                if found:  # After an unlawful decision, later events may be impossible.
                    return found
                what = f"{type(error).__name__} {error}"
                raise Unreadable(f"revision {commit.revision} is damaged, or from another release: {what}") from error
            if isinstance(commit, Commit) and commit.gap:
                found, self.numbers.not_proven = [], self.numbers.decisions
        return found

    def take(self, commit: Commit | Snapshot) -> Iterator[Report]:
        if isinstance(commit, Snapshot):
            yield from self._meet(commit)
            return
        court, numbers, kinds = self.court, self.numbers, {kind for kind, _ in commit.events}
        court.unproven = {*commit.unproven}
        if commit.rest is not None:
            yield from self._rest(commit.rest)
        self._turn_to(commit, kinds)
        judged = self._laws if commit.revision >= self._since else {}
        for law, judge in judged.get(REFUSED, ()) if commit.refused else ():
            yield from (Report(commit.revision, law, *found) for found in judge(court, commit))
        for kind, action in commit.events:
            if kind not in LAWS:
                court.apply(kind, action)
                continue
            if kind == "Queue":  # Its laws judge the new gang.
                court.apply(kind, action)
            if kind in judged:
                yield from self._judge(kind, action)
            if kind in DECISIONS:
                numbers.decisions += 1
                numbers.not_proven += not judged
            if kind != "Queue":
                court.apply(kind, action)
        for law, judge in judged.get(COMMIT, ()) if kinds & EDITS else ():
            yield from (Report(commit.revision, law, "", what) for what in judge(court, commit))
        if commit.end:
            yield from self._rest(commit.time)
        numbers.not_proven += len(court.excused - self._excused)
        self._excused, court.excused = (self._excused | court.excused) & court.unproven, set()

    def _turn_to(self, commit: Commit, kinds: Set[str]) -> None:
        """*kinds*: of its events."""
        court, numbers = self.court, self.numbers
        court.turn_to(commit.time)
        numbers.revision, numbers.last = commit.revision, commit.time
        numbers.first = commit.time if numbers.first is None else numbers.first
        aside = commit.events if "SetAside" in kinds else ()
        court.arriving, court.leaving = set(), {each["workflow"] for kind, each in aside if kind == "SetAside"}
        moves = [each for kind, each in commit.events if kind == "MoveGroup"] if "Release" in kinds else ()
        court.ending = Counter([f"{each['workflow']}/{each['group']}" for each in moves if each["status"] not in ALIVE])
        self._edited = commit.time if kinds & {"PutPool", "PutCohort"} else -math.inf

    def _meet(self, snapshot: Snapshot) -> Iterator[Report]:
        """Begins with *snapshot*, or compares it with what the log says."""
        court, numbers = court_of(snapshot), self.numbers
        if numbers.first is None:
            self.court, numbers.first, numbers.last, numbers.revision = court, court.now, court.now, snapshot.revision
        elif (what := difference(self.court, court)) is not None:
            yield Report(snapshot.revision, CHAIN, "", f"the snapshot of this revision has another {what} than the log")

    def _judge(self, kind: str, action: Any) -> Iterator[Report]:
        court, at, gang = self.court, self.numbers.revision, None
        court.kind, several = kind, self._laws[kind]
        if kind in DECISIONS:
            gang = court.gangs.get(action["gang"] if kind != "Queue" else action["gang"]["id"])
            if gang is None:
                if ("W1", lives.w1_legal_step) in several:
                    yield Report(at, "W1", action["gang"], f"{kind} of a gang that is not in the queue")
                return
        for law, judge in several:
            for what in judge(court, gang, action):
                yield Report(at, law, gang.id if gang else "", what)

    def _rest(self, at: float) -> Iterator[Report]:
        """A cycle ended. It archives drained pools after all decisions, so only the next cycle takes them into account."""
        court, revision = self.court, self.numbers.revision
        if at <= self._edited or revision < self._since:
            return
        self.numbers.rests += 1
        court.turn_to(at)
        waits: set[tuple[str, str]] = set()
        for law, judge in self._laws.get(AT_REST, ()):
            for gang, what in judge(court):
                waits.add((law, gang.id))
                if (law, gang.id) not in self._told:
                    yield Report(revision, law, gang.id, what)
        self._told = waits


def changes(chain: Chain) -> list[Report]:
    """Reports changes of the log since it was written."""
    found = [Report(at, CHAIN, "", "this commit or an earlier one was changed") for at in chain.broken]
    return found + [Report(at, CHAIN, "", "the snapshot of this revision was changed") for at in chain.altered]


class Judged(NamedTuple):
    """What was found in a part of a log. *begun*: the revision of the snapshot with which it begins; 0: the start of the log."""

    reports: list[Report]
    numbers: Numbers
    begun: int
    chain: Chain


def judge(path: str, since: int, laws: Sequence[str], head: str, after: int, upto: int) -> Judged:
    """Judges the commits after revision *after*, beginning with its snapshot, up to *upto*. Raises Unreadable."""
    chain, checker = Chain(path, head), Checker(since=since, laws=laws)
    log, found = commits(path, chain, after, upto), list[Report]()
    collects = gc.isenabled()
    gc.disable()  # Nothing here refers to itself, and collecting takes a tenth of the time.
    try:
        found = checker.read(log)
        for _ in log:  # Checks the rest of the chain even if the decisions became impossible.
            pass
    except Unreadable as error:
        if not chain.broken:
            raise Unreadable(f"{error} (read up to revision {chain.at})" if chain.at else str(error)) from error
    finally:
        if collects:
            gc.enable()
    return Judged(found + changes(chain), checker.numbers, after, chain)


def check(path: str, *, since: int, laws: Sequence[str], head: str, as_json: bool, say: Callable[[str], None]) -> int:
    """Checks a file and prints a line per violation with *say*. Returns the exit code. Raises Unreadable.

    Without *head*, begins at the last snapshot before *since*. Cuts a long log at snapshots, to check it on all processors.
    *head*: a commit must have this hash; "": none has to.
    """
    edges = cuts(snapshots(path), 0 if head else since)
    parts = together([(path, since, laws, head, after, upto) for after, upto in edges])
    found = [report for part in parts for report in part.reports]
    totals = {name: sum(getattr(part.numbers, name) for part in parts) for name in ("decisions", "not_proven", "rests")}
    began = next((part.numbers.first for part in parts if part.numbers.first is not None), None)
    numbers = replace(parts[-1].numbers, **totals, first=began)
    if head and not any(part.chain.found for part in parts):
        what = f"no commit has the hash {head}. The log was rewritten, or it is a different log"
        found.append(Report(numbers.revision, CHAIN, "", what))
    for report in found:
        say(json.dumps(report._asdict()) if as_json else str(report))
    first = next((part.chain.first for part in parts if part.chain.first), 0)
    broken, newest = [at for part in parts for at in part.chain.broken], parts[-1].chain.last.hex()
    if as_json:
        hashed = {"from": first or None, "broken": broken, "head": newest if first else None}
        say(json.dumps(totals | {"unlawful": len(found), "snapshot": parts[0].begun or None, "chain": hashed}))
    else:
        whole, start = "broken" if broken else "unbroken", f" from revision {first}" if first > 1 else ""
        hashes = f"chain{start} {whole} to {newest}" if first else "no chain of hashes"
        begun = f"started at the snapshot of revision {parts[0].begun:,}; " if parts[0].begun else ""
        say(f"{numbers.text(len(found))}; {begun}{hashes}")
    return UNLAWFUL if found else LAWFUL


def cuts(kept: Mapping[int, int], since: int) -> list[tuple[int, int]]:
    """Returns the parts of a log, as (after which revision, up to which one). *kept*: of `reading.snapshots`."""
    begin = max((at for at in kept if at < since), default=0)
    events, processors = max(kept.values(), default=0) - kept.get(begin, 0), os.cpu_count() or 1
    several = min(processors * PER_PROCESSOR, events // PART) if processors > 1 else 1
    return parts_of(kept, begin, several - several % processors if several > processors else several)


def parts_of(kept: Mapping[int, int], begin: int, several: int) -> list[tuple[int, int]]:
    """Up to *several* parts with about as many events each; the first begins at *begin*."""
    done, rest = kept.get(begin, 0), {at: count for at, count in kept.items() if at > begin}
    wanted = [done + (max(rest.values(), default=done) - done) * nth // several for nth in range(1, several)]
    edges = sorted({begin, *(min(rest, key=lambda at: abs(rest[at] - count)) for count in wanted)})
    return list(zip(edges, [*edges[1:], LAST], strict=True))


def together(parts: Sequence[Sequence[Any]]) -> list[Judged]:
    """Judges each part in a process of its own, so that its memory is free afterwards."""
    if len(parts) == 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [judge(*each) for each in parts]
    with multiprocessing.get_context("fork").Pool(min(len(parts), os.cpu_count() or 1), maxtasksperchild=1) as pool:
        return pool.starmap(judge, parts, chunksize=1)


def main(args: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="verify.py", description="Checks the decisions in an event log of runrig.")
    parser.add_argument("file", help="a SQLite database, a backup or an export")
    parser.add_argument(
        "--from", dest="since", type=int, default=0, metavar="REVISION", help="check from this revision on"
    )
    parser.add_argument("--law", default="", metavar="LAWS", help="check only these rules, such as P4,R3")
    parser.add_argument("--head", default="", metavar="HASH", help="hash from the last line of an earlier run")
    parser.add_argument("-t", dest="format", choices=("text", "json"), default="text")
    asked = parser.parse_args(args)
    try:
        laws, head = known_laws(asked.law), known_hash(asked.head)
        return check(asked.file, since=asked.since, laws=laws, head=head, as_json=asked.format == "json", say=say)
    except Unreadable as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        return NOT_READABLE


def say(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")


def printable(text: str) -> str:
    """Names in a log can contain anything: terminals would carry out their control characters."""
    return "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])


def known_hash(text: str) -> str:
    """Raises Unreadable for what is not a hash."""
    if text and not re.fullmatch("[0-9a-f]{64}", text):
        raise Unreadable(f"{text!r:.80} is not a hash. Copy the 64 digits from the last line of an earlier run")
    return text


def known_laws(text: str) -> list[str]:
    """Raises Unreadable for a law that is not judged."""
    laws = [each.strip().upper() for each in text.split(",") if each.strip()]
    unknown = [each for each in laws if each not in CODES]
    if unknown:
        raise Unreadable(f"{unknown[0]} cannot be checked. Rules: {', '.join(CODES)}")
    return laws


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
