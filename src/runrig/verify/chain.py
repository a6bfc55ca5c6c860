"""The chain of hashes over a log: shows whether anything in it was changed since it was written (docs/event-export.md)."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from .court import Commit
from .replay import KINDS

NOTHING: Mapping[str, Any] = MappingProxyType({})
LAST, START = 1 << 62, bytes(32)
"""After the last revision, and the hash before the first commit."""
ENGINE = "engine"
dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class Unreadable(Exception):
    """One sentence for people."""


class Event(NamedTuple):
    """*time*: in microseconds. *hash*: of the commit, on its last event. *about*: facts about the commit, on its last event; {}: there
    are none. *said*: these as JSON, as they were hashed. In a log of version 0.1.0, a submission has what its groups need in *about*.

    *kind* "": retention deleted it, and left its *leaf*.
    """

    revision: int
    seq: int
    time: int = 0
    actor: str = ""
    kind: str = ""
    law: str = ""
    action: Any = None
    leaf: bytes = b""
    hash: bytes = b""
    about: Mapping[str, Any] = NOTHING
    said: bytes = b""

    def line(self) -> Any:
        """As in an export."""
        more: dict[str, Any] = {} if self.kind else {"leaf": self.leaf.hex()}
        more |= {"hash": self.hash.hex()} if self.hash else {}
        more |= {"about": self.about} if self.about else {}
        return [*self[: 7 if self.kind else 2], *([more] if more else [])]


def event_of(text: str) -> Event:
    """The inverse of `Event.line`. *text*: as in an export. Raises ValueError for other bytes than those that were hashed."""
    line = json.loads(text)
    more = line.pop() if len(line) in (3, 8) else {}
    end = f",{dumps(more)}]" if more else "]"
    hash, about = _bytes(more.get("hash", "")), more.get("about", NOTHING)
    if not text.endswith(end) or (len(line) == 2 and f"{dumps(line)[:-1]}{end}" != text):
        raise ValueError(f"{text:.80} was changed")
    if len(line) == 2:
        return Event(line[0], line[1], leaf=_bytes(more["leaf"]), hash=hash, about=about, said=said(about))
    revision, seq, time, actor, kind, law, action = line
    leaf = hashlib.sha256(f"{text[: -len(end)]}]".encode()).digest()
    return Event(revision, seq, time, actor, kind, law, action, leaf, hash, about, said(about))


def _bytes(text: str) -> bytes:
    found = bytes.fromhex(text)
    if found.hex() != text:
        raise ValueError(f"{text:.80} is not a hash")
    return found


def said(about: Mapping[str, Any] | None) -> bytes:
    """The bytes of *about* that were hashed."""
    return dumps(about).encode() if about else b""


def leaf_of(revision: int, seq: int, time: int, actor: str, kind: str, law: str, action: str) -> bytes:
    """*action*: as JSON."""
    return hashlib.sha256(f"[{revision},{seq},{time},{_words(actor, kind, law)},{action}]".encode()).digest()


@lru_cache(1_000)
def _words(*words: str) -> str:
    return ",".join(map(dumps, words))


class Snapshot(NamedTuple):
    """All that was alive after a revision, as the actions that make it. *seq*: it comes after all events of the revision.

    *time*: of the revision, in microseconds. *hash*: of the revision. *needs*: of its workflows. *plain*: as in an export.
    """

    revision: int
    seq: int
    time: int
    hash: bytes
    needs: Mapping[str, Any]
    events: Sequence[tuple[str, Any]]
    digest: str
    plain: Any

    def line(self) -> Any:
        return {"snapshot": self.plain}


def snapshot_of(text: bytes) -> Snapshot:
    """*text*: as it was hashed."""
    plain = json.loads(text)
    revision, time, hash, needs, events = plain
    return Snapshot(revision, LAST, time, _bytes(hash), needs, events, hashlib.sha256(text).hexdigest(), plain)


Item = Event | Snapshot


class Chain:
    """Joins events to commits, over any number of calls, and computes their hashes. *path*: for messages.

    *last*: the stored hash of the last commit; *whole*: the computed one. *first*: the revision where the chain begins; 0: nowhere.
    *broken*: revisions whose hash is not the computed one, and those whose snapshot was *altered*. *found*: a commit has the hash
    *head*. *at*: the last revision that was read.
    """

    def __init__(self, path: str = "", head: str = "") -> None:
        self._path, self._wanted, self.found = path, head, False
        self.last = self.whole = START
        self.first, self.at, self.broken, self.altered = 0, 0, list[int](), list[int]()
        self._snapshots: dict[int, str] = {}
        self._before, self._says = (0, "", 0.0), False

    def commits(self, items: Iterable[Item]) -> Iterator[Commit | Snapshot]:
        for revision, several in groupby(items, key=itemgetter(0)):
            listed: list[Any] = list(several)
            snapshot = listed.pop() if type(listed[-1]) is Snapshot else None
            commit = self._commit(revision, listed) if listed else None
            if commit is not None:
                yield commit
            if snapshot is not None and revision not in self._snapshots:  # The next call may begin with the same one.
                self._see(snapshot)
                yield snapshot

    def _commit(self, revision: int, listed: Sequence[Event]) -> Commit | None:
        """None: retention has deleted all of it."""
        if revision <= self.at:
            raise Unreadable(f"{self._path}: revision {revision} comes after revision {self.at}")
        self.take(revision, listed)
        about = listed[-1].about
        self._says = self._says or "laws" in about
        there = [event for event in listed if event.kind]  # Retention has deleted the others.
        events = [(event.kind, event.action) for event in there]
        for kind, _ in events:
            if kind not in KINDS:
                what = f"has an event of unknown kind {kind!r:.40}. Use a newer release"
                raise Unreadable(f"{self._path}: revision {revision} {what}")
        for event in [event for event in there if event.kind == "Submit"]:
            row, needs = event.action["workflow"], about if self._says else event.about
            row["upstream"] = needs.get("needs", NOTHING).get(row["id"], {})
        if not there:
            return None
        (last, last_actor, before), actor, time = self._before, there[0].actor, there[0].time / 1_000_000
        if self._says:
            rest = about["rest"] / 1_000_000 if "rest" in about else None
        else:  # It does not record that: a cycle has ended where time passed between two commits of the engine.
            rest = before if last_actor == ENGINE == actor and time > before else None
        gap = revision != last + 1 or len(there) != listed[-1].seq + 1
        self._before = revision, actor, time
        refused, unproven = about.get("refused", ()), about.get("unproven", ())
        return Commit(revision, time, actor, events, rest=rest, gap=gap, refused=refused, unproven=unproven)

    def take(self, revision: int, events: Sequence[Event]) -> None:
        stored, self.at = events[-1].hash, revision
        if not stored and not self.first:
            return
        self.first = self.first or revision
        _, numbers, _, _, _, _, _, leaves, hashes, _, said = zip(*events, strict=True)
        self.whole = hashlib.sha256(self.last + revision.to_bytes(8) + b"".join(leaves) + said[-1]).digest()
        # The hash does not cover the numbers of events that retention deleted, nor what only the last event may have.
        if (stored, b"".join(hashes), [*numbers]) != (self.whole, self.whole, [*range(len(events))]) or any(said[:-1]):
            self.broken.append(revision)
        self.found |= self.whole.hex() == self._wanted
        self.last = stored or self.whole
        if "snapshot" in events[-1].about:
            at, digest = events[-1].about["snapshot"]
            if self._snapshots.get(at, digest) != digest:
                self.altered.append(at)

    def _see(self, snapshot: Snapshot) -> None:
        if not self._before[0]:  # No event before it was read.
            self._before, self._says = (snapshot.revision, "", 0.0), True
            self.at, self.last, self.first = snapshot.revision, snapshot.hash, snapshot.revision + 1
        elif (snapshot.revision, snapshot.hash) != (self.at, self.last):
            self.altered.append(snapshot.revision)
        self._snapshots[snapshot.revision] = snapshot.digest
