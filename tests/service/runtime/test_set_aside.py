"""No workflow stops the round for others (law W8): what fails at one is decided again without it.

A fault is put into each action in turn, whatever actions there are: applied to a workflow whose name begins with "bad" it raises,
once or each time.  A history in which these go through everything that can happen is played beside work of others.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from runrig.domain.budgets import Owner
from runrig.domain.errors import FailedAt, RunrigError
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    Declaration,
    MoveTask,
    PutPool,
    Release,
    SetAside,
    SetOwnerAside,
    SetSpent,
)
from runrig.domain.records import Event, RowChange
from runrig.domain.subjects import pool_of, workflow_of
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, TaskKey
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.state import State
from runrig.ports.backend import Launch
from runrig.ports.store import WorkflowQuery
from runrig.service.commands.edits import PoolEdit
from runrig.service.queries.events import in_words
from runrig.service.runtime import desired, transactor
from runrig.service.runtime.reconciler import ASIDE_S
from tests.worlds.service import Desk, desk, do

CLUSTER = """
flavors:
- {name: g, node_labels: {kind: g}}
- {name: b, node_labels: {kind: b}}
pools:
- {name: good, quota: {g: {gpu: 4}}, flavors: [g]}
- {name: bad, quota: {b: {gpu: {nominal: 4, borrowing_limit: 0}}}, flavors: [b]}
"""
GOOD = Node("g0", {"gpu": 4}, labels={"kind": "g"})
BAD = tuple(Node(f"b{at}", {"gpu": 2}, labels={"kind": "b"}) for at in range(3))
KINDS = [kind for kind in get_args(Action) if kind not in (*get_args(Declaration), SetSpent, SetOwnerAside)]
ALWAYS = 10**9


class Broken(Exception):
    """What no part of the server expects."""


@contextmanager
def fault(monkeypatch: pytest.MonkeyPatch, kind: type[Action], times: int) -> Iterator[list[str]]:
    """Yields the workflows at which the action has failed so far."""
    apply, failed = State.apply, list[str]()

    def broken(self: State, action: Action, at: float) -> None:
        workflow = workflow_of(action)
        if isinstance(action, kind) and workflow is not None and workflow.startswith("bad") and len(failed) < times:
            failed.append(workflow)
            raise Broken(f"{kind.__name__} of {workflow}")
        apply(self, action, at)

    with monkeypatch.context() as patch:
        patch.setattr(State, "apply", broken)
        yield failed


GRAPH = """
workflow:
  name: bad-graph
  groups:
  - name: first
    ignoreNonleadStatus: false
    tasks:
    - {name: lead, image: any, command: [ls], lead: true, duration: 1000, exitActions: {RESCHEDULE: "7,3001"}}
    - {name: mate, image: any, command: [ls], duration: 1000, exitActions: {RESCHEDULE: "7,3001"}}
  - name: then
    tasks:
    - {name: after, image: any, command: [ls], duration: 1000, inputs: [{task: lead}]}
  resources: {default: {gpu: 1}}
"""

ARRAY = """
workflow:
  name: bad-array
  groups:
  - name: runs
    array: {indices: 0-3, most: 1}
    tasks: [{name: main, image: any, command: [ls], duration: 1000}]
  resources: {default: {gpu: 1}}
"""


class History:
    """*rounds*: of each good workflow, how it stood after each round.  *failures*: rounds that failed.  *kinds*: of actions."""

    kinds: Set[type[Action]] = frozenset()

    def __init__(self, it: Desk) -> None:
        self.it = it
        self.rounds: dict[str, list[str]] = {}
        self.failures = 0

    def play(self) -> None:
        for act in (*self._steps(), *[self._rests] * 3):
            with suppress(Broken, RunrigError):  # a command fails alone
                act()
            self.it.time[0] += 1
            self._turn()

    def _rests(self) -> None:
        """Only time passes."""

    def _turn(self) -> None:
        """As the loop does: a round that fails is followed by another one."""
        try:
            self.it.service._reconciler.round()
        except (Broken, FailedAt) as error:
            self.failures += 1
            self.it.service._reconciler._failed(error, 0.1)
        for id in self.rounds:
            self.rounds[id].append(self.it.status(id))

    def _steps(self) -> Iterator[Callable[[], object]]:
        it, submissions, low = self.it, self.it.service.submissions, Priority.LOW
        yield self._good
        yield lambda: it.submit("bad-low", "bad", low, gpus=2, duration=1000)
        yield lambda: it.submit("bad-wide", "bad", low, gpus=2, duration=1000)
        yield self._good
        yield lambda: it.submit("bad-graph", "bad", text=GRAPH)  # preempts one of them
        yield self._loses_the_node_of_the_nominated
        yield lambda: it.backend.show(GOOD, *BAD)
        yield self._good
        yield lambda: do(it.service, submissions.holding("bad-wide-1", user="ann"))
        yield lambda: it.submit("bad-later", "bad", low, gpus=2)
        yield lambda: do(it.service, submissions.holding("bad-later-1", user="ann"))
        yield lambda: do(it.service, submissions.releasing("bad-later-1", user="ann"))
        yield lambda: do(
            it.service, submissions.reassigning("bad-later-1", user="ann", pool=None, priority=Priority.NORMAL)
        )
        yield self._good
        yield lambda: self._shows({TaskKey("bad-graph-1", "lead", 0): TaskFact(Phase.ENDED, 7)})
        yield lambda: self._shows({})
        yield self._good
        yield self._loses_the_node_of_the_graph
        yield lambda: it.backend.show(GOOD, *BAD)
        yield self._refuses
        yield self._good
        yield lambda: self._shows({})
        yield lambda: self._later(400)
        yield self._good
        yield lambda: it.submit("bad-array", "bad", text=ARRAY)
        yield lambda: do(it.service, submissions.setting_most("bad-array-1", 2, user="ann"))
        yield self._good
        for name in ("low", "wide", "graph", "later"):
            yield partial(do, it.service, submissions.cancelling(f"bad-{name}-1", user="ann"))
        yield self._good
        yield lambda: do(it.service, submissions.reassigning("bad-array-1", user="ann", pool=None, priority=low))
        yield lambda: do(it.service, submissions.cancelling("bad-array-1", user="ann"))
        yield self._good

    def _loses_the_node_of_the_nominated(self) -> None:
        with self.it.service._transactor.reading() as state:
            places = [each.placement for each in state.ledger.nominated.values()]
        self._loses({share.node for place in places for each in place for share in each.shares})

    def _loses_the_node_of_the_graph(self) -> None:
        with self.it.service._transactor.reading() as state:
            self._loses({each.node for each in state.rows().tasks if each.workflow == "bad-graph-1"})

    def _loses(self, names: Collection[str | None]) -> None:
        self.it.backend.show(GOOD, *(node for node in BAD if node.name not in names))

    def _good(self) -> None:
        id = self.it.submit("good", "good", duration=3)
        self.rounds[id] = []

    def _shows(self, facts: dict[TaskKey, TaskFact]) -> None:
        self.it.backend.facts, self.it.backend.refused = facts, {}

    def _refuses(self) -> None:
        with self.it.service._transactor.reading() as state:
            held = sorted(state.ledger.entries)
        self.it.backend.refused = {id: "no node is good enough" for id in held if id.startswith("bad")}

    def _later(self, seconds: float) -> None:
        self.it.time[0] += seconds


@contextmanager
def world(folder: Path) -> Iterator[Desk]:
    with desk(folder, nodes=(GOOD, *BAD), cluster=CLUSTER) as it:
        yield it


@pytest.fixture(scope="module")
def without_faults(tmp_path_factory: pytest.TempPathFactory) -> History:
    with world(tmp_path_factory.mktemp("reference")) as it:
        history = History(it)
        history.play()
        history.kinds = {type(action) for action in it.actions() if (workflow_of(action) or "").startswith("bad")}
        return history


def late(history: History, reference: History) -> list[str]:
    """The good workflows that came further by one round or more later than without faults."""
    return [
        id
        for id, stood in history.rounds.items()
        for status in ("RUNNING", "COMPLETED")
        if _first(stood, status) > _first(reference.rounds[id], status) + 1
    ]


def _first(stood: list[str], status: str) -> int:
    """The round after which a workflow had come as far as *status*."""
    return next((at for at, each in enumerate(stood) if each in (status, "COMPLETED")), len(stood))


def test_history_has_every_kind_of_workflow_event(without_faults: History) -> None:
    """So a new action has to be put into it, and is covered then.  Two of them happen only where something fails."""
    assert without_faults.kinds == {*KINDS} - {SetAside, Abandon}
    assert without_faults.failures == 0
    assert {stood[-1] for stood in without_faults.rounds.values()} == {"COMPLETED"}


@pytest.mark.parametrize(
    "times", [pytest.param(1, marks=pytest.mark.slow, id="once"), pytest.param(ALWAYS, id="always")]
)
@pytest.mark.parametrize("kind", [each for each in KINDS if each not in (SetAside, Abandon)])
def test_action_that_fails_for_one_workflow_does_not_delay_others(
    kind: type[Action], times: int, without_faults: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W8.  The round itself goes on; whoever is set aside can be cancelled, though the fault is there still."""
    with world(tmp_path) as it, fault(monkeypatch, kind, times) as failed:
        history = History(it)
        history.play()
        aside = {action.workflow for action in it.actions() if isinstance(action, SetAside)}
        assert failed
        assert aside <= {*failed}
        assert (history.failures, late(history, without_faults)) == (0, [])
        if (kind, times) == (Release, ALWAYS):
            return  # the GPUs in use cannot be freed then, not even by a cancel
        with it.service._transactor.reading() as state:
            assert not state.aside
            assert not [id for id in state.ledger.entries if id.partition("/")[0] in aside]
        assert not aside & {key.workflow for key in (*it.backend.desired.run, *it.backend.desired.stop)}


@pytest.mark.parametrize("kind", [SetAside, Abandon])
def test_failed_attempt_to_set_a_workflow_aside_is_repeated_in_the_next_round(
    kind: type[Action], without_faults: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as it, fault(monkeypatch, MoveTask, ALWAYS), fault(monkeypatch, kind, 1) as failed:
        history = History(it)
        history.play()
        assert len(failed) == 1
        assert history.failures == (kind is SetAside)
        assert late(history, without_faults) == []


@pytest.mark.parametrize("at", ["decision", "commit"])
def test_pause_and_budget_that_fail_are_set_aside_and_tried_again(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """W8. Both belong to the pool, which stays as it is; work of others starts in the same round."""
    with world(tmp_path) as it, monkeypatch.context() as patch:
        history = History(it)
        history._good()
        history._turn()
        it.service.declarations.pause_pool("bad", user="ann", reason="", until="60s")
        it.service.declarations.update_pool("bad", PoolEdit(settings={"budget": 5}), user="ann")
        apply, commit = State.apply, it.store.commit

        def broken(self: State, action: Action, time: float) -> None:
            if isinstance(action, SetSpent | PutPool) and pool_of(action) == "bad":
                raise Broken
            apply(self, action, time)

        def not_stored(revision: int, events: Sequence[Event], *more: object) -> None:
            if any(isinstance(each.action, SetSpent | PutPool) for each in events):
                raise Broken
            commit(revision, events, *more)  # type: ignore[arg-type] # whatever else there is

        if at == "decision":
            patch.setattr(State, "apply", broken)
        else:
            patch.setattr(it.store, "commit", not_stored)
        it.time[0] += 90
        history._good()
        history._turn()
        assert (history.failures, history.rounds["good-2"]) == (0, history.rounds["good-1"][:1])
        with it.service._transactor.reading() as state:
            assert state.ledger.entries["good-2/main-group"].held
        waits = it.submit("waits", "bad")
        history._turn()
        assert [each for each in it.actions() if isinstance(each, SetOwnerAside)] == [
            SetOwnerAside(Owner.POOL, "bad", "Broken")
        ]
        assert it.service.workflow_queries.why(waits).sentence.startswith(
            "waits-1 is waiting: the pause or budget of pool bad was set aside after an internal error and stays as it is"
        )
        assert it.service._reconciler.sleep_s() > 1
        assert [each for each in caplog.messages if each.startswith("event=set_aside pool=bad error=")]
        assert b"runrig_budgets_set_aside 1.0\n" in it.service.metrics.text()
        assert it.service.not_ready is None
        patch.undo()
        history._turn()
        with it.service._transactor.reading() as state:
            assert [*state.ledger.pause_ends, *state.budgets.spent] == ["bad"]
        it.time[0] += ASIDE_S
        history._turn()
        with it.service._transactor.reading() as state:
            assert ([*state.ledger.pause_ends], [*state.budgets.spent]) == ([], [(Owner.POOL, "bad")])
        assert b"runrig_budgets_set_aside 0.0\n" in it.service.metrics.text()


# ---------------------------------------------------------------- a workflow that was set aside


def set_aside(it: Desk) -> str:
    """bad-1 runs on one GPU, and what the backend shows of it is nothing that anybody understands."""
    id = it.submit("bad", "bad", duration=1000)
    it.later(0)
    it.backend.facts = {TaskKey(id, "main", 0): TaskFact(Phase.ENDED, [])}  # type: ignore[arg-type] # that is it
    it.later(1)
    return id


def test_workflow_set_aside_is_reported_everywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In `why`, in the list, in the events, as a metric and in the log; it goes on running meanwhile."""
    with world(tmp_path) as it:
        before = it.revision
        id = set_aside(it)
        said = (
            "set aside at 2027-01-15 08:00:02 UTC after an internal error; "
            f"retry it with `runrig workflow release {id}`, or end it with `runrig workflow cancel {id}`"
        )
        assert it.service.workflow_queries.why(id).sentence == f"{id} is waiting: {said}."
        (listed,), _ = it.service.workflow_queries.workflows(WorkflowQuery(limit=1))
        (with_headline,) = it.service.workflow_queries.with_headlines([listed])
        assert with_headline.why is not None
        assert with_headline.why.headline == "set aside: internal error"
        (event,) = [each for each in it.store.log.events(after=before) if isinstance(each.action, SetAside)]
        assert (in_words(event.action), event.law, event.actor) == (
            f"{id} set aside after an internal error (TypeError); all other workflows continue (Set aside, rule W8)",
            "W8",
            "engine",
        )
        assert b"runrig_workflows_set_aside 1\n" in it.service.metrics.text()
        assert [each for each in caplog.messages if each.startswith(f"event=set_aside workflow={id} ")]
        assert it.service.standstill is None
        assert it.status(id) == "RUNNING"
        assert [*it.backend.desired.run] == [TaskKey(id, "main", 0)]


def test_workflow_set_aside_stays_set_aside_after_a_restart_and_keeps_running(tmp_path: Path) -> None:
    with world(tmp_path) as it:
        id, now = set_aside(it), it.time[0]
    with desk(tmp_path, nodes=(GOOD, *BAD), cluster=None, time=now) as it:
        it.backend.facts = {TaskKey(id, "main", 0): TaskFact(Phase.ENDED, 0)}
        it.later(1)
        assert it.status(id) == "RUNNING"
        assert [*it.backend.desired.run] == [TaskKey(id, "main", 0)]
        do(it.service, it.service.submissions.releasing(id, user="ann"))
        it.later(1)
        assert it.status(id) == "COMPLETED"


def test_workflow_set_aside_is_cancelled_immediately_and_releases_its_nodes(tmp_path: Path) -> None:
    with world(tmp_path) as it:
        id = set_aside(it)
        do(it.service, it.service.submissions.cancelling(id, user="ann"))
        it.later(0)
        assert it.store.head(id).status.value == "FAILED_CANCELED"
        assert it.store.head(id).cancelled_by == "ann"
        assert (dict(it.backend.desired.run), dict(it.backend.desired.stop)) == ({}, {})
        full = it.submit("bad", "bad", gpus=2), it.submit("bad", "bad", gpus=2)
        it.backend.facts = {}
        it.later(0)
        assert [it.status(each) for each in full] == ["RUNNING", "RUNNING"]


def test_workflow_that_fails_again_is_set_aside_again(tmp_path: Path) -> None:
    with world(tmp_path) as it:
        id = set_aside(it)
        do(it.service, it.service.submissions.releasing(id, user="ann"))
        it.later(1)
        assert [action.workflow for action in it.actions() if isinstance(action, SetAside)] == [id, id]


# ---------------------------------------------------------------- other failures of a round


def test_launch_that_cannot_be_described_sets_its_workflow_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = desired._launch

    def broken(state: State, entry: Entry, task: Task, hosts: Mapping[str, str]) -> Launch:
        if task.workflow.startswith("bad"):
            raise Broken(task.workflow)
        return launch(state, entry, task, hosts)

    monkeypatch.setattr(desired, "_launch", broken)
    with world(tmp_path) as it:
        bad, good = it.submit("bad", "bad"), it.submit("good", "good")
        it.later(0)
        assert it.status(good) == "RUNNING"
        assert it.service.workflow_queries.why(bad).sentence.startswith(f"{bad} is waiting: set aside")


def test_rows_that_cannot_be_stored_set_their_workflow_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit has the rows of both; in commits of their own it shows whose fault it is."""
    with world(tmp_path) as it:
        commit = it.store.commit
        bad, good = it.submit("bad", "bad"), it.submit("good", "good")

        def broken(revision: int, events: Sequence[Event], changes: Sequence[RowChange], *more: object) -> None:
            for change in changes:
                if isinstance(change.record, Task) and change.key[0] == bad and change.record.status is Status.RUNNING:
                    raise Broken(bad)
            commit(revision, events, changes, *more)  # type: ignore[arg-type] # whatever else there is

        monkeypatch.setattr(it.store, "commit", broken)
        it.later(0)
        assert it.status(good) == "RUNNING"
        assert it.service.workflow_queries.why(bad).sentence.startswith(f"{bad} is waiting: set aside")
        assert it.service.not_ready is None


def test_listener_that_raises_does_not_affect_other_listeners(tmp_path: Path) -> None:
    def broken(_: WorkflowStatus | None) -> None:
        raise Broken("a listener")

    told: list[WorkflowStatus | None] = []
    with world(tmp_path) as it:
        id = it.submit("good", "good")
        with it.service.listening(broken), it.service.listening(told.append, id):
            it.later(0)
        assert WorkflowStatus.RUNNING in told


def test_many_failures_at_the_same_time_set_no_workflow_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round fails then, as when the server has no disk, and says so."""
    monkeypatch.setattr(transactor, "MOST_ASIDE", 1)
    with world(tmp_path) as it, fault(monkeypatch, Admit, ALWAYS):
        it.submit("bad", "bad")
        it.submit("bad-too", "bad")
        with pytest.raises(FailedAt, match="at workflow bad-too-1: Broken: Admit of bad-too-1"):
            it.later(0)
