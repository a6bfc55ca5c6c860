"""All gangs that use nodes, as columns, to compute what each workflow would free by ending."""

from collections.abc import Callable, Sequence

import numpy as np

from runrig.engine.ledger.gang_columns import Bools, GangColumns, column, longer
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Ints


class HoldingColumns(GangColumns):
    """*order*: latest possible end, earliest first. *workflow*: by slot, as numbers in *names*. *firm*: by slot."""

    def _clear(self) -> None:
        super()._clear()
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.workflow, self.firm = column(()), np.zeros(0, dtype=np.bool_)

    def refresh(self, most_s: Callable[[str], float | None]) -> int:
        """See `CandidateColumns.refresh`. *most_s*: workflow → its run time limit in seconds; None: unlimited."""

        def ends(entry: Entry) -> tuple[float, float, str]:
            since, most = entry.admitted_at or 0.0, most_s(entry.gang.workflow)
            return (float("inf") if most is None else since + most, since, entry.gang.workflow)

        return self._refresh(ends)

    def _take_in(self, came: Sequence[Entry]) -> None:
        super()._take_in(came)
        names = [each.gang.workflow for each in came]
        for name in names:
            if self._numbers.setdefault(name, len(self.names)) == len(self.names):
                self.names.append(name)
        self.workflow = longer(self.workflow, [self._numbers[name] for name in names])
        self.firm = np.concatenate([self.firm, np.array([each.bucket.firm for each in came], dtype=np.bool_)])

    def _is_back(self, entry: Entry, slot: int) -> None:
        self.firm[slot] = entry.bucket.firm

    def workflows(self, *, without: str) -> Ints:
        """The numbers of all workflows that use anything, except *without*, ordered by their last gang in *order*."""
        last = np.full(len(self.names), -1)
        np.maximum.at(last, self.workflow[self.order], np.arange(len(self.order)))
        if without in self._numbers:
            last[self._numbers[without]] = -1
        found = np.flatnonzero(last >= 0)
        ordered: Ints = found[np.argsort(last[found])]
        return ordered

    def knows(self, workflow: str) -> bool:
        """Whether *workflow* uses anything, or did recently."""
        return workflow in self._numbers

    def among(self, entries: Sequence[Entry]) -> Bools:
        """By slot, whether it is one of *entries*."""
        found = np.zeros(len(self.entries), dtype=np.bool_)
        found[[self.slots[each] for each in entries]] = True
        return found
