"""The cost of predictions in a large cluster: why, what would start it, what-if runs, plans, dry runs.

The full cluster of `waiting`, with the workflows that did not fit queued.  Searches, plans and other temporary changes run in
forks of this process, as in the mirror; a fork ends when it has used its processor time.  Some answers of each kind are checked:
a fork makes the change permanently, and the next cycle must do what was predicted.
"""

import gc
import os
import resource
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from random import Random
from statistics import median
from time import process_time
from typing import NamedTuple, TypeVar

from bench import calibration, waiting
from bench.racks import gang, node_name
from bench.section import Rows, ms, verdict
from bench.world import cycle
from runrig.domain.blockers import Verdict
from runrig.domain.changes import Change, MoreBorrowing, MoreNominal, NodeBack, Who
from runrig.domain.gangs import Gang, GangState, Priority
from runrig.domain.plan import (
    Admit,
    DropCohort,
    DropNode,
    Nominate,
    PutCohort,
    PutLimits,
    PutNode,
    PutPool,
    Queue,
    Submit,
)
from runrig.domain.pools import Quota
from runrig.domain.steps import drained
from runrig.domain.workflows import Group, GroupSpec, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.explain.why import why
from runrig.engine.foresight.branch import Edit, StateBranch
from runrig.engine.foresight.consequences import consequences
from runrig.engine.foresight.counterfactual import Counterfactual, Search
from runrig.engine.foresight.dials import Reach, edits_of
from runrig.engine.foresight.dry_run import dry_run
from runrig.engine.foresight.outcome import Outcome
from runrig.engine.foresight.would_start import Foresight, make_ready, starting_changes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.lifecycle import pools
from runrig.engine.scheduling.admission import decide
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State

T = TypeVar("T")

NODES, WAITING = 10_000, 100_000
NOW = 1e6
MOST_S = 3.0
"""Processor time that a search may use here; a search that is cut short counts as this long."""
SUBMITTED = 1_000
ABOUT = (
    f"predictions on {NODES:,} nodes with 1,000 pools and {WAITING:,} workflows, ms of processor time; runs: cycles of the engine in "
    f"the median; cut: searches that had not ended after {MOST_S:g} s; checked: answers that were carried out"
)
EVERYBODY = (Who.OWNER, Who.ADMIN, Who.WAIT)


class Measured(NamedTuple):
    """*seconds*: of each search.  *goals*: ms of the median and of the slowest; None: no goal.  *cut*: how many were cut short.
    *runs*: engine runs in the median; None: not a search.  *checked*: answers that were compared with what then happens.
    """

    what: str
    seconds: Sequence[float]
    goals: tuple[float | None, float | None]
    runs: float | None = None
    cut: int = 0
    checked: int = 0


def rows(runs: int) -> Rows:
    found: Rows = []
    bare = calibration.once(process_time)
    for each in measured(max(runs, 5)):
        before, bare = bare, calibration.once(process_time)
        times = (ms(median(each.seconds)), ms(max(each.seconds)))
        goals = ["-" if goal is None else f"{goal:g}" for goal in each.goals]
        met = all(goal is None or time <= goal for time, goal in zip(times, each.goals, strict=True))
        found.append(
            {
                "what": each.what,
                "asked": len(each.seconds),
                "median": times[0],
                "slowest": times[1],
                "normalised": times[0] * calibration.NOMINAL_S * 2 / (before + bare),
                "goals": " / ".join(goals),
                "is": verdict(met and not each.cut),
                "runs": "-" if each.runs is None else each.runs,
                "cut": each.cut,
                "checked": each.checked,
            }
        )
    return found


def measured(runs: int, nodes: int = NODES, many: int = WAITING) -> Iterator[Measured]:
    state = world(nodes, many)
    make_ready(state)  # as the mirror does before it forks
    gc.collect()
    gc.freeze()
    try:
        line = [each for each in state.ledger.entries.values() if each.state is GangState.PENDING]
        mix = Random(3)
        asked = [each.gang for each in mix.sample(line, 8 * runs)]
        assert all(found.at_rest for _, found in _asked(state, asked[0], (Who.OWNER,)))
        yield Measured("why: headline, position, all blockers", [_why(state, each) for each in asked], (None, None))
        yield _searches("why, and the owner's dials", state, asked, (Who.OWNER,), (40.0, 100.0))
        yield _searches("all twelve dials", state, asked[: 2 * runs], EVERYBODY, (150.0, 2000.0))
        yield from _trials(state, asked, runs)
        yield _unsettled(state, asked[:runs])
        yield _plans(state, runs)
        yield _dry_runs(state, runs)
    finally:
        gc.unfreeze()


# ---------------------------------------------------------------- the world


def world(nodes: int, many: int) -> State:
    """A settled cluster with one node that is not ready."""
    state = waiting.cluster(nodes)
    down = state.nodes[node_name(nodes - 1)]
    state.apply(PutNode(replace(down, ready=False)), 0)
    for each in waiting.gangs(many):
        _submit(state, each)
    while _starts(state):
        state.take_changes()
    return state


def _submit(state: State, each: Gang) -> None:
    """As the gate would, for a file that all gangs of that shape share."""
    (pod_set,) = each.pod_sets
    requests = tuple(pod_set.requests)
    hash_ = repr((pod_set.count, requests, pod_set.topology))
    if hash_ not in state.specs:
        task = TaskSpec(pod_set.name, "image", ("true",), requests=requests, count=pod_set.count, lead=True)
        state.specs[hash_] = WorkflowSpec("w", (GroupSpec("g", (replace(task, topology=pod_set.topology),)),))
    id = each.id.partition("/")[0]
    workflow = Workflow(id, id, id, 1, each.pool, each.priority, "bench", each.submitted_at, hash_)
    state.apply(Submit(workflow, (Group(id, "g"),)), each.submitted_at)
    state.apply(Queue(each), each.submitted_at)


def _starts(state: State) -> int:
    """How many start in a cycle; nothing stops by itself."""
    starts = 0
    for action in decide(state.ledger):
        if action is not None:
            state.apply(action, NOW)
        starts += isinstance(action, Admit | Nominate)
    return starts


# ---------------------------------------------------------------- in a fork


def in_fork(ask: Callable[[], T], most_s: float | None = MOST_S) -> tuple[float, T] | None:
    """Returns the processor seconds of *ask*, and its result; None if it took more than *most_s*.  Raises RuntimeError if it fails."""
    ours, theirs = Pipe(duplex=False)
    number = os.fork()
    if number == 0:
        try:
            if most_s is not None:
                used = int(process_time())
                resource.setrlimit(resource.RLIMIT_CPU, (used + int(most_s) + 1, used + int(most_s) + 1))
            start = process_time()
            found = ask()
            theirs.send((process_time() - start, found))
        except Exception:  # noqa: BLE001 - told here, since the fork ends
            traceback.print_exc()
        finally:
            os._exit(0)
    theirs.close()
    answer: tuple[float, T] | None = None
    with suppress(EOFError):
        answer = ours.recv()
    ours.close()
    _, status = os.waitpid(number, 0)
    if answer is None and not os.WIFSIGNALED(status):
        raise RuntimeError("a question failed in its fork")
    return answer


# ---------------------------------------------------------------- why, and would start


def _why(state: State, each: Gang) -> float:
    start = process_time()
    (found,) = why(state, each.workflow)
    seconds = process_time() - start
    assert found.verdict is Verdict.WAITS, found
    assert found.blockers, found
    return seconds


def _asked(state: State, each: Gang, who: Sequence[Who]) -> Foresight:
    """The answer for a user who can submit to ten pools."""
    own = int(each.pool[1:]) // 10 * 10
    reach = [f"p{at:04}" for at in range(own, own + 10)]
    return drained(starting_changes(state, each.workflow, reach, who, 1, NOW))


def _searches(
    what: str, state: State, asked: Sequence[Gang], who: Sequence[Who], goals: tuple[float, float]
) -> Measured:
    seconds, runs, cut, checked = [], [], 0, dict[type[Change], bool]()
    for each in asked:
        answer = in_fork(lambda each=each: _asked(state, each, who))  # type: ignore[misc]
        if answer is None:
            cut += 1
            seconds.append(MOST_S)
            continue
        seconds.append(_why(state, each) + answer[0])
        ((_, found),) = answer[1]
        runs.append(sum(tried.run for tried in found.tried))
        for counterfactual in found.answers:
            kind = type(counterfactual.changes[0])
            if kind not in checked:
                checked[kind] = _check(state, each, counterfactual)
    return Measured(what, seconds, goals, median(runs or [0]), cut, len(checked))


def _check(state: State, each: Gang, told: Counterfactual) -> bool:
    """Fails unless the next cycle does what was predicted."""
    answer = in_fork(lambda: _carried_out(state.ledger, each, told.changes), None)
    assert answer is not None
    assert answer[1] == (told.verdict, told.counts), (each, told, answer)
    return True


def _carried_out(ledger: Ledger, each: Gang, changes: Sequence[Change]) -> tuple[Verdict, tuple[int, ...]]:
    """The decision of a cycle about the gang after permanent *changes*."""
    for edit in edits_of(ledger, each, changes):
        match edit:
            case PutPool(pool):
                ledger.put_pool(pool)
            case PutLimits(limits):
                ledger.put_limits(limits)
            case PutCohort(cohort):
                ledger.put_cohort(cohort)
            case PutNode(node):
                ledger.put_node(node)
            case DropCohort() | DropNode():
                raise AssertionError("no change means that")
            case _:
                ledger.apply(edit, NOW)
    return _turn(ledger, each.id)


def _turn(ledger: Ledger, gang: str) -> tuple[Verdict, tuple[int, ...]]:
    for action in cycle(ledger, NOW):
        if isinstance(action, Admit | Nominate) and action.gang == gang:
            counts = tuple(assigned.count for assigned in action.placement)
            return Verdict.STARTS if isinstance(action, Admit) else Verdict.STARTS_AFTER_STOPS, counts
    return Verdict.WAITS, ()


# ---------------------------------------------------------------- trials


def _trials(state: State, asked: Sequence[Gang], runs: int) -> Iterator[Measured]:
    """One candidate change, tried with many gangs ahead: the edit, the cycle up to its end, and undoing both."""
    ledger, key = state.ledger, str(waiting.KEY)
    each = next(each for each in asked if each.priority is Priority.NORMAL)
    cohort = next(name for name, known in ledger.cohorts.items() if known.quotas)
    limit = ledger.cohorts[cohort].quotas[waiting.KEY].borrowing_limit or 0
    nominal = ledger.pools[each.pool].quotas[waiting.KEY].nominal
    changes: dict[str, tuple[Change, float]] = {
        "a trial of a cohort's quota": (MoreNominal(f"cohort {cohort}", key, 0, 8), 5.0),
        "a trial of a cohort's borrowing limit": (MoreBorrowing(f"cohort {cohort}", key, limit, limit + 8), 5.0),
        "a trial of its pool's quota": (MoreNominal(f"pool {each.pool}", key, nominal, nominal + 8), 5.0),
        "a trial of a node that is back": (NodeBack(node_name(len(state.nodes) - 1)), 2.0),
    }
    for what, (change, goal) in changes.items():
        before = list(ledger.tree.root.subtree), len(ledger.pending), len(ledger.placed)
        search = Search(ledger, ledger.entries[each.id], Reach(), NOW)
        seconds = []
        for _ in range(runs):
            start = process_time()
            told = search.try_out((change,), Who.ADMIN)
            seconds.append(process_time() - start)
            assert cycle(ledger, NOW) == []  # a what-if run wakes gangs; they must be asleep again
        assert before == (list(ledger.tree.root.subtree), len(ledger.pending), len(ledger.placed)), "it left a trace"
        yield Measured(what, seconds, (goal, None), checked=int(_check(state, each, told)))


def _unsettled(state: State, asked: Sequence[Gang]) -> Measured:
    """Many were submitted since the last cycle; the headline alone would be enough."""

    def ask(each: Gang) -> tuple[float, float]:
        for at in range(SUBMITTED):
            _submit(state, gang(f"new{at}/g", 1, gpus=1 + at % 8, pool=f"p{at % waiting.POOLS:04}", at=NOW))
        assert not at_rest(state.ledger)
        start = process_time()
        (headline,) = why(state, each.workflow)
        seconds = process_time() - start
        assert headline.verdict is not Verdict.STARTS
        assert _asked(state, each, (Who.OWNER,))
        return seconds, process_time() - start

    seconds, cut = [], 0
    for each in asked:
        answer = in_fork(lambda each=each: ask(each))  # type: ignore[misc]
        cut += answer is None
        seconds.append(MOST_S if answer is None else answer[1][1])
    return Measured(f"the owner's dials, {SUBMITTED:,} submitted since the last cycle", seconds, (150.0, None), cut=cut)


# ---------------------------------------------------------------- plans and dry runs


def _plans(state: State, runs: int) -> Measured:
    """A pool loses half of its quota.  The longer of the two branches counts, because they run in parallel."""
    seconds = []
    pool = state.pools["p0500"]
    less = {waiting.KEY: Quota(pool.quotas[waiting.KEY].nominal // 2)}
    edit = Edit(pools.put_pool(state, replace(pool, quotas=less), create=False).actions)
    for _ in range(runs):
        found = [in_fork(lambda edit=edit: _outcome(state, edit), None) for edit in (Edit(), edit)]  # type: ignore[misc]
        branches = [each for each in found if each is not None]
        seconds.append(max(took for took, _ in branches))
        told = consequences(*(outcome for _, outcome in branches))
        assert told.rests
        row = next(each for each in told.pools if each.pool == pool.name)
        assert (row.before.quota, row.after.quota) == (pool.quotas[waiting.KEY].nominal, less[waiting.KEY].nominal)
    return Measured("a plan of one pool, the longer branch", seconds, (1000.0, None), checked=runs)


def _outcome(state: State, edit: Edit) -> Outcome:
    branch = StateBranch(state, edit, NOW)
    for _ in branch.run():
        pass
    return branch.outcome(nodes=False)


def _dry_runs(state: State, runs: int) -> Measured:
    seconds = []
    for at in range(4 * runs):
        new = gang(f"mine-{at}/g", 1, gpus=1 + at % 4, pool=f"p{37 * at % waiting.POOLS:04}", at=NOW)
        start = process_time()
        (found,) = drained(dry_run(state, [new], NOW))
        seconds.append(process_time() - start)
        if at < 4:
            answer = in_fork(lambda new=new: _queued(state, new), None)  # type: ignore[misc]
            assert answer is not None
            assert found.verdict is answer[1], found
    return Measured("a dry run of a submission", seconds, (30.0, None), checked=4)


def _queued(state: State, new: Gang) -> Verdict:
    state.ledger.apply(Queue(new), NOW)
    return _turn(state.ledger, new.id)[0]
