"""Why each of several workflows is waiting, in one reason, for lists.

Evaluated for a whole state: gangs with the same answer are evaluated once, and positions are not computed.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runrig.domain.blockers import Blocker, Verdict
from runrig.domain.reasons import Reason
from runrig.domain.shown.sentence import first_of, first_stopping, not_upstream, starts, stopping
from runrig.domain.shown.why import GroupWhy, reason_set_aside
from runrig.domain.steps import Steps
from runrig.engine.explain.blockers import behind_head, beyond_user, blockers
from runrig.engine.explain.report import holding
from runrig.engine.explain.why import groups_to_explain, why_of
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Bucket, Entry
from runrig.engine.state.state import State


class Headline(NamedTuple):
    """*reason*: why it is waiting; None: it starts, after *stops* have stopped. *ending*: its first group that is stopping, if none
    is waiting.
    """

    verdict: Verdict | None
    reason: Reason | None = None
    stops: tuple[str, ...] = ()
    ending: GroupWhy | None = None

    @property
    def words(self) -> str:
        if self.ending is not None:
            return stopping(self.ending)
        if self.reason is not None:
            return self.reason.headline
        return "starts when preempted work has stopped" if self.stops else "starts in the next cycle"

    @property
    def sentence(self) -> str:
        if self.ending is not None:
            return f"is {stopping(self.ending)}"
        return starts(self.stops) if self.reason is None else str(self.reason)


def headlines(state: State, workflows: Sequence[str]) -> Steps[dict[str, Headline]]:
    """Workflow → headline. Workflows that run, if only in part, or have ended are left out.

    O(nodes) per kind of gang, as `blockers`, and O(awake buckets) per workflow.
    """
    known: dict[Bucket, tuple[Blocker, ...]] = {}

    def blocked(ledger: Ledger, entry: Entry) -> Steps[tuple[Blocker, ...]]:
        if behind := behind_head(ledger, entry):
            return (*beyond_user(ledger, entry), *behind)
        if entry.bucket not in known:
            known[entry.bucket] = yield from blockers(ledger, entry)
        return known[entry.bucket]

    found = {}
    for id in workflows:
        if id in state.aside:
            found[id] = Headline(Verdict.WAITS, reason_set_aside(state.workflows[id]))
        elif id in state.workflows and holding(state, id) is None:
            groups = []
            for group in groups_to_explain(state, id):
                groups.append((yield from why_of(state, group, blocked)))
            ending = first_stopping(groups)
            first = first_of(groups if ending is None else not_upstream(groups))
            if first is not None:
                found[id] = Headline(first.verdict, next(iter(first.reasons), None), first.stops)
            elif ending is not None:
                found[id] = Headline(None, ending=ending)
    return found
