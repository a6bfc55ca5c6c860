"""Between what is kept and what the engine works with: the gang that a group becomes, and the rows of gangs."""

from collections.abc import Iterable

from runrig.domain.gangs import Gang, GangState, PodSet
from runrig.domain.plan import Admit, Nominate, Queue, Stop
from runrig.domain.quantities import of_one_pod
from runrig.domain.records import GangRow
from runrig.domain.workflows import GroupSpec, Status, Workflow
from runrig.engine.ledger.ledger import Entry, Ledger


def gang_of(workflow: Workflow, group: GroupSpec, attempt: int = 0) -> Gang:
    """The gang that a group becomes when it is queued."""
    pod_sets = tuple(
        PodSet(each.name, each.pods, of_one_pod(each.requests), each.min_count, each.platform, each.topology)
        for each in group.tasks
    )
    gang_id = f"{workflow.id}/{group.name}"
    return Gang(gang_id, workflow.pool, workflow.priority, workflow.submit_time, pod_sets, attempt)


def gang_row(entry: Entry) -> GangRow:
    """*entry* as it is kept."""
    return GangRow(
        entry.gang,
        entry.state,
        entry.placement,
        entry.waits_for,
        entry.admitted_at,
        entry.preempted_by,
        entry.law,
    )


def load_gangs(ledger: Ledger, rows: Iterable[GangRow]) -> None:
    """*ledger* has the gangs of *rows*, as they stood."""
    rows = sorted(rows, key=lambda row: row.gang.id)
    for row in rows:
        ledger.apply(Queue(row.gang), 0)
    for row in rows:
        if row.state in (GangState.ADMITTED, GangState.STOPPING):
            ledger.apply(Admit(row.gang.id, row.placement), row.admitted_at or 0)
            entry = ledger.entries[row.gang.id]
            entry.preempted_by, entry.law = row.preempted_by, row.law
            if row.state is GangState.STOPPING:
                ledger.apply(Stop(row.gang.id, Status.FAILED), 0)
    for row in rows:
        if row.state is GangState.NOMINATED:
            still = tuple(target for target in row.waits_for if target in ledger.entries)
            ledger.apply(Nominate(row.gang.id, row.placement, still), 0)
