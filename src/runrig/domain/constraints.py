"""The constraint tree of a task group: which of its pods shall lie together, level by level (topology-aware-scheduling.md; law T3).

Levels are those that some task of the group names, in the order of the pool's keys, coarse to fine.  A task that names none of
a level gets a pad there: a branch without a name that is preferred, and shared by all such tasks under the same parent.  So
every leaf lies at the same depth.  A branch with slices stands for all of them; the outline shows each by itself.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.errors import Refused
from runrig.domain.gangs import Requirement
from runrig.domain.pools import Pool, TopologyKey
from runrig.domain.workflows import TaskSpec, WorkflowSpec

CATCH_ALL = "rest"
"""The subgroup of the tasks without any requirement, where others have some."""

LONGEST_SUBGROUP = 63
_HASH_DIGITS = 6


class Asking(Protocol):
    """What has requirements: a task of a file, or a pod set of a gang."""

    @property
    def name(self) -> str: ...

    @property
    def pods(self) -> int: ...

    @property
    def topology(self) -> tuple[Requirement, ...]: ...


@dataclass(frozen=True, slots=True)
class Branch:
    """Pods that shall lie in one domain of *key*; None: the root, which asks for nothing.

    *group*: as the tasks name it, None of a pad.  *tasks*: only of leaves; the root is one where nobody asks for anything.
    *slice_size*: so many consecutive pods at a time of the one task below it, and not all together; None: all.
    """

    key: TopologyKey | None = None
    group: str | None = None
    required: bool = False
    branches: tuple["Branch", ...] = ()
    tasks: tuple[Asking, ...] = ()
    slice_size: int | None = None

    @property
    def pods(self) -> int:
        """All below it, as asked for."""
        return sum(task.pods for task in self.tasks) + sum(each.pods for each in self.branches)

    def leaves(self) -> Iterator["Branch"]:
        if not self.branches:
            yield self
        for each in self.branches:
            yield from each.leaves()


# ---------------------------------------------------------------- checks


def check(pool: Pool, spec: WorkflowSpec) -> None:
    """Raises Refused for requirements that *pool* does not know, or that contradict each other (laws T3, T6)."""
    for group in spec.groups:
        for task in group.tasks:
            for asked in task.topology:
                _check_key(pool, task, asked)
        tree_of(pool.topology_keys, group.tasks)


def _check_key(pool: Pool, task: TaskSpec, asked: Requirement) -> None:
    known = [each.key for each in pool.topology_keys]
    details: dict[str, object] = {"pool": pool.name, "task": task.name, "key": asked.key, "keys": known}
    if not known:
        raise Refused(
            f"task {task.name} has a requirement for topology key {asked.key!r}, and pool {pool.name} has no topology keys: "
            "leave the requirement out, or choose a pool that has the key",
            "T6",
            details,
        )
    if asked.key not in known:
        raise Refused(
            f"topology key {asked.key!r} of task {task.name} was not found in pool {pool.name}: it has {', '.join(known)}",
            "T6",
            details,
        )


# ---------------------------------------------------------------- the tree


def tree_of(keys: Sequence[TopologyKey], tasks: Sequence[Asking]) -> Branch:
    """The root.  Branches and tasks are in the order of the file; all keys must be among *keys*.

    Raises Refused if one group is required by one task and preferred by another, a task names a key twice, a group of
    several tasks has slices, or finer slices do not divide the coarser.
    """
    named = {asked.key for task in tasks for asked in task.topology}
    levels = [key for key in keys if key.key in named]
    for task in tasks:
        _check_slices(levels, task)
    return Branch(branches=_branches(levels, tasks), tasks=() if levels else tuple(tasks))


def _branches(levels: Sequence[TopologyKey], tasks: Sequence[Asking]) -> tuple[Branch, ...]:
    if not levels:
        return ()
    key, finer = levels[0], levels[1:]
    members: dict[str | None, list[Asking]] = {}
    for task in tasks:
        asked = _asked(task, key.key)
        members.setdefault(asked.group if asked else None, []).append(task)
    return tuple(
        Branch(
            key,
            group,
            group is not None and _required(key.key, group, inside),
            _branches(finer, inside),
            () if finer else tuple(inside),
            None if group is None else _slice_size(key.key, group, inside),
        )
        for group, inside in members.items()
    )


def _asked(task: Asking, key: str) -> Requirement | None:
    found = [asked for asked in task.topology if asked.key == key]
    if len(found) > 1:
        raise Refused(f"task {task.name} names topology key {key!r} twice: keep one of them", "T3")
    return found[0] if found else None


def _slice_size(key: str, group: str, tasks: Sequence[Asking]) -> int | None:
    sizes = {task.name: asked.slice_size for task in tasks if (asked := _asked(task, key)) is not None}
    sliced = [name for name, size in sizes.items() if size is not None]
    if sliced and len(tasks) > 1:
        raise Refused(
            f"group {group!r} of topology key {key!r} has slices of task {sliced[0]}, and other tasks beside it "
            f"({', '.join(task.name for task in tasks if task.name != sliced[0])}): give that task a group of its own",
            "T3",
            {"key": key, "group": group, "tasks": [task.name for task in tasks]},
        )
    return sizes[sliced[0]] if sliced else None


def _check_slices(levels: Sequence[TopologyKey], task: Asking) -> None:
    """Raises Refused where a slice would lie across two coarser ones."""
    coarser: Requirement | None = None
    for key in levels:
        asked = _asked(task, key.key)
        if asked is None or asked.slice_size is None:
            continue
        if coarser is not None and coarser.slice_size is not None and coarser.slice_size % asked.slice_size:
            raise Refused(
                f"task {task.name} has slices of {coarser.slice_size} pods for topology key {coarser.key!r} and of "
                f"{asked.slice_size} for {asked.key!r}, which is finer: {asked.slice_size} does not divide "
                f"{coarser.slice_size}, so write a sliceSize for {asked.key!r} that does",
                "T3",
                {"task": task.name, "sizes": {coarser.key: coarser.slice_size, asked.key: asked.slice_size}},
            )
        coarser = asked


def _required(key: str, group: str, tasks: Sequence[Asking]) -> bool:
    said = {task.name: asked.required for task in tasks if (asked := _asked(task, key)) is not None}
    hard, soft = ([name for name, required in said.items() if required is wanted] for wanted in (True, False))
    if hard and soft:
        raise Refused(
            f"group {group!r} of topology key {key!r} is required by task {hard[0]} and preferred by task {soft[0]}: "
            "write the same requirementType in both, or name two groups",
            "T3",
            {"key": key, "group": group, "required": hard, "preferred": soft},
        )
    return bool(hard)


# ---------------------------------------------------------------- as subgroups


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


def outline_of(root: Branch) -> Outline:
    """Levels that all pods share go to the top; a chain with one child each is one constraint, as long as nothing is above it."""
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
    """A branch, or one slice of it.  *index*: of the slice, None of a branch without slices.

    *pods*: (task, how many of its pods), only of leaves.  The leaves of a task are in the order of its pods.
    """

    key: TopologyKey | None
    group: str | None
    index: int | None
    required: bool
    twigs: tuple["_Twig", ...]
    pods: tuple[tuple[str, int], ...]


def _twigs(branch: Branch, pods: int | None) -> Iterator[_Twig]:
    """*branch*, slice by slice if it has slices.  *pods*: of the coarser slice that it lies in, None outside of slices."""
    if branch.slice_size is None:
        yield _twig(branch, None, pods)
        return
    here = branch.pods if pods is None else pods
    for index, first in enumerate(range(0, here, branch.slice_size)):
        yield _twig(branch, index, min(branch.slice_size, here - first))


def _twig(branch: Branch, index: int | None, pods: int | None) -> _Twig:
    inside = tuple(twig for child in branch.branches for twig in _twigs(child, pods))
    counts = tuple((task.name, task.pods if pods is None else pods) for task in branch.tasks)
    return _Twig(branch.key, branch.group, index, branch.required, inside, counts)


Path = tuple[tuple[str, str | None, int | None], ...]
"""(key, group, slice) of each twig, from below the root; group None of a pad."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A subgroup without its name.  *chain*: the twigs at the end of *path* that it stands for."""

    path: Path
    chain: tuple[_Twig, ...]
    parent: Path | None


def _drafts(twig: _Twig, above: Path, parent: Path | None) -> Iterator[_Draft]:
    # Below a subgroup each level stays by itself: it is that subgroup which holds the coarser constraint.
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
    """The finest required level, which has the coarser ones inside, and the finest preferred one if it is finer still."""
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
    """A name for each path, unlike all others.  The first of two that would be alike keeps it; the catch-all always does."""
    names: dict[Path, str] = {}
    taken: set[str] = set()
    for draft in sorted(drafts, key=lambda draft: not _is_catch_all(draft)):
        names[draft.path] = name = _free(draft.path, taken)
        taken.add(name)
    return names


def _is_catch_all(draft: _Draft) -> bool:
    return not draft.chain[-1].twigs and all(group is None for _, group, _ in draft.path)


def _free(path: Path, taken: set[str]) -> str:
    said = [group + _numbered("-", index) for _, group, index in path if group is not None]
    name = "-".join(said).lower().replace("_", "-") or CATCH_ALL
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
