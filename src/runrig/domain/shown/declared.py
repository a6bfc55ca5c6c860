"""What a cluster file would change."""

from dataclasses import dataclass
from typing import Any, Literal

from runrig.domain.value import Shown, shown_as

Action = Literal["create", "update", "delete", "keep", "unchanged"]
DeclaredKind = Literal["pool", "cohort", "flavor", "role"]


@dataclass(frozen=True, slots=True)
class DeclaredChange(Shown):
    """*before* and *after* are null where there is none; else the declared settings.

    *action* keep: a cohort that --prune would remove, but for what hangs under it and is not in the file.
    *undoes*: who changed it by hand since the last apply, when, and what of that is lost; "" if nothing is.
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
