"""The state of one gang in the ledger as a value: what-if runs save it before they change the gang, and restore it."""

from typing import NamedTuple

from runrig.domain.gangs import Gang, GangState, Law, Placement
from runrig.engine.ledger.queue import Bucket, Entry


class EntryBefore(NamedTuple):
    """The fields of an entry that do not follow from others."""

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
    def of(cls, entry: Entry) -> "EntryBefore":
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
        """Restores the fields of *entry* that only concern itself. The ledger restores its usage and where it is listed."""
        entry.gang, entry.state, entry.bucket = self.gang, self.state, self.bucket
        entry.admitted_at, entry.preempted_by, entry.law = self.admitted_at, self.preempted_by, self.law
