"""Changes that a cluster file would make."""

from dataclasses import dataclass
from typing import Any, Literal

from runrig.domain.value import Shown, shown_as

Action = Literal["create", "update", "delete", "keep", "unchanged"]
DeclaredKind = Literal["pool", "cohort", "flavor", "role"]


@dataclass(frozen=True, slots=True)
class DeclaredChange(Shown):
    """*before*, *after*: the declared settings; null if the object does not exist.

    *action* keep: `--prune` would remove this cohort, but something below it is not in the file.
    *undoes*: the manual changes since the last apply that are lost, with author and time; "" if there are none.
    """

    action: Action
    kind: DeclaredKind
    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    undoes: str = ""


def _quota(nominal: int) -> dict[str, Any]:
    return {"quotas": {"default": {"gpu": {"nominal": nominal, "borrowing_limit": None, "lending_limit": None}}}}


shown_as(DeclaredChange("update", "pool", "vision", _quota(4), _quota(8)))
