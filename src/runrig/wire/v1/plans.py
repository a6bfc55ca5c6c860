"""Cluster files, and questions for a plan: the edit whose effects it shows."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from runrig.domain.shown.declared import DeclaredChange
from runrig.wire.base import Answer, Request, Whole, example, example_of
from runrig.wire.v1.pools import PoolEdit
from runrig.wire.v1.workflows import WorkflowSubmit

MOST_NODES = 10_000


class PlanRequest(Request):
    """One of *file*, *pool* with *quota*, *edit* or *act*, *drain*, *down*, *submission*.

    *file*: the text of a cluster file, *prune* as in apply. *quota*: GPUs, or as text. *edit*: as in
    the update of a pool. *act*: `pause`, with *until* as in its own request, or `resume`. *drain*: nodes to be drained as
    by `nodes:drain`, with *force* or without. *down*: a topology domain that loses all nodes and their pods; by
    its name, or by its path if several have that name.
    """

    model_config = example({"pool": "vision", "quota": 96})

    file: str | None = None
    prune: bool = False
    pool: str | None = None
    quota: Whole | str | dict[str, Any] | None = None
    edit: PoolEdit | None = None
    act: Literal["pause", "resume"] | None = None
    until: str | None = None
    drain: list[str] | None = Field(default=None, min_length=1, max_length=MOST_NODES)
    force: bool = False
    down: str | None = Field(default=None, min_length=1)
    submission: WorkflowSubmit | None = None

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        asked = [self.file, self.pool, self.drain, self.down, self.submission]
        if sum(each is not None for each in asked) != 1:
            raise ValueError("set exactly one of file, pool, drain, down and submission")
        if (self.pool is not None) != sum(each is not None for each in (self.quota, self.edit, self.act)):
            raise ValueError("pool requires quota, edit or act, and they require pool")
        if self.until is not None and self.act != "pause":
            raise ValueError("until requires act pause")
        if self.force and self.drain is None:
            raise ValueError("force requires drain")
        if self.prune and self.file is None:
            raise ValueError("prune requires file")
        return self


class ApplyRequest(Request):
    """*file*: the text of a cluster file. *prune*: delete what an earlier apply created and the file no longer
    contains.

    *if_revision*: of a plan; refused if its subject was declared again since. *force*: also undo changes by hand since
    the last apply.
    """

    model_config = example(
        {"file": "pools:\n- {name: vision, quota: 8}\n- {name: batch, quota: 8}\n", "prune": False, "dry_run": True}
    )

    file: str
    prune: bool = False
    dry_run: bool = False
    if_revision: Whole | None = Field(default=None, ge=0)
    force: bool = False


class ApplyAnswer(Answer):
    """*applied*: false for a dry run."""

    model_config = example({"changes": [example_of(DeclaredChange)], "applied": False})

    changes: tuple[DeclaredChange, ...]
    applied: bool
