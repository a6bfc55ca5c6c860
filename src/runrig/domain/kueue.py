"""What `simulate` and the command line share about imported queues.  Everything else about them is only on the server."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.quantities import FlavorResource


class Strategy(enum.Enum):
    """When fair sharing may preempt work of another queue.

    The preemptor's share, with its request, is compared with the target's share after (FINAL_SHARE) or before (INITIAL_SHARE) the
    preemption.
    """

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


FAIR = (Strategy.FINAL_SHARE, Strategy.INITIAL_SHARE)
"""The strategies of fair sharing if the configuration names none."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the whole Kueue manager.  *strategies* None: classical preemption; else fair sharing.  *gates*: by Kueue's names.

    *as_peer*: preemptors are treated as in Kueue, without law R5.  What is evicted already holds its quota to the end.  Flavors are
    chosen by quota alone, and nodes are looked at afterwards.
    """

    strategies: tuple[Strategy, ...] | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    as_peer: bool = False


@dataclass(frozen=True, slots=True)
class Warned:
    """A part of a manifest that is unknown or not supported.

    *document*: its number in the file, from 1.  *file*: empty if the scenario is one file.
    """

    document: int
    path: str
    message: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Inactive:
    """A queue or cohort in which nothing new starts.  *kind*: ClusterQueue or Cohort.

    *usage*: what it holds, as in `Balance`, in a circle of cohorts, where there are no balances; None elsewhere.
    """

    name: str
    kind: str
    reason: str
    usage: tuple[tuple[FlavorResource, int], ...] | None = None
