"""GPUs per flavor that are in use, free, or on nodes that are not ready; updated at the cost of what changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from runrig.domain.quantities import GPU
from runrig.engine.nodes.node_capacity import Journal, NodeCapacity


@dataclass(frozen=True, slots=True)
class GpusByState:
    """The GPUs of one flavor: *held* and *free* on open nodes, all GPUs of the other nodes (*not_ready*), and the number of
    open nodes (*ready*).

    *free* is negative if more GPUs are in use than the nodes have.
    """

    held: int = 0
    free: int = 0
    not_ready: int = 0
    ready: int = 0

    @property
    def capacity(self) -> int:
        """All GPUs of open nodes."""
        return self.held + self.free


_NOTHING = GpusByState()


class GpuCounts:
    """Counts the GPUs in use in *layer*. Continues from its last position in the journal."""

    def __init__(self, layer: int) -> None:
        self._layer = layer
        self._counted: dict[str, tuple[str, GpusByState]] = {}
        self._totals: dict[str, GpusByState] = {}
        self._position = 0

    def read(self, rooms: Mapping[str, NodeCapacity], journal: Journal) -> Mapping[str, GpusByState]:
        """See `ClusterNodes.gpus`. *rooms*: all nodes by name."""
        changed = journal.since(self._position)
        if changed is None:
            changed, self._counted, self._totals = dict.fromkeys(rooms), {}, {}
        self._position = journal.end
        for name in changed:
            before = self._counted.pop(name, None)
            if before is not None:
                self._add(*before, -1)
            room = rooms.get(name)
            if room is not None:
                self._counted[name] = counted = room.node.flavor, self._of(room)
                self._add(*counted, 1)
        return dict(self._totals)

    def _add(self, flavor: str, more: GpusByState, sign: int) -> None:
        known = self._totals.get(flavor, _NOTHING)
        self._totals[flavor] = GpusByState(
            known.held + sign * more.held,
            known.free + sign * more.free,
            known.not_ready + sign * more.not_ready,
            known.ready + sign * more.ready,
        )

    def _of(self, room: NodeCapacity) -> GpusByState:
        has = room.node.resources.get(GPU, 0)
        if not room.node.open:
            return GpusByState(not_ready=has)
        free = room.free[self._layer].get(GPU, 0)
        return GpusByState(has - free, free, ready=1)
