"""Dependencies on other workflows, or on elements of arrays, which must end first (rule W5)."""

import re
from dataclasses import dataclass

from runrig.domain.value import Word
from runrig.domain.workflow_status import WorkflowStatus

MOST_AFTER = 100
"""Workflows that one workflow may wait for."""

_WRITTEN = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})(?:/(0|[1-9][0-9]{0,5}))?(?::(.*))?", re.DOTALL)


class When(Word):
    """The ends that count: OK: COMPLETED; FAIL: any other; ANY: both."""

    OK = "ok"
    ANY = "any"
    FAIL = "fail"


def must(when: str) -> str:
    """The required end of the other workflow, as a verb. *when*: the value of a `When`."""
    return {When.OK.value: "complete", When.FAIL.value: "fail"}.get(when, "end")


@dataclass(frozen=True, slots=True)
class After:
    """*workflow*: the id of the other one. *ended*: how it ended; None: it is alive. *element*: of that array; "": all of it."""

    workflow: str
    when: When = When.OK
    ended: WorkflowStatus | None = None
    element: str = ""

    @property
    def what(self) -> str:
        """``train-2``, or ``sweep-4/7`` for an element."""
        return f"{self.workflow}/{self.element}" if self.element else self.workflow

    @property
    def met(self) -> bool:
        if self.ended is None:
            return False
        return self.when is When.ANY or (self.when is When.OK) == (self.ended is WorkflowStatus.COMPLETED)

    @property
    def missed(self) -> bool:
        """Whether it can no longer be met."""
        return self.ended is not None and not self.met

    def __str__(self) -> str:
        return f"{self.what}:{self.when.value}"


def parse_after(text: str) -> After:
    """Returns the value of ``train-2``, ``train-2:any`` or ``sweep-4/7``. Raises ValueError."""
    match = _WRITTEN.fullmatch(text)
    when = match and (match[3] or "ok").lower()
    if match is None or match[3] == "" or when not in {each.value for each in When}:
        raise ValueError(
            f"{text!r:.80} is not ID[/INDEX][:ok|any|fail]. Use for example train-2, train-2:any or sweep-4/7."
        )
    return After(match[1], When(when), element=match[2] or "")
