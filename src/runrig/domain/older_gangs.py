"""Gangs that use quota which their pool no longer has."""

import enum
from dataclasses import dataclass

from runrig.domain.quantities import listed


class Share(enum.Enum):
    """Which quota of *where* a QUOTA_FULL is about.

    ALL: its quota; it has no subpools. OWN: what it has not given to its subpools. SUBTREE: its quota, which it shares with its
    subpools.
    """

    ALL = "all"
    OWN = "own"
    SUBTREE = "subtree"


@dataclass(frozen=True, slots=True)
class Older:
    """The *gangs* of *pool* that started when it had more quota, and use more than it has now until they end.

    *gave*: the pool gave the rest to its subpools; otherwise its quota was cut.
    """

    pool: str
    gangs: tuple[str, ...]
    gave: bool

    def __str__(self) -> str:
        event = "pool {} gave quota to its subpools" if self.gave else "the quota of pool {} was cut"
        then = f"before {event.format(self.pool)}"
        who = f"{'enough of ' * (len(self.gangs) > 1)}{listed(self.gangs)}"
        return f"waiting for {who} to finish, which started {then}"
