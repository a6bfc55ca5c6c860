"""Tries which gangs to stop for one preemptor, and whether it then fits.

Quota is edited. Nodes are not, as long as counting is enough: then only what the gangs free is added up.
"""

from collections.abc import Iterable

from runrig.domain.errors import FailedAt
from runrig.domain.gangs import Placement
from runrig.engine.ledger.fit import place_on_nodes, room_on_nodes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.nodes.fit_counts import MOST_PER_NODE
from runrig.engine.nodes.node_capacity import pods_in
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.place import DomainNeed, need_by_count
from runrig.engine.quota.quota_node import CHARGED, Request, fits

PER_TRIAL = 20
"""A trial with a placement counts as the effort of this many candidates."""


class Trial:
    """A search with *entry* as preemptor and one choice of flavors. Callers that take candidates put all of them back."""

    def __init__(self, ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> None:
        self._ledger = ledger
        self._entry = entry
        self._choice = choice
        self._request = request
        self._leaf = ledger.leaf(entry)
        self._room = self._counted() if ledger.place else None
        self._gone: dict[Entry, None] = {}

    def _counted(self) -> "CountedRoom | None":
        asked = self._ledger.asked_of_nodes(self._entry, self._choice)
        need = None if asked is None else need_by_count(asked)
        return None if need is None else CountedRoom(self._ledger.nodes, need, self._choice[0].count)

    def take(self, candidate: Entry) -> None:
        """Treats *candidate* as stopped."""
        try:  # no `At`, because this runs for every candidate
            self._ledger.uncharge(candidate, on_nodes=self._room is None)
            if self._room is not None:
                self._room.change(candidate, 1)
        except Exception as error:
            raise FailedAt(candidate.gang.workflow) from error
        self._gone[candidate] = None

    def put_back(self, candidate: Entry) -> None:
        """The inverse of `take`, in any order."""
        del self._gone[candidate]
        if self._room is not None:
            self._room.change(candidate, -1)
        self._ledger.charge(candidate, on_nodes=self._room is None)

    def all_back(self) -> None:
        if self._room is not None:
            self._room.reset()
        for candidate in self._gone:
            self._ledger.charge(candidate, on_nodes=self._room is None)
        self._gone = {}

    def fits(self, domain: Domain | None = None) -> bool:
        """Whether quota and nodes (those of *domain*) are enough without the candidates taken."""
        self._ledger.effort += PER_TRIAL
        self._ledger.searches.sets += 1
        if not fits(self._leaf, self._request):
            return False
        if self._room is not None and domain is None:
            return self._room.enough
        self._on_nodes()
        return room_on_nodes(self._ledger, self._entry, self._choice, within=domain)

    def would_fit_without(self, others: Iterable[Entry]) -> bool:
        room = self._room
        if room is None or not fits(self._leaf, self._request):
            taken = list(others)
            for other in taken:
                self.take(other)
            enough = self.fits()
            for other in taken:
                self.put_back(other)
            return enough
        self._ledger.effort += PER_TRIAL
        return room.enough_without(others)

    def place(self, domain: Domain | None = None) -> Placement | None:
        """A placement in *domain*; None if it does not fit."""
        self._on_nodes()
        return place_on_nodes(self._ledger, self._entry, self._choice, within=domain)

    def _on_nodes(self) -> None:
        """Switches from counting to editing nodes."""
        if self._room is not None:
            self._room = None
            for candidate in self._gone:
                self._ledger.charge(candidate, on_nodes=False)
                self._ledger.uncharge(candidate)


class CountedRoom:
    """How many pods of *need*, which can go anywhere, fit without some gangs. Nodes must not change in between."""

    def __init__(self, nodes: ClusterNodes, need: DomainNeed, pods: int) -> None:
        topology = nodes.topology(need.labels)
        counts = nodes.counts(need.labels, need.shape, (CHARGED,))
        self._nodes = nodes.by_name
        self._index = topology.index
        self._last = topology.labelled if need.labelled else len(topology.nodes)
        self._takes, self._fitting = counts.takes, counts.levels[-1]
        self._requests = need.shape.requests
        self._asked = [resource for resource, _ in self._requests]
        self._changed: dict[str, tuple[dict[str, int], int] | None] = {}
        self._missing = self._missing_now = pods - int(self._fitting[: self._last].sum())

    def reset(self) -> None:
        """Counts all gangs as running again."""
        self._changed, self._missing = {}, self._missing_now

    @property
    def enough(self) -> bool:
        return self._missing <= 0

    def enough_without(self, gangs: Iterable[Entry]) -> bool:
        """`enough` without all of *gangs* too. Stops early. O(their nodes)."""
        changed, missing = self._changed, self._missing
        self._changed = {name: known and (dict(known[0]), known[1]) for name, known in changed.items()}
        for gang in gangs:
            self.change(gang, 1)
            if self.enough:
                break
        enough = self.enough
        self._changed, self._missing = changed, missing
        return enough

    def change(self, gang: Entry, sign: int) -> None:
        """Frees what *gang* uses (1), or charges it again (-1). O(its nodes)."""
        changed = self._changed
        for assignment, pod_set in zip(gang.placement, gang.gang.pod_sets, strict=True):
            for share in assignment.shares:
                name = share.node
                if name not in changed:
                    changed[name] = self._known(name)
                known = changed[name]
                if known is None:
                    continue
                free, fitting = known
                for resource, amount in pod_set.requests:
                    if resource in free:
                        free[resource] += sign * amount * share.count
                now = min(pods_in(free, self._requests), MOST_PER_NODE)
                if now != fitting:
                    self._missing += fitting - now
                    changed[name] = free, now

    def _known(self, name: str) -> tuple[dict[str, int], int] | None:
        """(free amounts of what the pods request, number of pods that fit); None if the node accepts none."""
        at = self._index.get(name, self._last)
        if at >= self._last or not self._takes[at]:
            return None
        free = self._nodes[name].free[CHARGED]
        return {resource: free[resource] for resource in self._asked if resource in free}, int(self._fitting[at])
