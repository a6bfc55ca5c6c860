"""The state as rows: the format in which it is stored, loaded and changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.budgets import Spent
from runrig.domain.gangs import Gang, GangState, Law, Placement
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Action
from runrig.domain.pools import Cohort, Pool
from runrig.domain.workflows import Group, Task, Workflow, WorkflowSpec


@dataclass(frozen=True, slots=True)
class GangRow:
    """A gang as stored. *admitted_at*: None until it is ADMITTED. *placement*, *waits_for*: empty until it is nominated."""

    gang: Gang
    state: GangState
    placement: Placement = ()
    waits_for: tuple[str, ...] = ()
    admitted_at: float | None = None
    preempted_by: str | None = None
    law: Law | None = None

    @classmethod
    def waiting(cls, gang: Gang) -> "GangRow":
        return cls(gang, GangState.PENDING)


@dataclass(frozen=True, slots=True)
class Said:
    """The user's note on a change, stored with it."""

    description: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """The description that a user gave to their change *revision*."""

    revision: int
    description: str
    tags: tuple[str, ...] = ()


Record = Flavor | Node | Cohort | Pool | Limits | Spent | Workflow | Group | Task | GangRow | Note


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row to write. *record* None: delete it. *kind*: the record's class name.

    *key*: its identity: name | user | (of, name) | workflow id | (workflow, group) | (workflow, task, retry_id) | gang id | revision.
    """

    kind: str
    key: tuple[str | int, ...]
    record: Record | None


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the event log. *revision*: the commit; *seq*: its position in the commit; *law*: the rule behind it, "" if none."""

    revision: int
    seq: int
    time: float
    actor: str
    action: Action
    law: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The complete current state, except finished workflows, which are read one by one."""

    revision: int
    flavors: tuple[Flavor, ...]
    nodes: tuple[Node, ...]
    cohorts: tuple[Cohort, ...]
    pools: tuple[Pool, ...]
    workflows: tuple[Workflow, ...] = ()
    groups: tuple[Group, ...] = ()
    tasks: tuple[Task, ...] = ()
    gangs: tuple[GangRow, ...] = ()
    specs: Mapping[str, WorkflowSpec] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Workflow name → the highest number used so far."""
    limits: tuple[Limits, ...] = ()
    spent: tuple[Spent, ...] = ()
