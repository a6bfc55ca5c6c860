"""How one gang stands in the ledger, as a value: a trial takes it down before it changes the gang, and puts it back."""

from typing import NamedTuple

from runrig.domain.gangs import Gang, GangState, Law, Placement
from runrig.engine.ledger.queue import Bucket, Entry


class Standing(NamedTuple):
    """All that an entry says of itself, but for what follows from it."""

    gang: Gang
    state: GangState
    bucket: Bucket
    placement: Placement
    waits_for: tuple[str, ...]
    admitted_at: float | None
    preempted_by: str | None
    law: Law | None
    charged: bool
    held: bool

    @classmethod
    def of(cls, entry: Entry) -> "Standing":
        return cls(
            entry.gang,
            entry.state,
            entry.bucket,
            entry.placement,
            entry.waits_for,
            entry.admitted_at,
            entry.preempted_by,
            entry.law,
            entry.charged,
            entry.held,
        )

    def give(self, entry: Entry) -> None:
        """Tells *entry* what it was.  What it holds, and where it is listed, is left to the ledger."""
        entry.gang, entry.state, entry.bucket = self.gang, self.state, self.bucket
        entry.admitted_at, entry.preempted_by, entry.law = self.admitted_at, self.preempted_by, self.law
