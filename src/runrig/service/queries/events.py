"""The event log in words: one line per entry, for people who ask what happened.  Each entry keeps the law behind its action."""

from dataclasses import replace
from functools import singledispatch

from runrig.domain.gangs import Gang, Law, Placement
from runrig.domain.nodes import NO_FLAVOR
from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    DropCohort,
    DropNode,
    EndHold,
    Hold,
    MoveGroup,
    MoveTask,
    MoveWorkflow,
    Nominate,
    Preempt,
    PutCohort,
    PutNode,
    PutPool,
    Queue,
    Reassign,
    Refuse,
    Release,
    Replace,
    RestartTask,
    RetryTask,
    SetAside,
    SetFlavors,
    Stop,
    Submit,
    TryAgain,
    Unqueue,
    Withdraw,
)
from runrig.domain.pools import PoolState, Quotas
from runrig.domain.quantities import GPU, amount_in_words
from runrig.domain.workflows import Status

_WHY_PREEMPTED = {
    Law.PRIORITY: "which has a higher priority in the same pool (law R1)",
    Law.RECLAIM: "whose pool takes back what was borrowed (law R2)",
}
_WHY_SPARED = {"R2": "its pool is within its quota without it", "R3": "its end would not have helped"}


def preempted_in_words(action: Preempt) -> str:
    """``was preempted by G, …``, to stand behind the name of the gang."""
    spared = ", ".join(f"{gang} ({_WHY_SPARED[law]})" for gang, law in action.spared)
    cheaper = f"; cheaper, and not possible: {spared}" if spared else ""
    return f"was preempted by {action.by}, {_WHY_PREEMPTED[action.law]}{cheaper}"


def granted_in_words(gang: Gang, placement: Placement) -> str:
    """``, with 3 of 4 pods of train (at least 2)`` for the pod sets of *gang* that accept fewer; "" without any (law A1)."""
    granted = {each.pod_set: each.count for each in placement}
    parts = [
        f"{granted[each.name]} of {each.count} pods of {each.name} (at least {each.min_count})"
        for each in gang.pod_sets
        if each.min_count is not None and each.min_count < each.count
    ]
    return f", with {' and '.join(parts)}" if parts else ""


@singledispatch
def in_words(action: Action) -> str:
    """*action* as a sentence without a full stop."""
    raise AssertionError(f"no words for {action!r}")


@in_words.register
def _(action: SetFlavors) -> str:
    return f"the flavors are {', '.join(flavor.name for flavor in action.flavors)}"


@in_words.register
def _(action: PutNode) -> str:
    node = action.node
    usable = node.ready and node.flavor != NO_FLAVOR
    how = "is cordoned (law N1)" if node.cordoned else "is ready" if usable else "takes no new pods"
    return (
        f"node {node.name} ({node.flavor or 'of no flavor'}, {amount_in_words(GPU, node.resources.get(GPU, 0))}) {how}"
    )


@in_words.register
def _(action: DropNode) -> str:
    return f"node {action.name} is gone"


@in_words.register
def _(action: PutCohort) -> str:
    verb = "created" if action.before is None else "changed"
    return f"cohort {action.cohort.name} is {verb}: {_quotas(action.cohort.quotas)}"


@in_words.register
def _(action: DropCohort) -> str:
    return f"cohort {action.before.name} is deleted"


@in_words.register
def _(action: PutPool) -> str:
    pool, before = action.pool, action.before
    if before is None:
        return f"pool {pool.name} is created: {_quotas(pool.quotas)}"
    if pool.state is not before.state:
        return f"pool {pool.name} goes from {before.state.value} to {pool.state.value}"
    if pool.state is PoolState.ACTIVE and pool.quotas != before.quotas:
        return f"pool {pool.name} is resized: {_quotas(before.quotas)} becomes {_quotas(pool.quotas)}"
    if pool.closed_by != before.closed_by:
        why = f": {pool.closed_reason}" if pool.closed_reason else ""
        return (
            f"pool {pool.name} is open again"
            if pool.closed_by is None
            else f"pool {pool.name} is closed by {pool.closed_by}{why}"
        )
    return f"pool {pool.name} is changed: {_quotas(pool.quotas)}"


@in_words.register
def _(action: Submit) -> str:
    workflow = action.workflow
    return f"{workflow.id} is submitted to pool {workflow.pool} with priority {workflow.priority.value} by {workflow.submitted_by}"


@in_words.register
def _(action: MoveTask) -> str:
    told = action.exit_code is None or action.message.startswith(f"exit code {action.exit_code}")
    code = "" if told else f" with exit code {action.exit_code}"
    return f"task {action.key.task} (attempt {action.key.retry_id}) is {action.status.value}{code}{_because(action.message)}"


@in_words.register
def _(action: RetryTask) -> str:
    return f"task {action.key.task} starts again as attempt {action.key.retry_id + 1}"


@in_words.register
def _(action: RestartTask) -> str:
    return f"task {action.key.task} stops, to start again beside the others of its group"


@in_words.register
def _(action: MoveGroup) -> str:
    if action.stopping is not None:
        return f"group {action.group} stops, to be {action.stopping.value}{_because(action.message)}"
    return f"group {action.group} is {action.status.value}{_because(action.message)}"


@in_words.register
def _(action: MoveWorkflow) -> str:
    if action.cancelled_by is not None and not action.status.finished:
        return f"{action.workflow} stops{_because(action.message)}"
    return f"{action.workflow} is {action.status.value}{_because(action.message)}"


@in_words.register
def _(action: Queue) -> str:
    gang = action.gang
    again = "" if gang.attempt == 0 else f" again, as attempt {gang.attempt}"
    return f"{gang.id} is queued in pool {gang.pool}{again}"


@in_words.register
def _(action: Unqueue) -> str:
    return f"{action.gang} leaves the queue"


@in_words.register
def _(action: Hold) -> str:
    return f"{action.workflow} is held by {action.by}: what has not started waits (law W3)"


@in_words.register
def _(action: EndHold) -> str:
    return f"{action.workflow} is released"


@in_words.register
def _(action: SetAside) -> str:
    return f"{action.workflow} is set aside: the server failed at it ({action.error}) and goes on without it (law W8)"


@in_words.register
def _(action: Abandon) -> str:
    return f"{action.workflow} is FAILED_CANCELED{_because(action.message)}"


@in_words.register
def _(action: Reassign) -> str:
    return f"{action.workflow} is in pool {action.pool} with priority {action.priority.value} from now on"


@in_words.register
def _(action: Nominate) -> str:
    waits = f", and waits for {', '.join(action.targets)} to stop" if action.targets else ""
    return f"{action.gang} has a place on {_places(action.placement)}{waits} (law R4)"


@in_words.register
def _(action: Withdraw) -> str:
    return f"{action.gang} gives up its place and is pending again"


@in_words.register
def _(action: Preempt) -> str:
    return f"{action.gang} {preempted_in_words(action)}"


@in_words.register
def _(action: Stop) -> str:
    if action.cause is Status.FAILED_EVICTED:
        return f"{action.gang} stops, since a node of it is drained (law N2)"
    return f"{action.gang} stops: {action.cause.value}"


@in_words.register
def _(action: Admit) -> str:
    return f"{action.gang} is admitted on {_places(action.placement)}"


@in_words.register
def _(action: Replace) -> str:
    return f"{action.gang} has lost nodes and is on {_places(action.placement)} from now on (law T1)"


@in_words.register
def _(action: Refuse) -> str:
    what = "thrown out by" if action.cause is Status.FAILED_PREEMPTED else "not taken by"
    return f"{action.gang} is {what} the cluster's scheduler and taken back whole (law T7, KaiNotPlaced): {action.said}"


@in_words.register
def _(action: TryAgain) -> str:
    return f"{action.gang} is tried again: that the cluster's scheduler did not take it is some time ago (law T7)"


@in_words.register
def _(action: Release) -> str:
    return f"{action.gang} gives back what it held"


def _because(message: str) -> str:
    return f": {message}" if message else ""


def unnumbered(action: Action) -> Action:
    """*action* without GPU indices, which mean nothing where the cluster itself assigns devices."""
    if not isinstance(action, Nominate | Admit | Replace):
        return action
    placement = tuple(
        replace(assignment, shares=tuple(replace(share, gpus=()) for share in assignment.shares))
        for assignment in action.placement
    )
    return replace(action, placement=placement)


def _places(placement: Placement) -> str:
    """The nodes of *placement* in order, each once."""
    gpus: dict[str, list[int]] = {}
    for assignment in placement:
        for share in assignment.shares:
            gpus.setdefault(share.node, []).extend(share.gpus)
    parts = [node + (f" (GPU {_ranges(tuple(sorted(held)))})" if held else "") for node, held in gpus.items()]
    return ", ".join(parts) or "the quota of its pool"


def _quotas(quotas: Quotas) -> str:
    parts = [
        f"{quota.nominal} of {key}"
        + ("" if quota.borrowing_limit is None else f", borrows at most {quota.borrowing_limit}")
        + ("" if quota.lending_limit is None else f", lends at most {quota.lending_limit}")
        for key, quota in sorted(quotas.items())
    ]
    return "; ".join(parts) or "no quota"


def _ranges(indices: tuple[int, ...]) -> str:
    """``0-3, 6`` of 0, 1, 2, 3, 6; *indices* ascend."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
