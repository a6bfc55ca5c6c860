"""Changes that a cluster file would make."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from runrig.domain.value import Shown, shown_as

Action = Literal["create", "update", "delete", "keep", "unchanged"]
DeclaredKind = Literal["pool", "cohort", "flavor", "role"]


D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class ChangeOf(Generic[D]):
    """A change of something that a cluster file declares, and what it was and will be, as a *D*."""

    action: Action
    kind: DeclaredKind
    name: str
    before: D | None = None
    after: D | None = None
    undoes: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredChange(ChangeOf[dict[str, Any]], Shown):
    """*before*, *after*: the declared settings; null if the object does not exist.

    *action* keep: `--prune` would remove this cohort, but something below it is not in the file.
    *undoes*: the manual changes since the last apply that are lost, with author and time; "" if there are none.
    """


def _quota(nominal: int) -> dict[str, Any]:
    return {"quotas": {"default": {"gpu": {"nominal": nominal, "borrowing_limit": None, "lending_limit": None}}}}


shown_as(DeclaredChange("update", "pool", "vision", _quota(4), _quota(8)))
