"""Pools and cohorts: their quotas, and the states of a pool (docs/subpools.md; rules Q1–Q8, S1–S6)."""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.spans import format_duration
from runrig.domain.value import Shown, Word, shown_as

SUBPOOL_DELIMITER = "--"
LONGEST_NAME = 63
DEFAULT_GRACE_S = 30.0
MOST_WEIGHT = 1_000_000


@dataclass(frozen=True, slots=True)
class Quota(Shown):
    """The quota of one flavor and resource, in the unit of the resource.

    *borrowing_limit* null: it can borrow any amount. *lending_limit* null: it lends everything that is idle.
    """

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


shown_as(Quota(8))

Quotas = Mapping[FlavorResource, Quota]


class Queueing(Word):
    """BEST_EFFORT_FIFO: later gangs can start while the head waits. STRICT_FIFO: they cannot (rule P4)."""

    BEST_EFFORT_FIFO = "BEST_EFFORT_FIFO"
    STRICT_FIFO = "STRICT_FIFO"


class BudgetReached(Word):
    """The effect of a reached budget, until the month ends (rule W7). STOP: it starts nothing new. BORROW: it starts
    only LOW work, on GPUs that are idle.
    """

    STOP = "STOP"
    BORROW = "BORROW"


class PoolState(Word):
    ACTIVE = "ACTIVE"
    DELETING = "DELETING"
    ARCHIVED = "ARCHIVED"


class PoolEvent(enum.Enum):
    RESIZE = "resize"
    DELETE_IDLE = "delete, nothing alive"
    DELETE_BUSY = "delete, work alive"
    DRAINED = "drained"
    CREATE = "create again"


TRANSITIONS: Mapping[tuple[PoolState, PoolEvent], PoolState] = {
    (PoolState.ACTIVE, PoolEvent.RESIZE): PoolState.ACTIVE,
    (PoolState.ACTIVE, PoolEvent.DELETE_IDLE): PoolState.ARCHIVED,
    (PoolState.ACTIVE, PoolEvent.DELETE_BUSY): PoolState.DELETING,
    (PoolState.DELETING, PoolEvent.DRAINED): PoolState.ARCHIVED,
    (PoolState.ARCHIVED, PoolEvent.CREATE): PoolState.ACTIVE,
}
"""An event that is not listed for a state is refused and changes nothing."""


@dataclass(frozen=True, slots=True)
class TopologyKey(Shown):
    """A level that users can name, and its node label."""

    key: str
    label: str


shown_as(TopologyKey("rack", "topology.kubernetes.io/rack"))


@dataclass(frozen=True, slots=True)
class Cohort:
    """An inner node of the quota tree. *parent* None: its parent is the implicit root (rule Q8).

    *weight*: how much it can borrow compared with its siblings (rules Q2, P4, R3).
    """

    name: str
    parent: str | None = None
    quotas: Quotas = field(default_factory=dict)
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declaration of a pool: fields of a `Pool` and of responses, in the order of the responses.

    *cohort* None: below the implicit root. *flavors* empty: every flavor, in the order of the cluster.
    *default_run_time_s*, *max_run_time_s*: the default and maximum of `exec_timeout` (rule P6); None: no limit.
    *user_gpus*: the maximum of GPUs that one user uses at the same time in a top-level pool and its subpools (rule W6).
    *user_waiting*: the maximum of waiting workflows of one user there.
    *gpus_per_workflow*: the maximum of GPUs that all groups of one workflow request. None: no limit.
    *budget*: the maximum of GPU-hours that are held there in a calendar month, in UTC; *budget_reached*: what happens then; None:
    STOP (rule W7).
    *default_image*: of `runrig run` and `shell`. *shell_idle_s*: how long a `shell` can be without input; None: no limit.
    *closed_by*: who closed it to submissions; None while it is open. *closed_since*, *closed_reason*: when and why
    (rule S7). *paused_by*, *paused_since*, *paused_reason*: the same for a pool that starts nothing new (rule S8).
    *paused_until*: when the pause ends by itself; None: when a user resumes the pool.
    """

    name: str = field(kw_only=False)
    parent: str | None = None
    state: PoolState = PoolState.ACTIVE
    description: str = ""
    cohort: str | None = None
    quotas: Any
    queueing: Queueing = Queueing.BEST_EFFORT_FIFO
    weight: int = 1
    grace_s: float = DEFAULT_GRACE_S
    flavors: tuple[str, ...] = ()
    topology_keys: tuple[TopologyKey, ...] = ()
    default_platform: str | None = None
    default_exit_actions: Any
    default_run_time_s: float | None = None
    max_run_time_s: float | None = None
    user_gpus: int | None = None
    user_waiting: int | None = None
    gpus_per_workflow: int | None = None
    budget: int | None = None
    budget_reached: BudgetReached | None = None
    default_image: str | None = None
    shell_idle_s: float | None = None
    closed_by: str | None = None
    closed_since: Any
    closed_reason: str = ""
    paused_by: str | None = None
    paused_since: Any
    paused_reason: str = ""
    paused_until: Any


@dataclass(frozen=True, slots=True)
class Pool(Declared):
    """A named share of GPUs to which users submit workflows.

    *parent* and *subpool_name*: set for subpools only; all other settings of a subpool come from its parent (rule S5).
    *default_exit_actions*: (action, first exit code, last exit code). *closed_since*, *paused_since* and
    *paused_until*: in seconds since the epoch.
    """

    quotas: Quotas = field(default_factory=dict)
    default_exit_actions: tuple[tuple[str, int, int], ...] = field(default=(), kw_only=True)
    closed_since: float | None = field(default=None, kw_only=True)
    paused_since: float | None = field(default=None, kw_only=True)
    paused_until: float | None = field(default=None, kw_only=True)
    subpool_name: str | None = field(default=None, kw_only=True)

    @property
    def usual_run_time_s(self) -> float | None:
        """The run time limit, in seconds, of a workflow that does not set one (rule P6); None: no limit."""
        return self.max_run_time_s if self.default_run_time_s is None else self.default_run_time_s


_UNMARKED = Pool("")
MARKS = ("closed_by", "closed_since", "closed_reason", "paused_by", "paused_since", "paused_reason", "paused_until")
"""The fields that only close, open, pause and resume change; declarations do not (rules S7, S8)."""


def marked_as(pool: Pool, other: Pool | None) -> Pool:
    """*pool*, closed and paused like *other*; open and not paused if *other* is None."""
    return replace(pool, **{name: getattr(other or _UNMARKED, name) for name in MARKS})


def paused_through(pools: Mapping[str, Pool], name: str) -> Pool | None:
    """The pool whose pause keeps the pool *name* from starting work: itself or its parent; None: it is not paused (rule S8)."""
    pool = pools.get(name)
    while pool is not None and pool.paused_by is None:
        pool = pools.get(pool.parent or "")
    return pool


def exit_actions(rules: Iterable[tuple[str, int, int]]) -> dict[str, str]:
    """Action → exit codes, as in cluster files: ``{"RESCHEDULE": "3006,100-110"}``."""
    found: dict[str, list[str]] = {}
    for action, first, last in rules:
        found.setdefault(action, []).append(str(first) if first == last else f"{first}-{last}")
    return {action: ",".join(codes) for action, codes in found.items()}


def run_time_problem(default_s: float | None, most_s: float | None) -> str | None:
    """Why these are not a valid default and maximum run time of a pool; None if they are (rule P6)."""
    for seconds in (default_s, most_s):
        if seconds is not None and seconds <= 0:
            return "a run time must be greater than 0. Omit it for no limit"
    if default_s is not None and most_s is not None and default_s > most_s:
        return (
            f"the default run time {format_duration(default_s)} exceeds the maximum of {format_duration(most_s)}. "
            "Lower it, or raise the maximum"
        )
    return None


# ---------------------------------------------------------------- subpools


def top_level(pool: str) -> str:
    """The name of the pool, or of its parent."""
    return pool.partition(SUBPOOL_DELIMITER)[0]


def family(pools: Mapping[str, Pool], name: str) -> list[Pool]:
    """The pool *name* and its subpools, in any state."""
    return [pool for pool in pools.values() if name in (pool.name, pool.parent)]


def gpus_of(quotas: Quotas) -> dict[str, int]:
    """Flavor → nominal quota in GPUs."""
    return {key.flavor: quota.nominal for key, quota in quotas.items() if key.resource == GPU}


def share_of(parent: Quotas, gpus: Mapping[str, int]) -> Quotas:
    """The quotas of a subpool that has *gpus* (flavor → GPUs) of *parent*.

    Of every other resource it gets ⌊parent's amount × its GPUs / parent's GPUs⌋ (rule S5). For a flavor in which the parent has
    no GPUs, the GPUs of all flavors determine the ratio.
    """
    whole = gpus_of(parent)
    shares = {FlavorResource(flavor, GPU): Quota(amount) for flavor, amount in gpus.items() if amount}
    for key, quota in parent.items():
        own, all_gpus = gpus.get(key.flavor, 0), whole.get(key.flavor, 0)
        if key.resource == GPU:
            shares[key] = Quota(own)
        elif all_gpus:
            shares[key] = Quota(quota.nominal * own // all_gpus)
        else:
            shares[key] = Quota(quota.nominal * sum(gpus.values()) // (sum(whole.values()) or 1))
    return shares


def subpool_of(parent: Pool, short: str, gpus: Mapping[str, int], state: PoolState = PoolState.ACTIVE) -> Pool:
    """The subpool *short* of *parent* with *gpus* (flavor → GPUs); all other settings are those of its parent (rule S5).

    It is neither closed nor paused itself, but a parent that is closes or pauses its subpools too (rules S7, S8).
    """
    return replace(
        marked_as(parent, None),
        name=f"{parent.name}{SUBPOOL_DELIMITER}{short}",
        parent=parent.name,
        subpool_name=short,
        state=state,
        quotas=share_of(parent.quotas, gpus),
    )


# ---------------------------------------------------------------- topology keys


MOST_LEVELS = 16
HOSTNAME = "kubernetes.io/hostname"
_WORD = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = re.compile(rf"((?=[^/]{{1,253}}/){_WORD}(\.{_WORD})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
"""A Kubernetes label name with an optional DNS prefix."""


def topology_problem(keys: Sequence[TopologyKey]) -> str | None:
    """Why *keys*, coarse to fine, are not valid levels of a pool; None if they are. Includes the rules of Kubernetes."""
    names, labels = [key.key for key in keys], [key.label for key in keys]
    if len(set(names)) < len(keys) or len(set(labels)) < len(keys):
        return "topology keys and their labels must be unique"
    if len(keys) > MOST_LEVELS:
        return f"too many topology keys ({len(keys)}, maximum {MOST_LEVELS})"
    for key in keys:
        if not key.key or not key.key.isprintable() or key.key != "".join(key.key.split()):
            return f"topology key {key.key!r} must be one word, such as rack"
        if not _LABEL.fullmatch(key.label):
            return f"{key.label!r} is not a node label: use one such as topology.kubernetes.io/rack"
    if HOSTNAME in labels[:-1]:
        return f"{HOSTNAME} is the finest label: its topology key must come last"
    return None


# ---------------------------------------------------------------- names


_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def name_problem(kind: str, name: str) -> str | None:
    """Why *name* is not a valid name for *kind*, such as pool or cohort; None if it is (rule S4)."""
    if len(name) > LONGEST_NAME:
        return f"{kind} name is too long ({len(name)} characters, maximum {LONGEST_NAME})"
    if SUBPOOL_DELIMITER in name:
        way = ", or 'runrig pool subpool create' for a subpool" if kind == "pool" else ""
        return f"{kind} name {name!r} contains '--', which separates a pool from its subpool: use a single '-'{way}"
    if name.startswith("_"):
        return f"{kind} name {name!r} starts with '_', which is reserved"
    if not _NAME.fullmatch(name):
        return (
            f"{kind} name {name!r} must be lower-case letters, digits and '-', start with a letter and not end with '-'"
        )
    return None


def subpool_name_problem(parent: str, short: str) -> str | None:
    """Why *short* is not a valid name for a subpool of *parent*; None if it is (rule S4)."""
    problem = name_problem("subpool", short)
    most = LONGEST_NAME - len(parent) - len(SUBPOOL_DELIMITER)
    if problem is None and len(short) > most:
        return (
            f"subpool name {short!r} is too long. The full name {parent}--NAME is used as a name and a label in "
            f"Kubernetes, with at most {LONGEST_NAME} characters, so NAME can have up to {max(0, most)}"
        )
    return problem
