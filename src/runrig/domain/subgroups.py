"""A task group as subgroups that share levels of the topology: the form in which a cluster's scheduler takes its constraints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constraint:
    """Labels of the level that all must share, and of the finer level that they had better share; None: none."""

    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Subgroup:
    """*pods*: how many start together, of leaves; None: all that hang under it."""

    name: str
    constraint: Constraint
    parent: str | None = None
    pods: int | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The tree in the form of a PodGroup: what all share at the top, then subgroups, parents before children.

    *pods*: how many start together, None where subgroups say it.  *subgroup_of*: task → the leaf of each of its pods, empty
    without subgroups.
    """

    constraint: Constraint | None
    subgroups: tuple[Subgroup, ...]
    pods: int | None
    subgroup_of: Mapping[str, Sequence[str]]
