"""Changes of which somebody may ask whether a waiting gang would start with them: the grammar of `runrig workflow why`.

A *dial* is one thing that can be turned; a change is one value of it.  Each prints as a phrase that follows "would start if".
"""

from dataclasses import dataclass

from runrig.domain.gangs import Priority
from runrig.domain.quantities import format_quantity
from runrig.domain.value import Word


class Who(Word):
    """Who can turn a dial: the owner of the workflow, an administrator of the pools or nodes; or nobody, it takes waiting."""

    OWNER = "owner"
    ADMIN = "admin"
    WAIT = "wait"


# ---------------------------------------------------------------- the owner's


@dataclass(frozen=True, slots=True)
class FewerPods:
    """*after*: pods per pod set of *pod_sets*, which had *before*."""

    pod_sets: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def __str__(self) -> str:
        parts = zip(self.pod_sets, self.before, self.after, strict=True)
        return ", ".join(
            f"{name} has {after} {'pod' if after == 1 else 'pods'}, not {before}" for name, before, after in parts
        )


@dataclass(frozen=True, slots=True)
class FewerGpus:
    """GPUs per pod."""

    pod_set: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.pod_set} takes {self.after} {'GPU' if self.after == 1 else 'GPUs'} per pod, not {self.before}"


@dataclass(frozen=True, slots=True)
class Prefer:
    """The requirement of *key* becomes a preference."""

    pod_set: str
    key: str

    def __str__(self) -> str:
        return f"{self.key} is preferred for {self.pod_set}, not required"


@dataclass(frozen=True, slots=True)
class Coarser:
    """The requirement of *key* becomes one of the coarser key *instead*."""

    pod_set: str
    key: str
    instead: str

    def __str__(self) -> str:
        return f"{self.pod_set} requires one {self.instead}, not one {self.key}"


@dataclass(frozen=True, slots=True)
class NoTopology:
    pod_set: str
    key: str

    def __str__(self) -> str:
        return f"{self.pod_set} asks for no {self.key}"


@dataclass(frozen=True, slots=True)
class TakeFlavor:
    pod_set: str
    flavor: str

    def __str__(self) -> str:
        return f"{self.pod_set} takes platform {self.flavor}"


@dataclass(frozen=True, slots=True)
class AnyFlavor:
    pod_set: str

    def __str__(self) -> str:
        return f"{self.pod_set} takes any platform of the pool"


@dataclass(frozen=True, slots=True)
class MoveToPool:
    pool: str

    def __str__(self) -> str:
        return f"it goes to pool {self.pool}"


@dataclass(frozen=True, slots=True)
class Reprioritise:
    priority: Priority

    def __str__(self) -> str:
        return f"its priority is {self.priority.value}"


# ---------------------------------------------------------------- the administrators'


@dataclass(frozen=True, slots=True)
class MoreNominal:
    """*node*: ``pool vision`` or ``cohort research``.  *key*: ``flavor/resource``."""

    node: str
    key: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.node} has {_shown(self.key, self.after)} of {self.key} as its quota, not {_shown(self.key, self.before)}"


@dataclass(frozen=True, slots=True)
class MoreBorrowing:
    """*after* None: no limit any more."""

    node: str
    key: str
    before: int
    after: int | None

    def __str__(self) -> str:
        return (
            f"{self.node} may borrow {_limit(self.key, self.after)} of {self.key}, not {_shown(self.key, self.before)}"
        )


@dataclass(frozen=True, slots=True)
class MoreLending:
    """*after* None: no limit any more."""

    node: str
    key: str
    before: int
    after: int | None

    def __str__(self) -> str:
        return f"{self.node} lends {_limit(self.key, self.after)} of {self.key}, not {_shown(self.key, self.before)}"


@dataclass(frozen=True, slots=True)
class BestEffort:
    pool: str

    def __str__(self) -> str:
        return f"the queue of pool {self.pool} is BEST_EFFORT_FIFO"


@dataclass(frozen=True, slots=True)
class NodeBack:
    """A node that is not ready, or tainted, takes pods again."""

    node: str

    def __str__(self) -> str:
        return f"node {self.node} is back"


# ---------------------------------------------------------------- what takes waiting


@dataclass(frozen=True, slots=True)
class Ended:
    """These workflows have ended.  Of several none can be left out.  ``2 gangs ...`` stands for several that are not named."""

    workflows: tuple[str, ...]

    def __str__(self) -> str:
        several = len(self.workflows) > 1 or self.workflows[0].partition(" ")[0].isdigit()
        return f"{' and '.join(self.workflows)} {'end' if several else 'ends'}"


@dataclass(frozen=True, slots=True)
class DrainDone:
    """The DELETING pool is empty, and gone."""

    pool: str

    def __str__(self) -> str:
        return f"pool {self.pool} has drained"


OwnChange = FewerPods | FewerGpus | Prefer | Coarser | NoTopology | TakeFlavor | AnyFlavor | MoveToPool | Reprioritise
OthersChange = MoreNominal | MoreBorrowing | MoreLending | BestEffort | NodeBack | Ended | DrainDone
Change = OwnChange | OthersChange


def _shown(key: str, amount: int) -> str:
    return format_quantity(key.partition("/")[2], amount)


def _limit(key: str, amount: int | None) -> str:
    return "any amount" if amount is None else _shown(key, amount)


# ---------------------------------------------------------------- what they lead to


class Fate(Word):
    """What another gang does in the next cycle."""

    STARTS = "starts"
    STOPS = "stops"
    WAITS = "waits"
    STAYS = "stays"
