"""Gangs that use quota which their pool no longer has."""

from dataclasses import dataclass

from runrig.domain.quantities import listed


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
