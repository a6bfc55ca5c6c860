"""The chain of hashes over a log: shows whether anything in it was changed since it was written (docs/event-export.md)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})
LAST = 1 << 62


class Event(NamedTuple):
    """*time*: in microseconds. *needs*: of a submission, what each group needs; None: *about* says that. *hash*: of the commit, on its
    last event. *about*: facts about the commit, on its last event; {}: there are none.

    *kind* "": retention deleted it, and left its *leaf*.
    """

    revision: int
    seq: int
    time: int = 0
    actor: str = ""
    kind: str = ""
    law: str = ""
    action: Any = None
    needs: Any = None
    leaf: bytes = b""
    hash: bytes = b""
    about: Mapping[str, Any] = NOTHING

    def line(self) -> Any:
        """As in an export."""
        more = {"needs": self.needs} if self.needs is not None else {}
        more |= {} if self.kind else {"leaf": self.leaf.hex()}
        more |= {"hash": self.hash.hex()} if self.hash else {}
        more |= {"about": self.about} if self.about else {}
        return [*self[: 7 if self.kind else 2], *([more] if more else [])]


def event_of(text: str) -> Event:
    """The inverse of `Event.line`. *text*: as in an export. Raises ValueError for other bytes than those that were hashed."""
    line = json.loads(text)
    more = line[-1] if len(line) in (3, 8) else {}
    last = dumps(more)
    hash, about = _bytes(more.get("hash", "")), more.get("about", NOTHING)
    if more and not text.endswith(f",{last}]"):
        raise ValueError(f"{text:.80} was changed")
    if len(line) == 3:
        revision, seq, _ = line
        if dumps(line) != text:
            raise ValueError(f"{text:.80} was changed")
        return Event(revision, seq, leaf=_bytes(more["leaf"]), hash=hash, about=about)
    leaf = hashlib.sha256(f"{text[: -len(last) - 2]}]".encode() if more else text.encode()).digest()
    revision, seq, time, actor, kind, law, action = line[:7]
    return Event(revision, seq, time, actor, kind, law, action, more.get("needs"), leaf, hash, about)


def _bytes(text: str) -> bytes:
    found = bytes.fromhex(text)
    if found.hex() != text:
        raise ValueError(f"{text:.80} is not a hash")
    return found


dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


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


START = bytes(32)
"""Before the first commit."""


class Chain:
    """*last*: the stored hash of the last commit; *whole*: the computed one. *first*: the revision where the chain begins; 0: nowhere.

    *broken*: revisions whose hash is not the computed one, and those whose snapshot was *altered*. *found*: a commit has the hash *head*.
    """

    def __init__(self, head: str = "") -> None:
        self.last = self.whole = START
        self.first, self.broken, self.altered = 0, list[int](), list[int]()
        self._wanted, self.found = head, False
        self._at = 0
        self._snapshots: dict[int, str] = {}

    def take(self, revision: int, events: Sequence[Event]) -> None:
        stored, self._at = events[-1].hash, revision
        if not stored and not self.first:
            return
        self.first = self.first or revision
        leaves, about = b"".join([each.leaf for each in events]), events[-1].about
        more = dumps(about).encode() if about else b""
        self.whole = hashlib.sha256(self.last + revision.to_bytes(8) + leaves + more).digest()
        # The hash does not cover the numbers of events that retention deleted.
        if stored != self.whole or [each.seq for each in events] != [*range(len(events))]:
            self.broken.append(revision)
        self.found |= self.whole.hex() == self._wanted
        self.last = stored or self.whole
        if "snapshot" in about:
            at, digest = about["snapshot"]
            if self._snapshots.pop(at, digest) != digest:
                self.altered.append(at)

    def see(self, snapshot: Snapshot, *, begins: bool) -> None:
        """*begins*: nothing before it was read."""
        if begins:
            self.last = snapshot.hash
            self.first = snapshot.revision + 1
        elif (snapshot.revision, snapshot.hash) != (self._at, self.last):
            self.altered.append(snapshot.revision)
        self._snapshots[snapshot.revision] = snapshot.digest
