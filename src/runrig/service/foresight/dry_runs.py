"""Predicts what would happen to a submission: the mirror computes it, and the user sees what they may see."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import Gang
from runrig.domain.quantities import few
from runrig.domain.shown.dry_run import GroupDryRun, WorkflowDryRun
from runrig.engine.foresight.dry_run import dry_run
from runrig.ports.clock import Clock
from runrig.service.mirror.asker import Asker
from runrig.service.queries.visibility import Visibility
from runrig.service.queries.workflow_queries import WorkflowQueries

MOST_NAMED = 4
"""Maximum nodes or gangs named in the sentence."""

MOST_LOOKS_HERE = 16
"""Maximum gangs that the server evaluates itself while others wait; with more, the result is not known yet."""

_DRY_RUN_HERE = partial(dry_run, most_looks=MOST_LOOKS_HERE)

_GRAVEST = (Verdict.WAITS, Verdict.NOT_PROVEN, Verdict.STARTS_AFTER_STOPS, Verdict.STARTS)


class DryRuns:
    def __init__(self, asker: Asker, workflows: WorkflowQueries, clock: Clock) -> None:
        self._asker, self._workflows, self._clock = asker, workflows, clock

    def of(self, gangs: Sequence[Gang], visibility: Visibility, elements: int = 0) -> WorkflowDryRun | None:
        """Returns what the next cycle would do with *gangs*; None if that is unknown. *elements*: how many the array has,
        which may be more than *gangs*; 0: not an array.
        """
        found, _ = self._asker.ask_steps(dry_run, tuple(gangs), self._clock.now(), here=_DRY_RUN_HERE)
        if not found:
            return None
        names = self._workflows.names(visibility)
        shown = tuple(
            replace(each, stops=names.several(each.stops), reasons=tuple(map(names.reason, each.reasons)))
            for each in found
        )
        gravest = min(shown, key=lambda each: _GRAVEST.index(each.verdict))
        starting = [each for each in shown if each.verdict is Verdict.STARTS] if elements else []
        if not starting:
            return WorkflowDryRun(gravest.verdict, _sentence(gravest), shown)
        nodes = tuple(dict.fromkeys(node for each in starting for node in each.nodes))
        all_of_it = "" if len(starting) == elements else f": {len(starting)} of its {elements} elements"
        return WorkflowDryRun(Verdict.STARTS, _sentence(replace(starting[0], nodes=nodes)) + all_of_it, shown)


def _sentence(found: GroupDryRun) -> str:
    match found.verdict:
        case Verdict.STARTS:
            return f"would start now on {few(found.nodes, MOST_NAMED)}" if found.nodes else "would start now"
        case Verdict.STARTS_AFTER_STOPS:
            return (
                f"would start when {few(found.stops, MOST_NAMED)} {'has' if len(found.stops) == 1 else 'have'} stopped"
            )
        case Verdict.WAITS:
            return f"would wait: {found.reasons[0].sentence}"
    return "not known yet: too many groups ahead of it have not been evaluated"
