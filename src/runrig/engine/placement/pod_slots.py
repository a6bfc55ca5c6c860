"""Pod slots: converts between the shares of a pod set and the node and GPUs of each pod."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from runrig.domain.gangs import NodeShare, Placement


class PodSlot(NamedTuple):
    """*gpus*: the indices of the pod's GPUs on *node*."""

    node: str
    gpus: tuple[int, ...]


def slots_of(shares: Iterable[NodeShare]) -> list[PodSlot]:
    """One slot per pod, in pod order."""
    return [
        PodSlot(
            share.node, share.gpus[pod * len(share.gpus) // share.count : (pod + 1) * len(share.gpus) // share.count]
        )
        for share in shares
        for pod in range(share.count)
    ]


class LastSlots:
    """Caches the slots of the last placement, because pods are looked up one after the other."""

    def __init__(self) -> None:
        self._placement: Placement = ()
        self._slots: dict[str, list[PodSlot]] = {}

    def of(self, placement: Placement, pod_set: str) -> list[PodSlot]:
        """The slots of *pod_set*; empty if the placement does not contain it."""
        if self._placement is not placement:
            self._placement, self._slots = placement, {each.pod_set: slots_of(each.shares) for each in placement}
        return self._slots.get(pod_set, [])


def shares_of(slots: Iterable[PodSlot]) -> tuple[NodeShare, ...]:
    """The shares of *slots*; consecutive pods on one node form one share."""
    parts = ((node, list(pods)) for node, pods in groupby(slots, key=lambda slot: slot.node))
    return tuple(NodeShare(node, len(pods), tuple(index for pod in pods for index in pod.gpus)) for node, pods in parts)
