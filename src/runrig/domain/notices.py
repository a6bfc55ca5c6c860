"""Notices about a user's workflows: their kinds, settings and deliveries."""

import enum
from dataclasses import dataclass, field


class When(enum.StrEnum):
    """Kinds of events of a workflow. FAIL includes cancelled workflows."""

    START = "start"
    DONE = "done"
    FAIL = "fail"
    PREEMPT = "preempt"


USUAL = (When.FAIL, When.PREEMPT)


@dataclass(frozen=True, slots=True)
class NoticeSetting:
    """*to*: an https address. *min_run_s*: no notice of the end of a workflow that ran for less. *secret*: signs each
    notice. *position*: the last revision of the log that was searched for this user.

    *tried_at*, *result*: the last attempt and what came of it; None and "" before the first.
    """

    user: str
    to: str
    when: tuple[str, ...]
    min_run_s: int
    secret: str = field(repr=False)
    position: int
    tried_at: float | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice that has not arrived yet. *id*: the same in each attempt. *attempt*: number of failed ones. *due*: when to
    try next.
    """

    id: str
    user: str
    body: str
    attempt: int
    due: float
