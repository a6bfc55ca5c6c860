"""Everything that can be done to subpools, in any order, on a real store, with servers that die at any point.

After each step the log is witnessed, memory and store are compared, and what was said yes or no to is what the rules of
subpools.md say, which stand here once more in a few lines (`Rules`).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import event, make_url

from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused, ServerFault, Unavailable
from runrig.domain.gangs import GangState, Priority
from runrig.domain.pools import Pool, PoolState
from runrig.domain.workflow_status import WorkflowStatus
from runrig.engine.state.state import State
from runrig.ports.store import WorkflowQuery
from runrig.store import SqlStore
from tests import postgres
from tests.properties.machine import check_guarantees
from tests.properties.subpools.restartable_server import HandClock, PowerCut, RestartableServer
from tests.properties.subpools.witness import Witness, families, gpus, least
from tests.stores import store_url
from tests.worlds.edits import share as share_of

TOPS = ("team", "sim")
SHORTS = ("a", "b")
NAMES = (*TOPS, *(f"{top}--{short}" for top in TOPS for short in SHORTS))
NO = (Refused, Conflict, NotFound, InvalidInput)
EDITS = ("create", "create", "create a part", "resize", "delete", "resize parent")
WHATS = (*EDITS, "submit", "cancel", "round")

amounts = st.sampled_from((1, 1, 2, 2, 3, 4, 5))
priorities = st.sampled_from((Priority.HIGH, Priority.NORMAL, Priority.LOW, Priority.LOW))
tops, shorts, names = st.sampled_from(TOPS), st.sampled_from(SHORTS), st.sampled_from(NAMES)


class Work(NamedTuple):
    """*at*: the how many-th pool, around; as `server.file` for the rest."""

    at: int
    priority: Priority
    gpus: int = 1
    pods: int | None = None
    minimum: int | None = None
    then: int | None = None


works = st.builds(
    Work,
    st.integers(0, 5),
    priorities,
    amounts,
    st.sampled_from((None, None, None, 2, 3)),
    st.sampled_from((None, 1)),
    st.sampled_from((None, None, None, 1, 2)),
)


class Edit(NamedTuple):
    """*share*: of a subpool; *quota*: of a parent, and what a percentage is made of."""

    what: str
    parent: str
    short: str
    share: int
    quota: int


shares = st.sampled_from((0, 1, 1, 2, 2, 3, 4, 5))
edits = st.builds(Edit, st.sampled_from(EDITS), tops, shorts, shares, st.integers(1, 10))


def power_cut(_: object) -> None:
    raise PowerCut


def disk_full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


@contextmanager
def failing(store: SqlStore, fault: BaseException, *, after: int) -> Iterator[None]:
    """The next transaction that writes meets *fault* before its statement number *after*, or before its commit if it has fewer."""
    engine, left = store.transactions.database.writer, [after]

    def before_statement(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise fault

    def before_commit(*_: object) -> None:
        raise fault

    event.listen(engine, "before_cursor_execute", before_statement)
    event.listen(engine, "commit", before_commit)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", before_statement)
        event.remove(engine, "commit", before_commit)


class Rules:
    """The permissions of each user, from the rows alone."""

    def __init__(self, server: RestartableServer) -> None:
        rows = server.rows()
        self.pools = {pool.name: pool for pool in rows.pools}
        self.families = dict(families(rows.pools))
        self.nodes = [node.resources["gpu"] for node in rows.nodes]

    def is_active(self, name: str) -> bool:
        return name in self.pools and self.pools[name].state is PoolState.ACTIVE

    def _is_open_parent(self, name: str) -> bool:
        return self.is_active(name) and self.pools[name].parent is None

    def left(self, parent: str, without: str = "") -> int:
        """What *parent* has and no subpool of it holds, but for *without*."""
        return gpus(self.pools[parent]) - sum(gpus(each) for each in self.families[parent] if each.name != without)

    def may_create(self, parent: str, short: str, share: int) -> bool:
        there: Pool | None = self.pools.get(f"{parent}--{short}")
        free = there is None or there.state is PoolState.ARCHIVED
        return self._is_open_parent(parent) and free and 0 <= share <= self.left(parent)

    def may_resize(self, parent: str, short: str, share: int) -> bool:
        name = f"{parent}--{short}"
        return self.is_active(name) and self._is_open_parent(parent) and 0 <= share <= self.left(parent, without=name)

    def may_resize_parent(self, name: str, quota: int) -> bool:
        return self._is_open_parent(name) and quota >= sum(map(gpus, self.families[name]))

    def may_delete(self, name: str) -> bool:
        return self.is_active(name) and not self.families.get(name)

    def may_submit(self, name: str, priority: Priority, pods: list[tuple[int, int]]) -> bool:
        """*pods*: of each group the fewest that would do, and the GPUs of each."""
        if not self.is_active(name):
            return False
        subpool = self.pools[name].parent is not None
        promise = gpus(self.pools[name]) if subpool else self.left(name)
        for count, each in pods:
            if not priority.may_borrow and count * each > promise:
                return False
            if sum(node // each for node in self.nodes) < count:
                return False
        return True


class Subpools(RuleBasedStateMachine):
    """*kind*: of the store, given by a subclass."""

    kind = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._house: RestartableServer | None = None
        self.pools_seen: set[str] = set()

    @initialize(
        nodes=st.lists(st.sampled_from((2, 4, 4, 8)), min_size=1, max_size=3),
        team=st.sampled_from((4, 6, 8)),
        sim=st.sampled_from((2, 4)),
        shares=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    )
    def begin(self, nodes: list[int], team: int, sim: int, shares: list[int]) -> None:
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="runrig-subpools-")))
        url = self._stack.enter_context(store_url(self.kind, folder))
        self._house = RestartableServer(url, {f"n{at}": gpus for at, gpus in enumerate(nodes)})
        self._stack.callback(lambda: self.server.store.close())
        self.witness = Witness(self.server.store)
        self.server.pool("team", team)
        self.server.pool("sim", sim)
        for short, share in zip(SHORTS, shares, strict=False):
            self._edit(Edit("create", "team", short, share, 0))

    def teardown(self) -> None:
        try:
            if self._house is not None:
                self._drain()
        finally:
            self._stack.close()

    @property
    def server(self) -> RestartableServer:
        assert self._house is not None, "it begins with `begin`"
        return self._house

    # ------------------------------------------------------------ commands

    def attempt(self, allowed: bool, command: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Does it.  What is refused leaves no trace, neither in memory nor in any table."""
        before = None if allowed else (self.server.rows(), self.server.contents())
        try:
            command(*args, **options)
        except NO as error:
            said = error.message
        else:
            assert allowed, f"{args} is against the rules, and was done"
            return
        assert not allowed, f"{args} was refused, and no rule says so: {said}"
        assert len(said) > 10
        assert (self.server.rows(), self.server.contents()) == before, "a refusal left a trace"

    @rule(edits=st.lists(edits, min_size=1, max_size=4))
    def edit(self, edits: list[Edit]) -> None:
        for each in edits:
            self._edit(each)

    def _edit(self, edit: Edit) -> None:
        what, parent, short, share, quota = edit
        rules, subpools = Rules(self.server), self.server.service.subpools
        match what:
            case "create":
                self.attempt(rules.may_create(parent, short, share), subpools.create, parent, short, share, user="ann")
            case "create a part":
                share = gpus(rules.pools[parent]) * quota * 9 // 100
                allowed = rules.may_create(parent, short, share) and (share > 0 or quota == 0)
                self.attempt(allowed, subpools.create, parent, short, share_of(f"{quota * 9}%"), user="ann")
            case "resize":
                self.attempt(rules.may_resize(parent, short, share), subpools.resize, parent, short, share, user="ann")
            case "delete":
                self._delete(parent, short)
            case "resize parent":
                self.attempt(rules.may_resize_parent(parent, quota), self.server.resize, parent, quota)

    def _delete(self, parent: str, short: str) -> None:
        """ARCHIVED at once if nothing of it has started, else DELETING."""
        name = f"{parent}--{short}"
        allowed, busy = Rules(self.server).may_delete(name), self._has_started_work(name)
        self.attempt(allowed, self.server.service.subpools.delete, parent, short, user="ann")
        if allowed:
            assert self.server.state_of(name) == ("DELETING" if busy else "ARCHIVED")

    def _has_started_work(self, name: str) -> bool:
        rows = self.server.rows()
        here = {each.id for each in rows.workflows if each.pool == name and not each.status.finished}
        return any(task.workflow in here for task in rows.tasks if task.node is not None or task.end_time is not None)

    @rule(
        parent=names,
        short=st.sampled_from(("a", "", "x--y", "_x", "X", "а", "x" * 300, "' OR 1=1", "<b>")),
        share=st.sampled_from((-1, 0, 1.5, 11, 2**63, "101%", "h100=1", None)),
    )
    def nonsense(self, parent: str, short: str, share: object) -> None:
        """The Cyrillic a looks like the Latin one.  A subpool may have a quota of 0."""
        subpools = self.server.service.subpools

        def create(parent: str, short: str, share: object) -> None:
            subpools.create(parent, short, share_of(share), user="ann")

        def resize(parent: str, short: str, share: object) -> None:
            subpools.resize(parent, short, share_of(share), user="ann")

        empty = share == 0 and short == "a" and Rules(self.server).may_create(parent, short, 0)
        self.attempt(empty, create, parent, short, share)
        if short != "a":
            self.attempt(False, create, parent, short, 1)
        to_nothing = share == 0 and Rules(self.server).may_resize(parent, "b", 0)
        self.attempt(to_nothing, resize, parent, "b", share)
        self.attempt(False, self.server.submit, f"{parent}--none")

    # ------------------------------------------------------------ work

    @rule(works=st.lists(works, min_size=1, max_size=4), rest=st.booleans())
    def submit(self, works: list[Work], rest: bool) -> None:
        for work in works:
            self._submit(work)
        if rest:
            self._rest()

    def _submit(self, work: Work) -> None:
        there = sorted(pool.name for pool in self.server.rows().pools)
        name = there[work.at % len(there)]
        fewest = 1 if work.pods is None else work.minimum or work.pods
        pods = [(fewest, work.gpus)] + ([] if work.then is None else [(1, work.then)])
        allowed = Rules(self.server).may_submit(name, work.priority, pods)
        more = {"count": work.pods, "minimum": work.minimum if work.pods else None, "then": work.then}
        self.attempt(allowed, self.server.submit, name, work.priority, work.gpus, **more)

    @rule(at=st.integers(0, 5), low=st.lists(st.integers(1, 2), max_size=5), firm=st.lists(amounts, max_size=4))
    def borrow_and_take_back(self, at: int, low: list[int], firm: list[int]) -> None:
        """LOW of one pool fills what is there, then HIGH of each pool asks for its own."""
        for each in low:
            self._submit(Work(at, Priority.LOW, each))
        self._rest()
        for offset, each in enumerate(firm):
            self._submit(Work(at + 1 + offset, Priority.HIGH, each))
        self._rest()

    @rule(edits=st.lists(edits, min_size=1, max_size=3), firm=st.lists(amounts, min_size=1, max_size=4), later=works)
    def edit_while_it_works(self, edits: list[Edit], firm: list[int], later: Work) -> None:
        """The parent works where a subpool is cut out of it, the subpool where that one is changed.  *later*: has not started by then."""
        for edit in edits:
            name = edit.parent if edit.what.startswith("create") else f"{edit.parent}--{edit.short}"
            there = sorted(pool.name for pool in self.server.rows().pools)
            if name in there:
                for each in firm:
                    self._submit(Work(there.index(name), Priority.NORMAL, each))
                self._rest()
                self._submit(later._replace(at=there.index(name)))
            self._edit(edit)

    @precondition(lambda self: self.server.rows().workflows)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from([each.id for each in self.server.rows().workflows]))
        stored = self.server.store.workflow(id).workflow
        self.attempt(not stored.status.finished, self.server.cancel, id)

    @precondition(lambda self: self.server.cluster.running)
    @rule(data=st.data(), code=st.sampled_from((0, 0, 0, 1)), most=st.integers(1, 4))
    def end_tasks(self, data: st.DataObject, code: int, most: int) -> None:
        for key in data.draw(st.permutations(sorted(self.server.cluster.running)))[:most]:
            self.server.cluster.end(key, code)
        self._round()

    @rule(seconds=st.sampled_from((1, 1, 1000)), rest=st.booleans())
    def time_passes(self, seconds: int, rest: bool) -> None:
        """After 1000 seconds a sweep is due."""
        self.pass_by(seconds)
        if rest:
            self._rest()
        else:
            self._round()

    def pass_by(self, seconds: float) -> None:
        assert isinstance(self.server.clock, HandClock)
        self.server.clock.time += seconds

    def _round(self) -> None:
        self.pass_by(1)
        self.server.service._reconciler.round()

    def _rest(self) -> None:
        """Work that does not end comes to rest (law R5), and no firm gang waits for LOW of its own pool (law R1)."""
        for _ in range(4 * len(self.server.rows().gangs) + 8):
            self.pass_by(1)
            if not self.server.service._reconciler.round():
                check_guarantees(State.load(self.server.rows()))
                return
        raise AssertionError("it never comes to rest")

    # ------------------------------------------------------------ dying

    @rule(how=st.sampled_from(("idle", "before", "half")))
    def die(self, how: str) -> None:
        """With nothing to do; or when the cluster is told, of which nothing or half arrives: nothing runs twice then."""
        self.server.cluster.cuts = None if how == "idle" else how
        with suppress(PowerCut):
            self._round()
        self._restart()

    @rule(statement=st.integers(0, 6), what=st.sampled_from(WHATS), data=st.data(), lives=st.booleans())
    def fail_while_storing(self, statement: int, what: str, data: st.DataObject, lives: bool) -> None:
        """The disk is full, and the server *lives* on; or it dies.  Of the command nothing is there afterwards."""
        contents = self.server.contents()
        fault = disk_full() if lives else PowerCut()
        with failing(self.server.store, fault, after=statement), suppress(PowerCut, ServerFault, *NO):
            self._some_command(what, data)
        assert self.server.contents() == contents, f"half of {what} is stored"
        if not lives:
            self._restart()

    @rule(what=st.sampled_from(WHATS), data=st.data())
    def die_before_answering(self, what: str, data: st.DataObject) -> None:
        """Stored, and nobody was told: it is there whole (law W2)."""
        revision, died = self.server.rows().revision, False
        with self.server.service.listening(power_cut), suppress(*NO):
            try:
                self._some_command(what, data)
            except PowerCut:
                died = True
        if died:
            self._restart()
            assert self.server.rows().revision > revision

    @precondition(lambda self: self.kind == "postgresql")
    @rule(what=st.sampled_from(WHATS), data=st.data())
    def lose_all_connections(self, what: str, data: st.DataObject) -> None:
        """PostgreSQL drops them, that of the owner too: who comes next is told so or gets through, and the server lives on."""
        database = make_url(self.server.url).database
        postgres.server().sql(
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'"
        )
        with suppress(Unavailable, *NO):
            self._some_command(what, data)
        with suppress(Unavailable):
            self.server.store.load()

    def _restart(self) -> None:
        self.server.restart()
        self.witness.store = self.server.store

    def _some_command(self, what: str, data: st.DataObject) -> None:
        subpools, parent, short = self.server.service.subpools, data.draw(tops), data.draw(shorts)
        match what:
            case "create":
                subpools.create(parent, short, data.draw(amounts), user="ann")
            case "create a part":
                subpools.create(parent, short, share_of("34%"), user="ann")
            case "resize":
                subpools.resize(parent, short, data.draw(amounts), user="ann")
            case "delete":
                subpools.delete(parent, short, user="ann")
            case "resize parent":
                self.server.resize(parent, data.draw(st.integers(1, 10)))
            case "submit":
                self.server.submit(data.draw(names), data.draw(priorities), data.draw(amounts))
            case "cancel" if live := [each.id for each in self.server.rows().workflows]:
                self.server.cancel(data.draw(st.sampled_from(live)))
            case "round":
                self.server.service._reconciler.round()

    # ------------------------------------------------------------ invariants

    @invariant()
    def holds(self) -> None:
        if self.server is None:
            return
        self.witness.follow()
        stored = self.witness.state.rows()
        assert replace(self.server.rows(), specs={}) == replace(stored, specs={}), "memory is not what is stored"
        there = {pool.name for pool in stored.pools}
        assert self.pools_seen <= there, f"{self.pools_seen - there} was deleted for good"
        self.pools_seen = there
        self._check_table()

    def _check_table(self) -> None:
        """What `pool list` shows is what the rows say."""
        rules = Rules(self.server)
        for view in self.server.service.queries.pools():
            pool, balance = view.pool, view.now.gpus
            deleting = pool.state is PoolState.DELETING
            quota = 0 if deleting else gpus(pool)
            unallocated = quota if pool.parent else rules.left(pool.name)
            shown = (balance.quota, balance.unallocated, balance.available, balance.held)
            assert shown == (quota, unallocated, unallocated - balance.used, gpus(pool) if deleting else 0)

    def _drain(self) -> None:
        """Everything ends: then nothing is DELETING, nothing is held, and nothing that was accepted is lost."""
        for _ in range(3 * len(self.server.rows().groups) + 6):
            for key in sorted(self.server.cluster.running):
                self.server.cluster.end(key)
            self.pass_by(1)
            self.server.settle()
            if not self.server.rows().workflows:
                break
        self.holds()
        self._cancel_what_can_never_go_on()
        rows = self.server.rows()
        assert not any(gang.state in (GangState.ADMITTED, GangState.STOPPING) for gang in rows.gangs)
        assert not any(pool.state is PoolState.DELETING for pool in rows.pools)
        page, more = self.server.store.workflows(WorkflowQuery(limit=1000))
        assert not more
        ended = {each.id for each in page if each.status.finished}
        assert {each.id for each in rows.workflows} == {each.id for each in page} - ended
        waiting = [each for each in rows.workflows if each.status is WorkflowStatus.PENDING]
        for each in waiting:
            pool = next(pool for pool in rows.pools if pool.name == each.pool)
            assert pool.state is PoolState.ACTIVE, f"{each.id} waits for ever in {pool.name}"

    def _cancel_what_can_never_go_on(self) -> None:
        """A share was cut below what a later group of started work asks, and then deleted: only a person can end that."""
        rows = self.server.rows()
        draining = {pool.name: pool for pool in rows.pools if pool.state is PoolState.DELETING}
        for workflow in rows.workflows:
            if workflow.pool in draining:
                asked = [least(row.gang) for row in rows.gangs if row.gang.id.startswith(f"{workflow.id}/")]
                assert not workflow.priority.may_borrow, f"{workflow.id} may borrow, and never went on"
                assert max(asked, default=0) > gpus(draining[workflow.pool]), f"{workflow.id} fits, and never went on"
                self.server.cancel(workflow.id)
        self.server.settle()
