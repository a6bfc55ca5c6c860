"""Settings changed by hand since a cluster file last declared them: applying the file again would undo the changes."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from runrig.domain.errors import Conflict
from runrig.domain.plan import PutCohort, PutPool
from runrig.domain.pools import Cohort, Pool
from runrig.domain.quantities import few
from runrig.domain.records import Event
from runrig.domain.settings import PARTS, called
from runrig.domain.value import at, utc
from runrig.ports.store import EventLog
from runrig.service.commands.differences import Difference
from runrig.service.queries.history import edits
from runrig.service.runtime.transactor import APPLY, ENGINE

MOST_TOLD = 5
"""Maximum pools and cohorts named in a refusal."""


def marked(log: EventLog, differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yields *differences*, each with a sentence if it would undo a change by hand. Reads the log of the pools and
    cohorts concerned.
    """
    cohorts: tuple[Event, ...] | None = None
    for each in differences:
        if each.action != "update":  # Only updates can lose a change by hand; a restored pool is visible in the plan.
            yield each
        elif isinstance(each.before, Pool) and isinstance(each.after, Pool):
            yield replace(each, undoes=_undone(log.events(pool=each.name), each.before, each.after))
        elif isinstance(each.before, Cohort) and isinstance(each.after, Cohort):
            cohorts = log.cohort_changes() if cohorts is None else cohorts
            yield replace(each, undoes=_undone(_of_cohort(cohorts, each.name), each.before, each.after))
        else:
            yield each


def check(differences: Iterable[Difference]) -> None:
    """Raises Conflict if one of *differences* would undo a change by hand."""
    told = [f"{each.kind} {each.name} {each.undoes}" for each in differences if each.undoes]
    if told:
        named = few(told, MOST_TOLD, "; ")
        raise Conflict(f"{named}. The file would undo this. Add the change to the file, or apply it with --force")


def _undone(events: Iterable[Event], before: Pool | Cohort, after: Pool | Cohort) -> str:
    """Returns ``was changed by root at 2026-01-31 12:00:00 UTC (quota)``; "" if *after* keeps the changes by hand."""
    applied: Pool | Cohort | None = None
    by_hand: Event | None = None
    for event in events:
        if event.actor.startswith(APPLY):
            applied, by_hand = _declared(event), None
        elif event.actor != ENGINE:
            by_hand = event
    if applied is None or by_hand is None:
        return ""
    lost = _places(applied, before) & _places(before, after)
    names = ", ".join(sorted({called(PARTS.get(field, field)) for field, _ in lost}))
    return f"was changed by {by_hand.actor} at {utc(at(by_hand.time))} ({names})" if lost else ""


def _places(before: Pool | Cohort, after: Pool | Cohort) -> set[tuple[str, str]]:
    """Returns the fields that differ; for quotas, the resources."""
    return {(each.field, str(each.resource or "")) for each in edits(_as_pool(before), _as_pool(after))}


def _as_pool(declared: Pool | Cohort) -> Pool:
    if isinstance(declared, Pool):
        return declared
    return Pool(declared.name, declared.quotas, cohort=declared.parent, weight=declared.weight)


def _declared(event: Event) -> Pool | Cohort | None:
    match event.action:
        case PutPool(pool):
            return pool
        case PutCohort(cohort):
            return cohort
    return None


def _of_cohort(events: Iterable[Event], name: str) -> Iterator[Event]:
    return (event for event in events if isinstance(event.action, PutCohort) and event.action.cohort.name == name)
