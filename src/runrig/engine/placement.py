"""Placement: on which nodes the pods of a gang go, all of them or none (law T1).

One shape of pods is exact by counting.  Several shapes go greedily first, biggest first; where that fails, a depth-first
search over counts per node settles it within a fixed budget of steps, so that it needs no clock.
Best fit: one node if one suffices, the tightest; else the fewest nodes, so that large free nodes stay whole (law T2).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runrig.domain.gangs import NodeShare
from runrig.domain.quantities import GPU, Requests
from runrig.engine.room import EMPTY, NodeRoom, Room, Wanted, pods_in

BUDGET = 20_000
"""Steps of the exact search; one step fills one node with one count of one shape."""


class Layout(NamedTuple):
    """*shares* per wanted, in the order asked, or None where there is no place.  *proven* False: the budget ended the search."""

    shares: tuple[tuple[NodeShare, ...], ...] | None
    proven: bool = True


class _View:
    """Free room of the nodes of a search: the least over *layers*, with what the search itself has put there taken off."""

    def __init__(self, room: Room, layers: Sequence[int]) -> None:
        self._room = room
        self._layers = layers
        self._edited: dict[str, dict[str, int]] = {}

    def nodes(self, flavor: str) -> list[NodeRoom]:
        return self._room.registered(flavor) if EMPTY in self._layers else self._room.usable(flavor)

    def pods(self, node: NodeRoom, requests: Requests) -> int:
        edited = self._edited.get(node.node.name)
        if edited is not None:
            return pods_in(edited, requests)
        most = node.pods(requests, self._layers[0])
        for layer in self._layers[1:]:
            most = min(most, node.pods(requests, layer))
        return most

    def hold(self, node: NodeRoom, requests: Requests, count: int) -> None:
        free = self._edited.get(node.node.name)
        if free is None:
            views = [node.free[layer] for layer in self._layers]
            free = {resource: min(view[resource] for view in views) for resource in views[0]}
            self._edited[node.node.name] = free
        for resource, amount in requests:
            if resource in free:
                free[resource] -= amount * count


def place(room: Room, wanted: Sequence[Wanted], layers: Sequence[int]) -> Layout:
    """Where all of *wanted* go at once, counting what is free in every one of *layers*.

    O(nodes) for one shape; at most BUDGET steps of O(nodes) beyond that.
    """
    shapes = _merged(wanted)
    view = _View(room, layers)
    found = _greedy(view, shapes)
    proven = True
    if found is None and len(shapes) > 1 and all(_enough(_View(room, layers), shape) for shape in shapes):
        found, proven = _Search(_View(room, layers), shapes).run()
    return Layout(_dealt(wanted, found) if found is not None else None, proven)


def most_pods(room: Room, wanted: Wanted, layers: Sequence[int]) -> int:
    """How many pods of this shape have room by themselves, at most as many as are wanted."""
    view = _View(room, layers)
    return min(
        wanted.pods, sum(min(view.pods(node, wanted.requests), wanted.pods) for node in view.nodes(wanted.flavor))
    )


_Counts = dict[tuple[Requests, str], list[tuple[str, int]]]


def _merged(wanted: Sequence[Wanted]) -> list[Wanted]:
    """One entry per shape and flavor; the shape that is hardest to place first."""
    total: dict[tuple[Requests, str], int] = {}
    for each in wanted:
        key = (each.requests, each.flavor)
        total[key] = total.get(key, 0) + each.pods
    shapes = [Wanted(requests, flavor, count) for (requests, flavor), count in total.items() if count]
    return sorted(
        shapes, key=lambda each: (-dict(each.requests).get(GPU, 0), [(-a, r) for r, a in each.requests], each.flavor)
    )


def _enough(view: _View, shape: Wanted) -> bool:
    left = shape.pods
    for node in view.nodes(shape.flavor):
        left -= view.pods(node, shape.requests)
        if left <= 0:
            return True
    return left <= 0


def _greedy(view: _View, shapes: Sequence[Wanted]) -> _Counts | None:
    counts: _Counts = {}
    for shape in shapes:
        fitting = [(view.pods(node, shape.requests), node) for node in view.nodes(shape.flavor)]
        fitting = [(most, node) for most, node in fitting if most > 0]
        whole = [(most, node) for most, node in fitting if most >= shape.pods]
        chosen = [(min(whole, key=_tightest)[1], shape.pods)] if whole else _fewest(fitting, shape.pods)
        if sum(count for _, count in chosen) < shape.pods:
            return None
        for node, count in chosen:
            view.hold(node, shape.requests, count)
        counts[shape.requests, shape.flavor] = [(node.node.name, count) for node, count in chosen]
    return counts


def _tightest(fitting: tuple[int, NodeRoom]) -> tuple[int, str]:
    return (fitting[0], fitting[1].node.name)


def _fewest(fitting: list[tuple[int, NodeRoom]], count: int) -> list[tuple[NodeRoom, int]]:
    """Roomiest nodes first until the rest fits one node: that one is the tightest that holds it."""
    ordered = sorted(fitting, key=lambda each: (-each[0], each[1].node.name))
    chosen: list[tuple[NodeRoom, int]] = []
    left = count
    for position, (most, node) in enumerate(ordered):
        if most >= left:
            last = min(
                (each for each in ordered[position:] if each[0] >= left), key=lambda each: (each[0], each[1].node.name)
            )
            chosen.append((last[1], left))
            return chosen
        chosen.append((node, most))
        left -= most
    return chosen


class _Frame:
    """One choice of the search: how many pods of which shape go on which node, and how many are left before it."""

    __slots__ = ("choices", "held", "left", "node", "node_at", "shape_at")

    def __init__(self, shape_at: int, node_at: int, left: int, node: NodeRoom | None, choices: range) -> None:
        self.shape_at, self.node_at, self.left, self.node = shape_at, node_at, left, node
        self.choices = iter(choices)
        self.held = 0


class _Search:
    """Exact: each shape in turn, each node in turn, each count from the most down to the least that can still work."""

    def __init__(self, view: _View, shapes: Sequence[Wanted]) -> None:
        self._view = view
        self._shapes = shapes

    def run(self) -> tuple[_Counts | None, bool]:
        """The counts, or None; and whether that answer is proven."""
        stack = [self._frame(0, 0, self._shapes[0].pods)]
        for _ in range(BUDGET):
            frame = stack[-1]
            self._hold(frame, 0)
            count = next(frame.choices, None)
            if count is None:
                stack.pop()
                if not stack:
                    return None, True
                continue
            self._hold(frame, count)
            shape_at, node_at, left = frame.shape_at, frame.node_at + 1, frame.left - count
            if left == 0:
                shape_at, node_at = shape_at + 1, 0
                if shape_at == len(self._shapes):
                    return self._counts(stack), True
                left = self._shapes[shape_at].pods
            stack.append(self._frame(shape_at, node_at, left))
        return None, False

    def _frame(self, shape_at: int, node_at: int, left: int) -> _Frame:
        shape = self._shapes[shape_at]
        nodes = self._view.nodes(shape.flavor)
        if node_at == len(nodes):
            return _Frame(shape_at, node_at, left, None, range(0))
        later = 0
        for node in nodes[node_at + 1 :]:
            later += self._view.pods(node, shape.requests)
            if later >= left:
                break
        most = min(left, self._view.pods(nodes[node_at], shape.requests))
        return _Frame(shape_at, node_at, left, nodes[node_at], range(most, max(0, left - later) - 1, -1))

    def _hold(self, frame: _Frame, count: int) -> None:
        if frame.node is not None and count != frame.held:
            self._view.hold(frame.node, self._shapes[frame.shape_at].requests, count - frame.held)
            frame.held = count

    def _counts(self, stack: Sequence[_Frame]) -> _Counts:
        counts: _Counts = {}
        for frame in stack:
            shape = self._shapes[frame.shape_at]
            if frame.node is not None and frame.held:
                counts.setdefault((shape.requests, shape.flavor), []).append((frame.node.node.name, frame.held))
        return counts


def _dealt(wanted: Sequence[Wanted], counts: _Counts) -> tuple[tuple[NodeShare, ...], ...]:
    """The counts per shape dealt out to the pod sets that asked, in their order."""
    stock = {key: list(nodes) for key, nodes in counts.items()}
    return tuple(tuple(_deal(stock.get((each.requests, each.flavor), []), each.pods)) for each in wanted)


def _deal(nodes: list[tuple[str, int]], pods: int) -> Iterator[NodeShare]:
    """Takes *pods* off the front of *nodes*."""
    while pods:
        name, count = nodes[0]
        part = min(pods, count)
        yield NodeShare(name, part)
        pods -= part
        nodes[:1] = [(name, count - part)] if part < count else []
