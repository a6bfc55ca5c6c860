"""Subgroups: a constraint tree as the named subgroups of a PodGroup, one per slice (rule T3)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.pools import TopologyKey
from runrig.domain.subgroups import Constraint, Outline, Subgroup
from runrig.engine.placement.constraint_tree import Branch

CATCH_ALL = "rest"
"""Name of the subgroup of tasks without a requirement, if other tasks have one."""

LONGEST_SUBGROUP = 63
_HASH_DIGITS = 6


def outline_of(root: Branch) -> Outline:
    """The subgroups of the tree below *root*.

    Levels that all pods share become the constraint of the whole group. A chain of single children becomes one constraint
    unless it is below a subgroup.
    """
    whole = _twig(root, None, None)
    shared = tuple(_chain(whole))[1:]
    fork = shared[-1] if shared else whole
    top = _constraint(shared) if shared else None
    if not fork.twigs:
        return Outline(top, (), root.pods, {})
    drafts = [draft for twig in fork.twigs for draft in _drafts(twig, _path(shared), None)]
    names = _names(drafts)
    subgroups: list[Subgroup] = []
    subgroup_of: dict[str, list[str]] = {}
    for draft in drafts:
        leaf, name = draft.chain[-1], names[draft.path]
        parent = None if draft.parent is None else names[draft.parent]
        pods = None if leaf.twigs else sum(count for _, count in leaf.pods)
        subgroups.append(Subgroup(name, _constraint(draft.chain), parent, pods))
        for task, count in leaf.pods:
            subgroup_of.setdefault(task, []).extend([name] * count)
    return Outline(top, tuple(subgroups), None, subgroup_of)


@dataclass(frozen=True, slots=True)
class _Twig:
    """A branch, or one slice of it. *index*: number of the slice; None if the branch has no slices.

    *pods*: (task, number of its pods), on leaves only. The leaves of a task are in the order of its pods.
    """

    key: TopologyKey | None
    group: str | None
    index: int | None
    required: bool
    twigs: tuple["_Twig", ...]
    pods: tuple[tuple[str, int], ...]


def _twigs(branch: Branch, pods: int | None) -> Iterator[_Twig]:
    """Yields *branch*, or its slices if it has any. *pods*: size of the coarser slice around it; None outside slices."""
    if branch.slice_size is None:
        yield _twig(branch, None, pods)
        return
    total = branch.pods if pods is None else pods
    for index, first in enumerate(range(0, total, branch.slice_size)):
        yield _twig(branch, index, min(branch.slice_size, total - first))


def _twig(branch: Branch, index: int | None, pods: int | None) -> _Twig:
    twigs = tuple(twig for child in branch.branches for twig in _twigs(child, pods))
    counts = tuple((task.name, task.pods if pods is None else pods) for task in branch.tasks)
    return _Twig(branch.key, branch.group, index, branch.required, twigs, counts)


Path = tuple[tuple[str, str | None, int | None], ...]
"""(key, group, slice) of each twig below the root; the group of a pad is None."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A subgroup without a name. *chain*: the twigs at the end of *path* that it represents."""

    path: Path
    chain: tuple[_Twig, ...]
    parent: Path | None


def _drafts(twig: _Twig, above: Path, parent: Path | None) -> Iterator[_Draft]:
    # Below a subgroup, levels are not merged: that subgroup has the coarser constraint.
    chain = tuple(_chain(twig)) if parent is None else (twig,)
    path = above + _path(chain)
    yield _Draft(path, chain, parent)
    for child in chain[-1].twigs:
        yield from _drafts(child, path, path)


def _path(chain: Sequence[_Twig]) -> Path:
    return tuple((twig.key.key, twig.group, twig.index) for twig in chain if twig.key is not None)


def _chain(twig: _Twig) -> Iterator[_Twig]:
    yield twig
    while len(twig.twigs) == 1:
        twig = twig.twigs[0]
        yield twig


def _constraint(chain: Sequence[_Twig]) -> Constraint:
    """The finest required level, which implies coarser ones, and the finest preferred level if it is finer still."""
    required = preferred = None
    for twig in chain:
        assert twig.key is not None, "the root is in no chain"
        if twig.required:
            required, preferred = twig.key.label, None
        else:
            preferred = twig.key.label
    return Constraint(required, preferred)


# ---------------------------------------------------------------- names


def _names(drafts: Sequence[_Draft]) -> Mapping[Path, str]:
    """A unique name for each path. In a conflict, the first keeps its name; the catch-all always does."""
    names: dict[Path, str] = {}
    taken: set[str] = set()
    for draft in sorted(drafts, key=lambda draft: not _is_catch_all(draft)):
        names[draft.path] = name = _free(draft.path, taken)
        taken.add(name)
    return names


def _is_catch_all(draft: _Draft) -> bool:
    return not draft.chain[-1].twigs and all(group is None for _, group, _ in draft.path)


def _free(path: Path, taken: set[str]) -> str:
    parts = [group + _numbered("-", index) for _, group, index in path if group is not None]
    name = "-".join(parts).lower().replace("_", "-") or CATCH_ALL
    if len(name) <= LONGEST_SUBGROUP and name not in taken:
        return name
    whole = "/".join(f"{key}={group or ''}" + _numbered("#", index) for key, group, index in path)
    start = name[: LONGEST_SUBGROUP - _HASH_DIGITS - 1].rstrip("-")
    while True:
        digest = hashlib.sha256(whole.encode()).hexdigest()
        name = f"{start}-{digest[:_HASH_DIGITS]}"
        if name not in taken:
            return name
        whole = digest


def _numbered(sign: str, index: int | None) -> str:
    return "" if index is None else f"{sign}{index}"
