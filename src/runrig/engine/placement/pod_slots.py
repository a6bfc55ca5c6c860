"""Seats: which pod of a pod set stands where, out of its shares and back."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from runrig.domain.gangs import NodeShare


class PodSlot(NamedTuple):
    """*gpus*: the indices that the pod holds on its node."""

    node: str
    gpus: tuple[int, ...]


def slots_of(shares: Iterable[NodeShare]) -> list[PodSlot]:
    """In the order of the pods."""
    return [
        PodSlot(share.node, share.gpus[at * len(share.gpus) // share.count : (at + 1) * len(share.gpus) // share.count])
        for share in shares
        for at in range(share.count)
    ]


def shares_of(slots: Iterable[PodSlot]) -> tuple[NodeShare, ...]:
    """Neighbours on one node are one share."""
    parts = ((node, list(pods)) for node, pods in groupby(slots, key=lambda slot: slot.node))
    return tuple(NodeShare(node, len(pods), tuple(index for pod in pods for index in pod.gpus)) for node, pods in parts)
