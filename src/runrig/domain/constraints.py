"""The constraint tree of a task group: which of its pods shall lie together, level by level (topology-aware-scheduling.md; law T3).

Levels are those that some task of the group names, in the order of the pool's keys, coarse to fine.  A task that names none of
a level gets a pad there: a branch without a name that is preferred, and shared by all such tasks under the same parent.  So
every leaf lies at the same depth.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.errors import Refused
from runrig.domain.pools import Pool, TopologyKey
from runrig.domain.workflows import GroupSpec, Requirement, TaskSpec, WorkflowSpec

CATCH_ALL = "rest"
"""The subgroup of the tasks without any requirement, where others have some."""

LONGEST_SUBGROUP = 63
_HASH_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Branch:
    """Pods that shall lie in one domain of *key*; None: the root, which asks for nothing.

    *group*: as the tasks name it, None of a pad.  *tasks*: only of leaves; the root is one where nobody asks for anything.
    """

    key: TopologyKey | None = None
    group: str | None = None
    required: bool = False
    branches: tuple["Branch", ...] = ()
    tasks: tuple[TaskSpec, ...] = ()

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


def has_requirements(spec: WorkflowSpec) -> bool:
    return any(task.topology for group in spec.groups for task in group.tasks)


def check(pool: Pool, spec: WorkflowSpec) -> None:
    """Raises Refused for requirements that *pool* does not know, or that contradict each other (laws T3, T6)."""
    for group in spec.groups:
        for task in group.tasks:
            for asked in task.topology:
                _check_key(pool, task, asked)
        tree_of(pool.topology_keys, group)


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


def tree_of(keys: Sequence[TopologyKey], group: GroupSpec) -> Branch:
    """The root.  Branches and tasks are in the order of the file; all keys must be among *keys*.

    Raises Refused if one group is required by one task and preferred by another, or a task names a key twice.
    """
    named = {asked.key for task in group.tasks for asked in task.topology}
    levels = [key for key in keys if key.key in named]
    return Branch(branches=_branches(levels, group.tasks), tasks=() if levels else group.tasks)


def _branches(levels: Sequence[TopologyKey], tasks: Sequence[TaskSpec]) -> tuple[Branch, ...]:
    if not levels:
        return ()
    key, finer = levels[0], levels[1:]
    members: dict[str | None, list[TaskSpec]] = {}
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
        )
        for group, inside in members.items()
    )


def _asked(task: TaskSpec, key: str) -> Requirement | None:
    found = [asked for asked in task.topology if asked.key == key]
    if len(found) > 1:
        raise Refused(f"task {task.name} names topology key {key!r} twice: keep one of them", "T3")
    return found[0] if found else None


def _required(key: str, group: str, tasks: Sequence[TaskSpec]) -> bool:
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

    *pods*: how many start together, None where subgroups say it.  *subgroup_of*: task → its leaf, empty without subgroups.
    """

    constraint: Constraint | None
    subgroups: tuple[Subgroup, ...]
    pods: int | None
    subgroup_of: Mapping[str, str]


def outline_of(root: Branch) -> Outline:
    """Levels that all tasks share go to the top; a chain with one child each is one constraint, as long as nothing is above it."""
    shared = tuple(_chain(root))[1:]
    fork = shared[-1] if shared else root
    top = _constraint(shared) if shared else None
    if not fork.branches:
        return Outline(top, (), root.pods, {})
    drafts = [draft for branch in fork.branches for draft in _drafts(branch, _path(shared), None)]
    names = _names(drafts)
    subgroups, subgroup_of = [], {}
    for draft in drafts:
        leaf, name = draft.chain[-1], names[draft.path]
        parent = None if draft.parent is None else names[draft.parent]
        subgroups.append(Subgroup(name, _constraint(draft.chain), parent, None if leaf.branches else leaf.pods))
        subgroup_of.update({task.name: name for task in leaf.tasks})
    return Outline(top, tuple(subgroups), None, subgroup_of)


Path = tuple[tuple[str, str | None], ...]
"""(key, group) of each branch, from below the root; group None of a pad."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A subgroup without its name.  *chain*: the branches at the end of *path* that it stands for."""

    path: Path
    chain: tuple[Branch, ...]
    parent: Path | None


def _drafts(branch: Branch, above: Path, parent: Path | None) -> Iterator[_Draft]:
    # Below a subgroup each level stays by itself: it is that subgroup which holds the coarser constraint.
    chain = tuple(_chain(branch)) if parent is None else (branch,)
    path = above + _path(chain)
    yield _Draft(path, chain, parent)
    for child in chain[-1].branches:
        yield from _drafts(child, path, path)


def _path(chain: Sequence[Branch]) -> Path:
    return tuple((branch.key.key, branch.group) for branch in chain if branch.key is not None)


def _chain(branch: Branch) -> Iterator[Branch]:
    yield branch
    while len(branch.branches) == 1:
        branch = branch.branches[0]
        yield branch


def _constraint(chain: Sequence[Branch]) -> Constraint:
    """The finest required level, which has the coarser ones inside, and the finest preferred one if it is finer still."""
    required = preferred = None
    for branch in chain:
        assert branch.key is not None, "the root is in no chain"
        if branch.required:
            required, preferred = branch.key.label, None
        else:
            preferred = branch.key.label
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
    return not draft.chain[-1].branches and all(group is None for _, group in draft.path)


def _free(path: Path, taken: set[str]) -> str:
    said = [group for _, group in path if group is not None]
    name = "-".join(said).lower().replace("_", "-") or CATCH_ALL
    if len(name) <= LONGEST_SUBGROUP and name not in taken:
        return name
    whole = "/".join(f"{key}={group or ''}" for key, group in path)
    start = name[: LONGEST_SUBGROUP - _HASH_DIGITS - 1].rstrip("-")
    while True:
        digest = hashlib.sha256(whole.encode()).hexdigest()
        name = f"{start}-{digest[:_HASH_DIGITS]}"
        if name not in taken:
            return name
        whole = digest
