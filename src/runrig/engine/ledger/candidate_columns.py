"""The gangs that can be preempted, as columns, so that the search for targets can filter them with masks (rules R1–R3)."""

from collections.abc import Sequence

import numpy as np

from runrig.domain.quantities import GPU
from runrig.engine.ledger.gang_columns import GangColumns, column, longer
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Ints, added_up


class CandidateColumns(GangColumns):
    """*order*: the order of rule R3. *pods*, *gpus*: by slot, the gang's totals."""

    def _clear(self) -> None:
        super()._clear()
        self.pods, self.gpus = column(()), column(())
        self._charged = bytearray()

    def note_charged(self, entry: Entry) -> None:
        """Records whether *entry* counts in decisions."""
        slot = self.slots.get(entry)
        if slot is not None:
            self._charged[slot] = entry.charged

    def _is_back(self, entry: Entry, slot: int) -> None:
        self._charged[slot] = entry.charged

    def refresh(self) -> int:
        """Brings the columns up to date and returns the number of gangs added. O(added), plus O(gangs) if any were added or removed."""
        return self._refresh(lambda entry: entry.preemption_key)

    def _take_in(self, came: Sequence[Entry]) -> None:
        super()._take_in(came)
        self._charged += bytes(each.charged for each in came)
        first = len(self.entries) - len(came)
        many = np.diff(self._first_row[first:])
        what, pods = self._rows[1:, self._first_row[first] :]
        who = np.arange(len(came)).repeat(many)
        self.pods = longer(self.pods, added_up(who, pods, len(came)))
        self.gpus = longer(self.gpus, added_up(who, self._per_pod(GPU)[what] * pods, len(came)))

    def counted(self) -> Ints:
        """The slots of the gangs that count in decisions, in the order of rule R3."""
        order: Ints = self.order[np.frombuffer(self._charged, dtype=np.bool_)[self.order]]
        return order
