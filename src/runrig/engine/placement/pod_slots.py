"""Seats: which pod of a pod set stands where, out of its shares and back."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from runrig.domain.gangs import NodeShare


class Seat(NamedTuple):
    """*gpus*: the indices that the pod holds on its node."""

    node: str
    gpus: tuple[int, ...]


def seats_of(shares: Iterable[NodeShare]) -> list[Seat]:
    """In the order of the pods."""
    return [
        Seat(share.node, share.gpus[at * len(share.gpus) // share.count : (at + 1) * len(share.gpus) // share.count])
        for share in shares
        for at in range(share.count)
    ]


def shares_of(seats: Iterable[Seat]) -> tuple[NodeShare, ...]:
    """Neighbours on one node are one share."""
    parts = ((node, list(pods)) for node, pods in groupby(seats, key=lambda seat: seat.node))
    return tuple(NodeShare(node, len(pods), tuple(index for pod in pods for index in pod.gpus)) for node, pods in parts)
