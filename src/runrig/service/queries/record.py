"""What is stored of a workflow, read once for several questions."""

from dataclasses import dataclass

from runrig.domain.records import Event
from runrig.ports.store import SpecText, StoredWorkflow

Log = tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """*spec* None: deleted by retention. *log*: the last events, of *count*; empty: the workflow was just deleted."""

    stored: StoredWorkflow
    spec: SpecText | None
    log: Log
    count: int
