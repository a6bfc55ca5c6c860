"""Checks whether the subject of a plan was declared again since."""

from collections.abc import Iterator, Sequence

from runrig.domain.errors import Changed, InvalidInput
from runrig.domain.plan import Action, Plan, SetFlavors
from runrig.engine.state.state import State
from runrig.ports.store import EventLog
from runrig.service.commands.differences import Difference, of_plan


def check_not_moved(log: EventLog, state: State, differences: Sequence[Difference], revision: int) -> None:
    """Raises Changed if the subject of one of *differences* was declared again after *revision*; InvalidInput for a
    future revision.

    A pool also changes with its parent and the cohorts above it, and everything changes with the flavors.
    """
    if revision > state.revision:
        raise InvalidInput.one(
            f"if_revision {revision} does not exist yet (latest: {state.revision}). Use the revision that `runrig plan` prints",
            "if_revision",
        )
    touched: set[tuple[str, str]] = {(each.kind, each.name) for each in differences}
    touched |= {above for each in differences for above in _above(state, each)}
    for event in log.declarations(after=revision):
        kind, name = _subject(state, event.action)
        if (kind, name) in touched or (kind == "flavor" and touched):
            what = "the flavors were" if kind == "flavor" else f"{kind} {name} was"
            raise Changed(
                f"{what} changed in revision {event.revision} ({event.actor}), after the plan for revision {revision}. "
                "Run `runrig plan` again",
                {"kind": kind, "name": name, "revision": event.revision, "if_revision": revision},
            )


def _above(state: State, difference: Difference) -> Iterator[tuple[str, str]]:
    name, kind = difference.name, difference.kind
    pool = state.pools.get(name) if kind == "pool" else None
    if pool is not None and pool.parent is not None:
        yield "pool", pool.parent
        pool = state.pools[pool.parent]
    cohort = pool.cohort if pool is not None else name if kind == "cohort" else None
    seen: set[str] = set()
    while cohort is not None and cohort not in seen:
        seen.add(cohort)
        yield "cohort", cohort
        cohort = state.cohorts[cohort].parent if cohort in state.cohorts else None


def _subject(state: State, action: Action) -> tuple[str, str]:
    """Returns (kind, name) as in `Difference`; no name for flavors."""
    if isinstance(action, SetFlavors):
        return "flavor", ""
    (found,) = of_plan(state, Plan((action,)))
    return found.kind, found.name
