"""``runrig verify``, or ``python3 verify.py export.jsonl`` in a copy of this folder where runrig is not installed."""

import argparse
import gc
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

if not __package__:  # Run as a file: its folder is the package.
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    __package__ = Path(__file__).resolve().parent.name
    __import__(__package__)

from .chain import LAST, Chain, Snapshot
from .court import Commit, Court
from .gang import counted
from .reading import Unreadable, commits, snapshots
from .snapshots import difference
from .table import AT_REST, CODES, EDITS, OF_COMMITS, OF_DECLARATIONS, OF_GANGS

ENGINE, CHAIN = "engine", "chain"
PART, PER_PROCESSOR = 50_000, 4
"""Events that are worth a part, and parts per processor: some take longer than others."""
REWRITTEN = "The log was rewritten, or it is a different log"
LAWFUL, UNLAWFUL, NOT_READABLE = 0, 1, 2
DECISIONS = frozenset(OF_GANGS) | {"Release"}
JUDGED = frozenset(OF_GANGS) | frozenset(OF_DECLARATIONS)


class Report(NamedTuple):
    """An unlawful decision. *who*: the gang, or what was declared."""

    revision: int
    law: str
    who: str
    what: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"revision {self.revision}, {self.law}", self.who, self.what)))


class Numbers(NamedTuple):
    """*first*, *last*: times. *revision*: the last one."""

    decisions: int
    rests: int
    not_proven: int
    first: float | None
    last: float
    revision: int

    def plus(self, then: "Numbers") -> "Numbers":
        return then._replace(
            decisions=self.decisions + then.decisions,
            rests=self.rests + then.rests,
            not_proven=self.not_proven + then.not_proven,
            first=then.first if self.first is None else self.first,
        )

    def text(self, reports: int) -> str:
        days = (self.last - (self.first or self.last)) / 86_400
        return (
            f"{counted(self.decisions, 'decision')} of {days:,.1f} days, {reports:,} unlawful, "
            f"{self.not_proven:,} not proven; {counted(self.rests, 'rest')}"
        )


class Checker:
    """Judges the commits of a log, in order. *laws*: only these; none: all."""

    def __init__(self, *, since: int = 0, laws: Iterable[str] = ()) -> None:
        self.court = Court()
        self.decisions = self.rests = self.not_proven = 0
        self.first: float | None = None
        self.last = 0.0
        self._since, self._laws = since, frozenset(laws) or frozenset(CODES)
        self._of_gangs = {kind: [law for law in each if law[0] in self._laws] for kind, each in OF_GANGS.items()}
        self._of_declarations = {
            kind: [law for law in each if law[0] in self._laws] for kind, each in OF_DECLARATIONS.items()
        }
        self._told: set[tuple[str, str]] = set()
        self._before: Commit | None = None

    @property
    def numbers(self) -> Numbers:
        return Numbers(self.decisions, self.rests, self.not_proven, self.first, self.last, self.court.world.revision)

    def read(self, log: Iterable[Commit | Snapshot]) -> list[Report]:
        """Returns the unlawful decisions. Raises Unreadable where an event lacks what its kind needs.

        Where events are missing, retention has deleted a workflow that had ended; only what comes after that is judged.
        """
        found: list[Report] = []
        for commit in chain(log, (None,)):
            try:
                for report in self.finish() if commit is None else self.take(commit):
                    found.append(report)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                if found:  # After an unlawful decision, later events may be impossible.
                    return found
                at, what = self.court.world.revision if commit is None else commit.revision, type(error).__name__
                raise Unreadable(f"revision {at} is damaged, or from another release: {what} {error}") from error
            if isinstance(commit, Commit) and commit.gap:
                found, self.not_proven = [], self.decisions
        return found

    def meet(self, snapshot: Snapshot) -> Iterator[Report]:
        """Begins with *snapshot*, or compares it with what the log says."""
        court = Court()
        court.begin(snapshot)
        if self.first is None:
            self.court, self.first, self.last = court, court.world.now, court.world.now
            return
        what = difference(self.court.world, court.world) or self.court.spending.differs(court.spending, court.world.now)
        if what is not None:
            yield Report(snapshot.revision, CHAIN, "", f"the snapshot of this revision has another {what} than the log")

    def take(self, commit: Commit | Snapshot) -> Iterator[Report]:
        if isinstance(commit, Snapshot):
            yield from self.meet(commit)
            return
        before, self._before = self._before, commit
        if before is not None:
            yield from self._rest(before, commit)
        world = self.court.world
        self.court.turn_to(commit.time)
        world.revision = commit.revision
        self.first = commit.time if self.first is None else self.first
        self.last = commit.time
        self.court.leaving = {action["workflow"] for kind, action in commit.events if kind == "SetAside"}
        self.court.arriving.clear()
        judged, edited = commit.revision >= self._since, False
        for kind, action in commit.events:
            if judged and kind in JUDGED:
                yield from self._judge(commit.revision, kind, action)
            if kind in DECISIONS:
                self.decisions += 1
                self.not_proven += not judged
            edited = edited or kind in EDITS
            self.court.apply(kind, action)
        for law, judge in OF_COMMITS if judged and edited else ():
            if law in self._laws:
                yield from (Report(commit.revision, law, "", what) for what in judge(self.court, commit))
        self.court.forget()

    def finish(self) -> Iterator[Report]:
        if self._before is not None:
            yield from self._rest(self._before, None)

    def _judge(self, revision: int, kind: str, action: Any) -> Iterator[Report]:
        for law, declared in self._of_declarations.get(kind, ()):
            for what in declared(self.court, action):
                yield Report(revision, law, "", what)
        if kind not in OF_GANGS:
            return
        world, self.court.kind = self.court.world, kind
        self.court.renew()
        gang = world.queued(action) if kind == "Queue" else world.gangs.get(action["gang"])
        if gang is None:
            if "W1" in self._laws:
                yield Report(revision, "W1", action["gang"], f"{kind} of a gang that is not in the queue")
            return
        for law, judge in self._of_gangs[kind]:
            for what in judge(self.court, gang, action):
                yield Report(revision, law, gang.id, what)

    def _rest(self, commit: Commit, then: Commit | None) -> Iterator[Report]:
        at = _rested(commit, then)
        if at is None or commit.revision < self._since:
            return
        self.rests += 1
        self.court.renew()
        self.court.turn_to(at)
        waits: set[tuple[str, str]] = set()
        for law, judge in AT_REST:
            for gang, what in judge(self.court) if law in self._laws else ():
                waits.add((law, gang.id))
                if (law, gang.id) not in self._told:
                    yield Report(commit.revision, law, gang.id, what)
        self._told = waits


def _rested(commit: Commit, then: Commit | None) -> float | None:
    """Returns when a cycle ended between *commit* and *then*, the next one. If the log does not record that, *then* must be of the
    engine, and later.
    """
    at = None
    if then is not None and then.says:
        at = then.rest
    elif commit.end or (
        commit.end is None and then is not None and commit.actor == ENGINE == then.actor and then.time > commit.time
    ):
        at = commit.time
    if at is None or at > commit.time:
        return at
    # A cycle archives drained pools after all decisions, so only the next cycle takes them into account.
    return None if any(kind in ("PutPool", "PutCohort") for kind, _ in commit.events) else at


class Judged(NamedTuple):
    """What was found in a part of a log. *begun*: the revision of the snapshot with which it begins; 0: the start of the log."""

    reports: list[Report]
    numbers: Numbers
    begun: int
    hashes: Chain


def of_chain(hashes: Chain) -> list[Report]:
    changed = [Report(at, CHAIN, "", "this commit or an earlier one was changed") for at in hashes.broken]
    return changed + [Report(at, CHAIN, "", "the snapshot of this revision was changed") for at in hashes.altered]


def judge(path: str, since: int, laws: Sequence[str], head: str, after: int, upto: int) -> Judged:
    """Judges the commits after revision *after*, beginning with its snapshot, up to *upto*. Raises Unreadable."""
    hashes, checker = Chain(head), Checker(since=since, laws=laws)
    log, found = commits(path, hashes, after, upto), list[Report]()
    collects = gc.isenabled()
    gc.disable()  # Nothing here refers to itself, and collecting takes a tenth of the time.
    try:
        found = checker.read(log)
        for _ in log:  # Checks the rest of the chain even if the decisions became impossible.
            pass
    except Unreadable:
        if not hashes.broken:
            raise
    finally:
        if collects:
            gc.enable()
    return Judged(found + of_chain(hashes), checker.numbers, after, hashes)


def check(path: str, *, since: int, laws: Sequence[str], head: str, as_json: bool, say: Callable[[str], None]) -> int:
    """Checks a file and prints a line per violation with *say*. Returns the exit code. Raises Unreadable.

    Without *head*, begins at the last snapshot before *since*. Cuts a long log at snapshots, to check it on all processors.
    *head*: a commit must have this hash; "": none has to.
    """
    parts = together(
        [(path, since, laws, head, after, upto) for after, upto in cuts(snapshots(path), 0 if head else since)]
    )
    found = [report for part in parts for report in part.reports]
    numbers = parts[0].numbers
    for part in parts[1:]:
        numbers = numbers.plus(part.numbers)
    if head and not any(part.hashes.found for part in parts):
        found.append(Report(numbers.revision, CHAIN, "", f"no commit has the hash {head}. {REWRITTEN}"))
    for report in found:
        say(json.dumps(report._asdict()) if as_json else str(report))
    first = next((part.hashes.first for part in parts if part.hashes.first), 0)
    broken, newest = [at for part in parts for at in part.hashes.broken], parts[-1].hashes.last.hex()
    if as_json:
        totals = {name: getattr(numbers, name) for name in ("decisions", "not_proven", "rests")}
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
    """Judges the parts in processes; each takes the next part when it is done with one."""
    if len(parts) == 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [judge(*each) for each in parts]
    with multiprocessing.get_context("fork").Pool(min(len(parts), os.cpu_count() or 1)) as pool:
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
        return check(asked.file, since=asked.since, laws=laws, head=head, as_json=asked.format == "json", say=print)
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return NOT_READABLE


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
