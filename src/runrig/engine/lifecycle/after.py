"""Workflows that wait for others: the consequences when these have ended (rule W5).

Generators of actions, as in `workflows`.
"""

from collections.abc import Iterable, Iterator

from runrig.domain.after import After, When, must
from runrig.domain.errors import At, Refused
from runrig.domain.plan import Action
from runrig.domain.workflows import ExitCode, Status
from runrig.engine.lifecycle.finished_groups import end_waiting, finish_workflow
from runrig.engine.lifecycle.pausing import queued, starts_nothing
from runrig.engine.state.state import State


def look_after(state: State) -> Iterator[Action | None]:
    """Queues the workflows whose wait was met, and ends those whose wait can no longer be met. O(these)."""
    for id in sorted(state.dependents.decided - state.aside):
        with At(id):
            workflow = state.workflows[id]
            missed = next((each for each in workflow.after if each.missed), None)
            if missed is None:
                if not starts_nothing(state, workflow):
                    yield from queued(state, workflow)
            else:
                for group in state.groups_of(id):
                    message = f"{_said(missed)}, and had to {must(missed.when.value)} first"
                    yield from end_waiting(state, (id, group.name), Status.FAILED_UPSTREAM, ExitCode.UPSTREAM, message)
                yield from finish_workflow(state, id)
        yield None


def check_possible(after: Iterable[After], who: str) -> None:
    """Raises Refused if *who* would wait for something that can no longer happen."""
    missed = next((each for each in after if each.missed), None)
    if missed is not None and missed.ended is not None:
        restarts = "" if missed.when is When.FAIL else f"Restart {missed.workflow} and wait for the new workflow, or "
        way_out = f"{restarts}submit without `--after {str(missed).removesuffix(':ok')}`"
        raise Refused(
            f"{who} can never start: {_said(missed)}, and would have to {must(missed.when.value)} first. "
            f"{way_out[0].upper()}{way_out[1:]}",
            "W5",
            {"workflow": missed.what, "when": missed.when.value, "status": missed.ended.value},
        )


def _said(missed: After) -> str:
    return f"{missed.what} is {missed.ended.value if missed.ended else 'alive'}"
