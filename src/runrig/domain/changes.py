"""Changes that would start a waiting gang, as `runrig workflow why` lists them.

A *dial* is something that can be changed; a change is one value for it. Each change prints as an imperative.
"""

from dataclasses import dataclass
from typing import ClassVar

from runrig.domain.gangs import Priority
from runrig.domain.nodes import DEFAULT_FLAVOR
from runrig.domain.quantities import GPU, amount_in_a_sentence, amount_in_words, amount_of_flavor, counted, listed
from runrig.domain.value import Word


class Who(Word):
    """Who can make a change: the owner of the workflow, or an administrator of the pools or nodes. WAIT: it only takes time."""

    OWNER = "owner"
    ADMIN = "admin"
    WAIT = "wait"


# ---------------------------------------------------------------- the owner's


@dataclass(frozen=True, slots=True)
class FewerPods:
    """Fewer pods. *after*: pods per pod set of *pod_sets*, instead of *before*."""

    pod_sets: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def __str__(self) -> str:
        parts = zip(self.pod_sets, self.before, self.after, strict=True)
        return " and ".join(
            f"request {counted(after, 'pod')} for {name} (now {before})" for name, before, after in parts
        )


@dataclass(frozen=True, slots=True)
class FewerGpus:
    """Fewer GPUs per pod."""

    pod_set: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"request {amount_in_words(GPU, self.after)} per pod for {self.pod_set} (now {self.before})"


@dataclass(frozen=True, slots=True)
class Prefer:
    """Prefer one domain of *key* instead of requiring it."""

    pod_set: str
    key: str

    def __str__(self) -> str:
        return f"make {self.key} preferred instead of required for {self.pod_set}"


@dataclass(frozen=True, slots=True)
class Coarser:
    """Require one domain of the coarser key *instead* rather than of *key*."""

    pod_set: str
    key: str
    instead: str

    def __str__(self) -> str:
        return f"require one {self.instead} instead of one {self.key} for {self.pod_set}"


@dataclass(frozen=True, slots=True)
class NoTopology:
    pod_set: str
    key: str

    def __str__(self) -> str:
        return f"drop the {self.key} requirement of {self.pod_set}"


@dataclass(frozen=True, slots=True)
class TakeFlavor:
    pod_set: str
    flavor: str

    def __str__(self) -> str:
        return f"use platform {self.flavor} for {self.pod_set}"


@dataclass(frozen=True, slots=True)
class AnyFlavor:
    pod_set: str

    def __str__(self) -> str:
        return f"allow any platform of the pool for {self.pod_set}"


@dataclass(frozen=True, slots=True)
class MoveToPool:
    pool: str

    def __str__(self) -> str:
        return f"move it to pool {self.pool}"


@dataclass(frozen=True, slots=True)
class Reprioritise:
    priority: Priority

    def __str__(self) -> str:
        return f"set its priority to {self.priority.value}"


# ---------------------------------------------------------------- the administrators'


@dataclass(frozen=True, slots=True)
class MoreQuota:
    """A larger *PART* of a `Quota`. *node*: ``pool vision`` or ``cohort research``. *key*: ``flavor/resource``. *after* None: no limit."""

    PART: ClassVar[str]
    WHAT: ClassVar[str]
    node: str
    key: str
    before: int
    after: int | None

    def __str__(self) -> str:
        what = f"the {self.WHAT} of {self.node}"
        if self.after is None:
            return f"remove {what} (now {_shown(self.key, self.before)})"
        return f"raise {what} to {_shown(self.key, self.after)} (now {_number(self.key, self.before)})"


class MoreNominal(MoreQuota):
    PART, WHAT = "nominal", "quota"


class MoreBorrowing(MoreQuota):
    PART, WHAT = "borrowing_limit", "borrowing limit"


class MoreLending(MoreQuota):
    PART, WHAT = "lending_limit", "lending limit"


@dataclass(frozen=True, slots=True)
class BestEffort:
    pool: str

    def __str__(self) -> str:
        return f"switch pool {self.pool} to BEST_EFFORT_FIFO"


@dataclass(frozen=True, slots=True)
class MoreGpusOfUser:
    """A higher limit of GPUs (rule W6), of the user over all pools, or of each user of the top-level pool *where*."""

    user: str
    where: str
    before: int
    after: int

    def __str__(self) -> str:
        whose = f"pool {self.where} for one user" if self.where else self.user
        return f"raise the limit of {whose} to {amount_in_words(GPU, self.after)} (now {self.before})"


@dataclass(frozen=True, slots=True)
class NodeBack:
    """A node that is not ready or is tainted accepts pods again."""

    node: str

    def __str__(self) -> str:
        return f"bring node {self.node} back"


# ---------------------------------------------------------------- how they are described


@dataclass(frozen=True, slots=True)
class Ended:
    """All of these workflows have finished. ``2 gangs ...`` means several that are not named."""

    workflows: tuple[str, ...]

    def __str__(self) -> str:
        several = len(self.workflows) > 1 or self.workflows[0].partition(" ")[0].isdigit()
        return f"until {listed(self.workflows)} {'have' if several else 'has'} finished"


@dataclass(frozen=True, slots=True)
class DrainDone:
    """The DELETING pool is empty and archived."""

    pool: str

    def __str__(self) -> str:
        return f"until pool {self.pool} has drained"


OwnChange = FewerPods | FewerGpus | Prefer | Coarser | NoTopology | TakeFlavor | AnyFlavor | MoveToPool | Reprioritise
OthersChange = MoreQuota | MoreGpusOfUser | BestEffort | NodeBack | Ended | DrainDone
Change = OwnChange | OthersChange


def _shown(key: str, amount: int) -> str:
    return amount_of_flavor(key, amount, named=key.partition("/")[0] != DEFAULT_FLAVOR)


def _number(key: str, amount: int) -> str:
    return amount_in_a_sentence(key.partition("/")[2], amount)


# ---------------------------------------------------------------- what they lead to


class Fate(Word):
    """The effect of a change on another gang in the next cycle."""

    STARTS = "starts"
    STOPS = "stops"
    WAITS = "waits"
    STAYS = "stays"
