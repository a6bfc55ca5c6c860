"""The chain of hashes over a log: shows whether anything in it was changed since it was written (docs/event-export.md)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """*time*: in microseconds. *needs*: of a submission, what each group needs; None: *about* says that. *hash*: of the commit, on its
    last event. *about*: what the commit says about itself, beside *hash*: {}: nothing.

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

    def line(self) -> list[Any]:
        """As in an export."""
        more = {"needs": self.needs} if self.needs is not None else {}
        more |= {} if self.kind else {"leaf": self.leaf.hex()}
        more |= {"hash": self.hash.hex()} if self.hash else {}
        more |= {"about": self.about} if self.about else {}
        return [*self[: 7 if self.kind else 2], *([more] if more else [])]


def event_of(line: Sequence[Any]) -> Event:
    """The inverse of `Event.line`."""
    revision, seq, *rest = line
    more = rest[-1] if len(rest) in (1, 6) else {}
    hash, about = _bytes(more.get("hash", "")), more.get("about", {})
    if len(rest) < 5:
        return Event(revision, seq, leaf=_bytes(more["leaf"]), hash=hash, about=about)
    time, actor, kind, law, action = rest[:5]
    leaf = leaf_of(revision, seq, time, actor, kind, law, dumps(action))
    return Event(revision, seq, time, actor, kind, law, action, more.get("needs"), leaf, hash, about)


def _bytes(text: str) -> bytes:
    found = bytes.fromhex(text)
    if found.hex() != text:
        raise ValueError(f"{text:.80} is not a hash")
    return found


dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def leaf_of(revision: int, seq: int, time: int, actor: str, kind: str, law: str, action: str) -> bytes:
    """*action*: as JSON."""
    return hashlib.sha256(f"{dumps([revision, seq, time, actor, kind, law])[:-1]},{action}]".encode()).digest()


START = bytes(32)
"""Before the first commit."""


class Chain:
    """*last*: the stored hash of the last commit; *whole*: the computed one. *first*: the revision where the chain begins; 0: nowhere.

    *broken*: revisions whose hash is not the computed one. *found*: a commit has the hash *head*.
    """

    def __init__(self, head: str = "") -> None:
        self.last = self.whole = START
        self.first, self.broken = 0, list[int]()
        self._wanted, self.found = head, False

    def take(self, revision: int, events: Sequence[Event]) -> None:
        stored = events[-1].hash
        if not stored and not self.first:
            return
        self.first = self.first or revision
        leaves = b"".join(each.leaf for each in events)
        about = dumps(events[-1].about).encode() if events[-1].about else b""
        self.whole = hashlib.sha256(self.last + revision.to_bytes(8) + leaves + about).digest()
        if stored != self.whole:
            self.broken.append(revision)
        self.found |= self.whole.hex() == self._wanted
        self.last = stored or self.whole

    def __str__(self) -> str:
        if not self.first:
            return "no chain of hashes"
        start = f" from revision {self.first}" if self.first > 1 else ""
        return f"chain{start} {'broken' if self.broken else 'unbroken'} to {self.last.hex()}"
