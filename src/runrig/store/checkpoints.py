"""The state of a cluster as compressed JSON in which equal parts are written once.

A placement is written as runs of nodes, numbered in the order of the cluster's names. Nodes that left the cluster while
in use have numbers after those.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_type_hints

from sqlalchemy import Connection, and_, delete, select, update

from runrig.domain.gangs import Assignment, Gang, GangState, Law, NodeShare, PodSet, Priority
from runrig.domain.nodes import Node
from runrig.domain.records import GangRow
from runrig.ports.past import Declared
from runrig.store import schema, waiting
from runrig.store.codec import decode, dumps, encode, loads, unpacked

_PARTS: Mapping[str, Any] = {name: of for name, of in get_type_hints(Declared).items() if name != "nodes"}
"""The other fields of `Declared`, and their types. A part that a checkpoint of an older release lacks is empty."""
_LEVEL = 9
_CHECKPOINT = schema.checkpoints.c


def _packed(plain: object) -> bytes:
    return zlib.compress(dumps(plain).encode(), _LEVEL)


class _Alike:
    """Values by number, each written once."""

    def __init__(self, declared: Any) -> None:
        self._declared = declared
        self._known: dict[str, int] = {}
        self.plain: list[Any] = []

    def number(self, value: object) -> int:
        plain = encode(self._declared, value)
        number = self._known.setdefault(dumps(plain), len(self.plain))
        if number == len(self.plain):
            self.plain.append(plain)
        return number


# ---------------------------------------------------------------- what the cluster is


def packed_cluster(declared: Declared) -> bytes:
    kinds = _Alike(Node)
    nodes = [[node.name, kinds.number(replace(node, name=""))] for node in declared.nodes]
    parts = {name: encode(of, getattr(declared, name)) for name, of in _PARTS.items()}
    return _packed({**parts, "kinds": kinds.plain, "nodes": nodes})


def cluster_of(packed: bytes) -> Declared:
    """Raises Undecodable, as `gangs_of`."""
    plain = loads(unpacked(packed))
    kinds = decode(tuple[Node, ...], plain["kinds"])
    nodes = tuple(replace(kind, name=name) for name, kind in ((name, kinds[number]) for name, number in plain["nodes"]))
    return Declared(nodes=nodes, **{name: decode(of, plain.get(name, [])) for name, of in _PARTS.items()})


# ---------------------------------------------------------------- the gangs in it

_GPUS = tuple[int, ...]
_SETS = tuple[PodSet, ...]


def packed_gangs(gangs: Iterable[GangRow], names: Sequence[str]) -> bytes:
    """*names*: of the cluster's nodes, in order."""
    sets, gpus, extra = _Alike(_SETS), _Alike(_GPUS), list[str]()
    places = {name: place for place, name in enumerate(names)}
    rows = []
    for row in gangs:
        gang = row.gang
        plain = [gang.id, sets.number(gang.pod_sets), gang.pool, gang.priority.value, gang.submitted_at]
        plain += [gang.attempt, gang.refused]
        if row.state is not GangState.PENDING:
            placed = []
            for each in row.placement:
                _name_all(each.shares, places, extra)
                placed.append([each.pod_set, each.flavor, each.count, list(_runs(each.shares, places, gpus))])
            law = None if row.law is None else row.law.value
            plain += [row.state.value, placed, list(row.waits_for), row.admitted_at, row.preempted_by, law]
        rows.append(plain)
    return _packed({"sets": sets.plain, "gpus": gpus.plain, "extra": extra, "rows": rows})


def _name_all(shares: Iterable[NodeShare], places: dict[str, int], extra: list[str]) -> None:
    for share in shares:
        if share.node not in places:
            places[share.node] = len(places)
            extra.append(share.node)


def _runs(shares: Iterable[NodeShare], places: dict[str, int], gpus: _Alike) -> Iterator[int]:
    """Yields for each run of equal neighbours: first position, number of nodes, pods on each, number of the GPU set."""
    first = nodes = count = -1
    held: _GPUS | None = None
    for share in shares:
        place = places[share.node]
        if held is not None and place == first + nodes and share.count == count and share.gpus == held:
            nodes += 1
            continue
        if held is not None:
            yield from (first, nodes, count, gpus.number(held))
        first, nodes, count, held = place, 1, share.count, share.gpus
    if held is not None:
        yield from (first, nodes, count, gpus.number(held))


def gangs_of(packed: bytes, names: Sequence[str]) -> tuple[GangRow, ...]:
    plain = loads(unpacked(packed))
    sets = decode(tuple[_SETS, ...], plain["sets"])
    gpus = decode(tuple[_GPUS, ...], plain["gpus"])
    names = [*names, *plain["extra"]]
    return tuple(_gang(row, sets, gpus, names) for row in plain["rows"])


def _gang(row: list[Any], sets: Sequence[_SETS], gpus: Sequence[_GPUS], names: Sequence[str]) -> GangRow:
    id, pod_sets, pool, priority, submitted_at, attempt, refused, *held = row
    gang = Gang(id, pool, Priority(priority), submitted_at, sets[pod_sets], attempt, refused)
    if not held:
        return GangRow(gang, GangState.PENDING)
    state, placed, waits_for, admitted_at, by, law = held
    placement = tuple(
        Assignment(pod_set, flavor, count, tuple(_shares(runs, gpus, names))) for pod_set, flavor, count, runs in placed
    )
    return GangRow(
        gang, GangState(state), placement, tuple(waits_for), admitted_at, by, None if law is None else Law(law)
    )


def _shares(runs: list[int], gpus: Sequence[_GPUS], names: Sequence[str]) -> Iterator[NodeShare]:
    for at in range(0, len(runs), 4):
        first, nodes, count, held = runs[at : at + 4]
        indices = gpus[held]
        for name in names[first : first + nodes]:
            yield NodeShare(name, count, indices)


# ---------------------------------------------------------------- rows


def forget(connection: Connection, until: float) -> None:
    """Deletes the checkpoints up to the time *until*, but keeps what later ones share with them."""
    gone = _CHECKPOINT.time <= until
    first = select(_CHECKPOINT.revision, _CHECKPOINT.cluster_at).where(~gone).order_by(_CHECKPOINT.revision).limit(1)
    row = connection.execute(first).one_or_none()
    if row is not None and row.cluster_at != row.revision:
        kept = select(_CHECKPOINT.cluster).where(_CHECKPOINT.revision == row.cluster_at).scalar_subquery()
        of_it = update(schema.checkpoints).where(_CHECKPOINT.revision == row.revision).values(cluster=kept)
        connection.execute(of_it)
        same = and_(~gone, _CHECKPOINT.cluster_at == row.cluster_at)
        connection.execute(update(schema.checkpoints).where(same).values(cluster_at=row.revision))
    connection.execute(delete(schema.checkpoints).where(gone))
    waiting.forget(connection, None if row is None else row.revision)
