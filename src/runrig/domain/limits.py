"""Limits of one user over all pools; a pool also sets limits for each of its users (rule W6)."""

from dataclasses import dataclass, field

from runrig.domain.pools import Pool
from runrig.domain.quantities import GPU, amount_in_words, counted
from runrig.domain.settings import MOST_BUDGET, MOST_LIMIT
from runrig.domain.value import Shown, shown_as

EVERYWHERE = ""
"""Stands for all pools where a limit or a number belongs to a pool."""
SETTING = {"gpus": "user_gpus", "waiting": "user_waiting", "gpus_per_workflow": "gpus_per_workflow", "budget": "budget"}
"""The setting of a pool for each of its limits."""
MOST = {name: MOST_BUDGET if name == "budget" else MOST_LIMIT for name in SETTING}
"""The largest value of each limit."""


@dataclass(frozen=True, slots=True)
class LimitValues(Shown):
    """Limits by kind. null: no limit. *budget*: GPU-hours in a calendar month, in UTC; of a pool as a whole (rule W7)."""

    gpus: int | None = None
    waiting: int | None = None
    gpus_per_workflow: int | None = None
    budget: int | None = None

    @staticmethod
    def of(limits: "Limits") -> "LimitValues":
        return LimitValues(limits.gpus, limits.waiting, limits.gpus_per_workflow, limits.budget)

    @staticmethod
    def of_pool(pool: Pool) -> "LimitValues":
        return LimitValues(pool.user_gpus, pool.user_waiting, pool.gpus_per_workflow, pool.budget)


shown_as(LimitValues(8, 20, None))


@dataclass(frozen=True, slots=True)
class Limits(LimitValues):
    """The limits of *user* over all pools, set by an administrator. None: no limit.

    *gpus*: the maximum of GPUs that the user uses at the same time. *waiting*: of PENDING workflows.
    *gpus_per_workflow*: of GPUs that all groups of one workflow request. *budget*: of GPU-hours that the user uses in a calendar
    month (rule W7).
    """

    user: str = field(kw_only=True)

    def __str__(self) -> str:
        """``8 GPUs at the same time, 20 workflows waiting``; ``none``."""
        parts = []
        if self.gpus is not None:
            parts.append(f"{amount_in_words(GPU, self.gpus)} at the same time")
        if self.gpus_per_workflow is not None:
            parts.append(f"{amount_in_words(GPU, self.gpus_per_workflow)} in one workflow")
        if self.waiting is not None:
            parts.append(f"{counted(self.waiting, 'workflow')} waiting")
        if self.budget is not None:
            parts.append(f"{counted(self.budget, 'GPU-hour')} a month")
        return ", ".join(parts) or "none"

    @property
    def none(self) -> bool:
        """Whether nothing is limited."""
        return self == Limits(user=self.user)
