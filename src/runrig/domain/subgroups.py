"""A task group as a tree of subgroups with topology constraints, as the cluster's own scheduler accepts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constraint:
    """The node label whose value all pods must share, and that of the finer level which they should share; None: no such level."""

    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Subgroup:
    """*pods*: on leaves, how many pods start together; None on inner subgroups. *parent* None: directly below the pod group."""

    name: str
    constraint: Constraint
    parent: str | None = None
    pods: int | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The tree in the form of a PodGroup: the constraint of all pods, then the subgroups, parents before children.

    *pods*: how many pods start together; None if the subgroups specify it. *subgroup_of*: task → the leaf of each of its pods;
    empty without subgroups.
    """

    constraint: Constraint | None
    subgroups: tuple[Subgroup, ...]
    pods: int | None
    subgroup_of: Mapping[str, Sequence[str]]
