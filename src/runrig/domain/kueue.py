"""Values about imported queues that both `simulate` and the command line use. `runrig.kueue` has the rest."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from runrig.domain.quantities import FlavorResource
from runrig.domain.reasons import Reason

A = TypeVar("A")


class Strategy(enum.Enum):
    """When fair sharing may preempt workloads of another queue.

    The preemptor's share including its request is compared with the target's share after the preemption (FINAL_SHARE) or before
    it (INITIAL_SHARE).
    """

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


STRATEGIES = {strategy.value: strategy for strategy in Strategy}
FAIR = (Strategy.FINAL_SHARE, Strategy.INITIAL_SHARE)
"""The fair sharing strategies if the configuration does not specify any."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the Kueue manager.

    *strategies* None: classical preemption; otherwise fair sharing. *gates*: by Kueue's names.
    *as_peer*: like Kueue itself, treat preemptors without rule R5, let evicted workloads use their quota until they have
    stopped, and choose flavors by quota alone before looking at nodes.
    """

    strategies: tuple[Strategy, ...] | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    as_peer: bool = False


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning about an unknown or unsupported part of a manifest.

    *document*: its number in the file, from 1. *file*: empty if the scenario is a single file.
    """

    document: int
    path: str
    message: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Inactive:
    """A queue or cohort in which nothing new starts. *kind*: ClusterQueue or Cohort.

    *usage*: what it uses if it is in a cycle of cohorts, which has no `Balance`; otherwise None.
    """

    name: str
    kind: str
    reason: str
    usage: tuple[tuple[FlavorResource, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Preemption:
    """*by*: the workload that needs its quota; *reason*: the rule that allows it. *job*: what is restored in its Job when it
    is suspended, None without one.
    """

    workload: str
    queue: str
    by: str
    reason: str
    job: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending workload. *considered*: the cycle evaluated it. *parked*: it waits until something changes. *reason* None: no
    reason is known.

    *note*: why no cycle will evaluate it, for users.
    """

    workload: str
    queue: str
    considered: bool
    parked: bool
    reason: str | None
    reasons: tuple[Reason, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Decided(Generic[A]):
    """The decisions of one cycle. *A*: what is known of an admission.

    *skipped*: queue → number of preemptions that were chosen but not carried out, because an earlier entry prevented them.
    """

    admitted: tuple[A, ...] = ()
    preempted: tuple[Preemption, ...] = ()
    pending: tuple[Pending, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
