"""The possible subjects of a plan, and the edit that each means in a state. Nothing is changed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from runrig.domain.amounts import Share
from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import InvalidInput, NotFound
from runrig.domain.nodes import Node
from runrig.domain.plan import Plan, PutNode
from runrig.domain.pools import PoolState
from runrig.domain.quantities import few
from runrig.engine.foresight.branch import Edit
from runrig.engine.lifecycle import nodes, pausing, pools
from runrig.engine.state.state import State
from runrig.service.commands.declarations import Declarations, end_of_pause
from runrig.service.commands.differences import Difference, of_file, of_plan
from runrig.service.commands.edits import PoolEdit, edited_pool
from runrig.service.commands.submission import ParsedSubmission
from runrig.service.commands.submissions import Submissions
from runrig.service.commands.subpools import asked_subpool
from runrig.service.queries.lookup import live_pool
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.writing import Writing


@dataclass(frozen=True, slots=True)
class OfFile:
    """A cluster file, as for `apply`."""

    text: str
    prune: bool = False


@dataclass(frozen=True, slots=True)
class OfEdit:
    pool: str
    edit: PoolEdit


@dataclass(frozen=True, slots=True)
class OfSubpool:
    """A new or restored subpool."""

    parent: str
    short: str
    share: Share


@dataclass(frozen=True, slots=True)
class OfDeletion:
    pool: str
    user: str


@dataclass(frozen=True, slots=True)
class OfPause:
    """A pool that *user* pauses (rule S8). *until*: as in `parse_until`."""

    pool: str
    user: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class OfResume:
    pool: str


@dataclass(frozen=True, slots=True)
class OfNodes:
    """Nodes that are lost: they accept no new pods and lose their pods."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OfDrain:
    """Nodes that *user* drains (rule N2)."""

    names: tuple[str, ...]
    force: bool
    user: str


@dataclass(frozen=True, slots=True)
class OfDomain:
    """All nodes of a topology domain: ``r21``, or ``eu1/s2/r21`` if several have that name."""

    name: str


@dataclass(frozen=True, slots=True)
class OfSubmission:
    parsed: ParsedSubmission


@dataclass(frozen=True, slots=True)
class OfCluster:
    """A cluster file that has been read. *prune*: what it removes, as in `declare`."""

    spec: ClusterSpec
    prune: tuple[str, ...]
    user: str


_OfPool = OfEdit | OfSubpool | OfDeletion | OfPause | OfResume
Question = OfFile | _OfPool | OfDrain | OfDomain | OfSubmission
Deed = OfCluster | _OfPool | OfDrain | OfNodes | OfSubmission
"""An interpreted question, from which the edit of any state follows."""


def edit_of(state: State, deed: Deed, now: float) -> Edit:
    """Pure. Raises the errors of the command."""
    match deed:
        case OfCluster(spec, prune, user):
            return Edit(pools.declare(state, spec, prune=prune, user=user).actions)
        case OfEdit(name, edit):
            pool = edited_pool(live_pool(state, name), edit, state)
            return Edit(pools.put_pool(state, pool, create=False).actions)
        case OfSubpool(parent, short, share):
            subpool = asked_subpool(state, live_pool(state, parent), short, share)
            return Edit(pools.put_pool(state, subpool, create=True).actions)
        case OfDeletion(name, user):
            return Edit(pools.delete_pool(state, name, user=user).actions)
        case OfPause(name, user, until):
            return Edit(pausing.pause(state, name, user=user, now=now, until=end_of_pause(until, now)).actions)
        case OfResume(name):
            return Edit(pausing.resume(state, name).actions)
        case OfDrain(names, force, user):
            actions = nodes.drain(state, names, user=user, force=force).plan.actions
            return Edit(actions, drained=frozenset(names))
        case OfNodes(names):
            return _without(state, names)
        case OfSubmission(parsed):
            text = parsed.spec_in(state)
            return Edit(replace(parsed, numbered=False).plan(state, now).actions, {text.hash: text.spec})


def understood(
    declarations: Declarations,
    submissions: Submissions,
    state: State,
    question: Question,
    user: str,
    visibility: Visibility,
    now: float,
) -> tuple[Deed, Edit, tuple[Difference, ...]]:
    """Returns the meaning of *question* in *state*, and which declared settings it changes.

    Raises the errors of the command: InvalidInput, NotFound, Conflict, Refused.
    """
    match question:
        case OfFile(text, prune):
            spec = declarations.read(state, text)
            names = declarations.prunable(state, spec) if prune else ()
            plan = pools.declare(state, spec, prune=names, user=user)
            return OfCluster(spec, names, user), Edit(plan.actions), tuple(of_file(state, spec, plan, names))
        case OfEdit(name) | OfSubpool(name) | OfDeletion(name) | OfPause(name) | OfResume(name):
            live_pool(state, name, visibility)
            edit = edit_of(state, question, now)
            return question, edit, tuple(of_plan(state, Plan(edit.actions)))
        case OfDrain():
            return question, edit_of(state, question, now), ()
        case OfDomain(name):
            lost = OfNodes(_nodes_in(state, name))
            return lost, edit_of(state, lost, now), ()
        case OfSubmission(parsed):
            submissions.plan(parsed, Writing(state, now, user))
            question = OfSubmission(submissions.resolved(parsed, state))
            return question, edit_of(state, question, now), ()


def _without(state: State, names: tuple[str, ...]) -> Edit:
    closed = tuple(PutNode(replace(state.nodes[name], ready=False)) for name in names if name in state.nodes)
    return Edit(closed, lost=frozenset(names))


def _nodes_in(state: State, domain: str) -> tuple[str, ...]:
    """Raises NotFound; InvalidInput if several domains have the name."""
    found: dict[str, list[str]] = {}
    for labels in _hierarchies(state):
        for node in state.nodes.values():
            for path in dict.fromkeys(_domains(node, labels)):
                if domain in (path, path.rpartition("/")[2]):
                    found.setdefault(path, []).append(node.name)
    whole = found.get(domain)
    if whole is None and len(found) > 1:
        raise InvalidInput.one(
            f"{len(found)} domains are named {domain!r}. Use the full name: {few(sorted(found))}", "down"
        )
    if not found:
        raise NotFound(
            f"unknown domain {domain!r:.80}. List domains with `runrig topology show`; use names such as rack-1 or zone-a/rack-1"
        )
    return tuple(sorted(set(next(iter(found.values())) if whole is None else whole)))


def _hierarchies(state: State) -> list[tuple[str, ...]]:
    """Returns the labels of the topology keys of pools, coarse to fine, each list once."""
    living = (pool for pool in state.pools.values() if pool.state is not PoolState.ARCHIVED and pool.topology_keys)
    return sorted({tuple(key.label for key in pool.topology_keys) for pool in living})


def _domains(node: Node, labels: tuple[str, ...]) -> Iterator[str]:
    """Yields the domains of *node*, coarse to fine, as paths of label values."""
    values: list[str] = []
    for label in labels:
        if label not in node.labels:
            return
        values.append(node.labels[label])
        yield "/".join(values)
