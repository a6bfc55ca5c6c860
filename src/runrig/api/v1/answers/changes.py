"""Answers to what would let a workflow start."""

from runrig.domain.changes import Counterfactual, Tried
from runrig.service.queries.would_start import ForeseenView
from runrig.wire import v1


def changes(view: ForeseenView) -> v1.WorkflowChanges:
    return v1.WorkflowChanges(
        revision=view.revision,
        at_rest=view.at_rest,
        would_start=[_answer(group, each) for group, each in view.answers],
        tried=[_tried(group, each) for group, each in view.tried],
    )


def _answer(group: str, each: Counterfactual) -> v1.WouldStart:
    return v1.WouldStart(
        group=group,
        who=each.who.value,
        kinds=[type(change).__name__ for change in each.changes],
        changes=[str(change) for change in each.changes],
        verdict=each.verdict.value,
        pods=list(each.counts),
        stops=list(each.stops),
        instead_of=[v1.ForeseenEffect(gang=other.gang, becomes=other.fate.value) for other in each.instead_of],
    )


def _tried(group: str, each: Tried) -> v1.TriedDial:
    return v1.TriedDial(
        group=group,
        who=each.who.value,
        dial=each.dial,
        values=each.values,
        refuted=each.refuted,
        run=each.run,
        verdict=each.verdict.value,
    )
