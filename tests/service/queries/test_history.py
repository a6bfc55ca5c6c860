"""The audit trail of pools: who, when, before and after; and a pool as it stood (law S6)."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from runrig.domain.errors import InvalidInput, NotFound, RunrigError
from runrig.domain.plan import PutPool
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState, Queueing, Quota, TopologyKey, exit_actions
from runrig.domain.quantities import FlavorResource
from runrig.domain.records import Event
from runrig.domain.settings import PARTS
from runrig.domain.shown.history import PoolChange, PoolFieldEdit
from runrig.domain.value import at as moment
from runrig.ports.store import ChangesQuery
from runrig.service.commands.edits import CohortEdit, PoolEdit
from runrig.service.queries.history import change_of
from runrig.store import SqlStore, schema
from runrig.wire.json import to_plain
from tests.store import make_dump
from tests.store.strategies import values_of
from tests.worlds.edits import amounts
from tests.worlds.service import T0, Desk, desk
from tests.worlds.sql import plans, statements, traced

GPU = FlavorResource("default", "gpu")
EMPTY = "pools: []"
TEAM = "pools: [{name: team, quota: 4, subpools: [{name: a, quota: 2}, {name: b, quota: 1}]}]"


def trail(it: Desk, name: str, **query: Any) -> tuple[PoolChange, ...]:
    """Oldest first."""
    return it.service.history.changes(name, **query)[0][::-1]


def short(it: Desk, name: str, **query: Any) -> list[tuple[str, str, str, str]]:
    return [(each.pool, each.by, each.via, ", ".join(each.what)) for each in trail(it, name, **query)]


def nominal(before: int | None, after: int | None) -> PoolFieldEdit:
    return PoolFieldEdit("nominal", str(GPU), before, after)


def pool_edit(name: str, **fields: Any) -> PoolEdit:
    if SUBPOOL_DELIMITER in name:
        return PoolEdit(share=fields.pop("quota", None), settings=fields)
    said = {name: fields.pop(name) for name in PARTS.values() if name in fields}
    return PoolEdit(amounts(**said), settings=fields)


def edit(it: Desk, name: str, user: str = "ann", *, create: bool = False, **fields: Any) -> float:
    """A second later; the time of the change."""
    it.time[0] += 1
    change = it.service.declarations.create_pool if create else it.service.declarations.update_pool
    change(name, pool_edit(name, **fields), user=user)
    return it.time[0]


def apply(it: Desk, text: str, user: str = "ann", *, prune: bool = False) -> None:
    it.time[0] += 1
    it.service.declarations.apply(text, user=user, prune=prune, force=True)


# ---------------------------------------------------------------- users, times and changes


def test_history_has_every_edit_with_author_time_and_both_values(tmp_path: Path) -> None:
    """Law S6."""
    with desk(tmp_path, cluster=EMPTY) as it:
        made = edit(it, "team", create=True, quota=3, description="ours")
        grown = edit(it, "team", "bob", quota=4)
        it.service.declarations.create_cohort("org", CohortEdit(), user="bob")
        edit(it, "team", "bob", cohort="org", borrowing_limit=2)
        edit(it, "team", "eve", weight=2, queueing=Queueing.STRICT_FIFO, cohort=None)
        found = trail(it, "team")
    assert [(each.by, each.what) for each in found] == [
        ("ann", ("created",)),
        ("bob", ("resized",)),
        ("bob", ("moved", "changed")),
        ("eve", ("moved", "changed")),
    ]
    assert [each.time for each in found[:2]] == [moment(made), moment(grown)] == [moment(T0 + 1), moment(T0 + 2)]
    assert [each.changes for each in found] == [
        (nominal(None, 3), PoolFieldEdit("description", None, None, "ours")),
        (nominal(3, 4),),
        (PoolFieldEdit("borrowing_limit", str(GPU), None, 2), PoolFieldEdit("cohort", None, None, "org")),
        (
            PoolFieldEdit("cohort", None, "org", None),
            PoolFieldEdit("queueing", None, Queueing.BEST_EFFORT_FIFO, Queueing.STRICT_FIFO),
            PoolFieldEdit("weight", None, 1, 2),
        ),
    ]


def test_edit_without_changes_is_recorded_as_such() -> None:
    """Such edits were logged up to 0.1.0."""
    found = change_of(Event(1, 0, T0, "apply by ann", PutPool(Pool("team"), Pool("team"))))
    assert found == PoolChange(1, 0, moment(T0), "ann", "apply", "team", ("unchanged",), ())


def test_removed_quota_differs_from_a_quota_of_zero(tmp_path: Path) -> None:
    cpu = "default/cpu"
    with desk(tmp_path, cluster="pools: [{name: team, quota: {gpu: 1}}]") as it:
        edit(it, "team", quota={"cpu": 0})
        edit(it, "team", quota="cpu=none")
        assert [each.changes for each in trail(it, "team")[1:]] == [
            (PoolFieldEdit("nominal", cpu, None, 0),),
            (PoolFieldEdit("nominal", cpu, 0, None),),
        ]


def test_a_life_from_creation_to_the_end_of_the_drain_and_back(tmp_path: Path) -> None:
    """The drain ends in a cycle, which nobody asked for: that was runrig itself.  Laws S3, S6."""
    with desk(tmp_path, cluster=EMPTY) as it:
        edit(it, "team", create=True, quota=2)
        it.submit("a", "team", duration=100)
        it.later(0)
        it.service.declarations.delete_pool("team", user="bob")
        it.later(200)
        edit(it, "team", "eve", create=True, quota=1)
        it.service.declarations.delete_pool("team", user="eve")
        assert short(it, "team") == [
            ("team", "ann", "command", "created"),
            ("team", "bob", "command", "deleted, draining"),
            ("team", "runrig", "engine", "archived"),
            ("team", "eve", "command", "reactivated, resized"),
            ("team", "eve", "command", "deleted, archived"),
        ]
        states = [edit for each in trail(it, "team") for edit in each.changes if edit.field == "state"]
    assert [(each.before, each.after) for each in states] == [
        (PoolState.ACTIVE, PoolState.DELETING),
        (PoolState.DELETING, PoolState.ARCHIVED),
        (PoolState.ARCHIVED, PoolState.ACTIVE),
        (PoolState.ACTIVE, PoolState.ARCHIVED),
    ]


def test_changes_by_a_cluster_file_have_its_user_as_author(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=TEAM) as it:
        apply(it, TEAM.replace("quota: 2", "quota: 3"), "bob")
        apply(it, EMPTY, "eve", prune=True)
        assert short(it, "team") == [
            ("team", "ann", "apply", "created"),
            ("team--a", "ann", "apply", "created"),
            ("team--b", "ann", "apply", "created"),
            ("team--a", "bob", "apply", "resized"),
            ("team--b", "eve", "apply", "deleted, archived"),
            ("team--a", "eve", "apply", "deleted, archived"),
            ("team", "eve", "apply", "deleted, archived"),
        ]


def test_first_pool_of_a_server_without_a_cluster_file_has_its_user_as_author(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=None) as it:
        assert short(it, "default") == [("default", "ann", "command", "created")]


@settings(max_examples=50, deadline=None)
@given(before=values_of(Pool), after=values_of(Pool))
def test_no_difference_between_two_pools_is_left_out(before: Pool, after: Pool) -> None:
    """Whatever fields a pool and a quota have, or will have: what is told makes one into the other."""
    after = replace(after, name=before.name, parent=before.parent, subpool_name=before.subpool_name)
    edits = change_of(Event(1, 0, T0, "ann", PutPool(after, replace(before, state=after.state)))).changes
    quotas, fields = dict(before.quotas), dict[str, Any](state=after.state)
    for each in edits:
        if each.resource is None:
            fields[each.field] = each.after
        else:
            changed: dict[str, Any] = {each.field: each.after}
            key = FlavorResource(*each.resource.split("/", 1))
            quotas[key] = replace(quotas.get(key, Quota()), **changed)
    kept = {key: quota for key, quota in quotas.items() if quota.nominal is not None}
    there = {key: quota for key, quota in after.quotas.items() if quota != Quota()}
    if "default_exit_actions" in fields:
        assert fields.pop("default_exit_actions") == exit_actions(after.default_exit_actions)
        before = replace(before, default_exit_actions=after.default_exit_actions)
    assert replace(before, quotas={}, **fields) == replace(after, quotas={})
    assert {key: quota for key, quota in kept.items() if quota != Quota()} == there


# ---------------------------------------------------------------- filters and pages


def test_history_is_filtered_by_user_time_and_subpool(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=TEAM) as it:
        edit(it, "team", "bob", quota=5)
        edit(it, "team--a", "eve", quota=1)
        apply(it, TEAM.replace("quota: 1", "quota: 2"), "bob")  # also undoes the changes by him and eve

        def pools(**query: Any) -> list[str]:
            return [each.pool for each in trail(it, "team", **query)]

        assert pools(by="bob") == ["team", "team", "team--a", "team--b"]
        assert pools(by="eve") == ["team--a"]
        assert pools(by="nobody") == pools(by="runrig") == pools(by="o") == []
        assert pools(since=T0 + 2) == ["team--a", "team", "team--a", "team--b"]
        assert pools(until=T0 + 1) == ["team", "team--a", "team--b", "team"]
        assert pools(since=T0 + 2, until=T0 + 2) == ["team--a"]
        assert pools(since=T0 + 1.5, until=T0 + 1.75) == []
        assert pools(subpool="a") == pools(subpool="team--a") == ["team--a"] * 3
        assert pools(subpool="team") == ["team"] * 3
        assert [each.pool for each in trail(it, "team--b")] == ["team--b"] * 2
        assert pools(since=0.0, until=2e11) == pools()


def test_pages_are_consecutive_even_within_one_revision(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=TEAM) as it:
        for quota in (2, 1, 2):
            edit(it, "team--b", quota=quota)
        whole, more = it.service.history.changes("team")
        assert (len(whole), more) == (6, False)
        for limit in (1, 2, 3, 5, 6):
            found: list[PoolChange] = []
            before, more = None, True
            while more:
                page, more = it.service.history.changes("team", limit=limit, before=before)
                found += page
                assert len(page) <= limit
                before = (page[-1].revision, page[-1].seq)
            assert tuple(found) == whole


def test_cost_of_a_history_query_depends_on_the_changes_of_the_pool_and_not_on_the_log(tmp_path: Path) -> None:
    """Events are found by an index on their pool, and never by looking at all of them."""
    with desk(tmp_path, cluster=TEAM) as it, statements() as seen:
        trail(it, "team", by="ann", since=T0, until=T0 + 9, before=(9, 9))
        trail(it, "team", subpool="a")
        it.service.history.pool_at("team", T0)
        steps_of_each = plans(it.store, [each for each in seen if "FROM events" in each[0]])
    assert len(steps_of_each) == 3
    for plan in steps_of_each:
        steps = {re.sub(r" \(.*", "", step) for step in plan if re.search(r"\bevents\b", step)}
        by_pool = {f"SEARCH events USING {kind}INDEX ix_events_pool_revision_seq" for kind in ("", "COVERING ")}
        assert steps & by_pool
        assert steps - by_pool == {"SEARCH events USING INDEX sqlite_autoindex_events_1"}


# ---------------------------------------------------------------- the cluster at an earlier time


def test_pool_is_shown_as_it_was_with_its_subpools(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=TEAM) as it:
        edit(it, "team--a", "bob", quota=3)
        apply(it, "pools: [{name: team, quota: 4, subpools: [{name: a, quota: 3}]}]", "eve", prune=True)
        edit(it, "team", "ann", queueing=Queueing.STRICT_FIFO)

        def at(time: float, name: str = "team") -> Any:
            view = it.service.history.pool_at(name, time)
            each = [(then.name, then.quota, then.unallocated) for then in (view.pool, *view.subpools)]
            return each, view.pool.queueing

        fifo, strict = Queueing.BEST_EFFORT_FIFO, Queueing.STRICT_FIFO
        assert at(T0) == ([("team", 4, 1), ("team--a", 2, 2), ("team--b", 1, 1)], fifo)
        assert at(T0 + 1.5) == ([("team", 4, 0), ("team--a", 3, 3), ("team--b", 1, 1)], fifo)
        assert at(T0 + 2) == ([("team", 4, 1), ("team--a", 3, 3)], fifo)
        assert at(T0 + 2.5, "team--a") == ([("team--a", 3, 3)], fifo)
        assert at(T0 + 3, "team--a") == ([("team--a", 3, 3)], strict)
        assert at(T0 + 3, "team--b") == ([("team--b", 0, 0)], strict)
        changed = it.service.history.pool_at("team--a", T0 + 2).pool.changed
        assert (changed.time, changed.by, changed.changes) == (moment(T0 + 1), "bob", (nominal(2, 3),))


def test_pool_has_no_settings_before_its_creation_or_in_the_future(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=EMPTY) as it:
        edit(it, "team", "bob", create=True, quota=1)
        with pytest.raises(NotFound) as early:
            it.service.history.pool_at("team", T0)
        with pytest.raises(InvalidInput) as late:
            it.service.history.pool_at("team", it.time[0] + 1)
        with pytest.raises(NotFound) as never:
            it.service.history.pool_at("tem", T0)
        # The second that is still in progress.
        assert it.service.history.pool_at("team", it.time[0] + 0.999999).pool.quota == 1
    assert early.value.message == (
        "pool 'team' did not exist at 2027-01-15 08:00:00 UTC: bob created it at 2027-01-15 08:00:01 UTC"
    )
    assert early.value.details["created_at"] == "2027-01-15T08:00:01"
    assert late.value.args[0] == (
        "2027-01-15 08:00:02 UTC is in the future (now: 2027-01-15 08:00:01 UTC). Use a past time"
    )
    assert never.value.message == "unknown pool 'tem'. Did you mean 'team'?"


def test_after_the_clock_was_set_back_the_later_change_counts(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=TEAM, time=T0 + 10) as it:
        it.time[0] -= 5
        edit(it, "team", weight=2)
        it.time[0] += 20
        assert it.service.history.pool_at("team", T0 + 10).pool.weight == 2
        assert [each.what for each in trail(it, "team", subpool="team")] == [("created",), ("changed",)]


NAMES = ("p", "q", "team", "team--a", "team--b")
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "quota": st.one_of(st.integers(-1, 8), st.just({"cpu": "2"}), st.just("cpu=none")),
    "cohort": st.sampled_from([None, "org", "x--y"]),
    "borrowing_limit": st.sampled_from([None, 0, 3]),
    "lending_limit": st.sampled_from([None, 0, 3]),
    "flavors": st.sampled_from([(), ("default",), ("none",)]),
    "queueing": st.sampled_from(Queueing),
    "topology_keys": st.sampled_from([(), (TopologyKey("rack", "r"),)]),
    "weight": st.integers(1, 3),
    "description": st.text(max_size=3),
}
EDITS = st.fixed_dictionaries({}, optional=FIELDS).map(lambda fields: pool_edit("pool1", **fields))
FILES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=2, unique_by=lambda each: each[0]).map(
    lambda subpools: (
        "pools: [{name: team, quota: 6, subpools: ["
        + ", ".join(f"{{name: {name}, quota: {quota}}}" for name, quota in subpools)
        + "]}]"
    )
)
STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(NAMES), EDITS),
    st.tuples(st.just("update"), st.sampled_from(NAMES), EDITS),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("apply"), FILES, st.booleans()),
    st.tuples(st.just("submit"), st.sampled_from(NAMES)),
    st.tuples(st.just("wait")),
)


def take(it: Desk, step: tuple[Any, ...]) -> None:
    """What is refused changes nothing, and so has nothing to show."""
    declarations = it.service.declarations
    with suppress(RunrigError):
        match step:
            case ("create", name, fields):
                declarations.create_pool(name, fields, user="ann")
            case ("update", name, fields):
                declarations.update_pool(name, fields, user="bob")
            case ("delete", name):
                declarations.delete_pool(name, user="eve")
            case ("apply", text, prune):
                declarations.apply(text, user="eve", prune=prune, force=True)
            case ("submit", name):
                it.submit("w", name, duration=3)
            case _:
                it.time[0] += 5
    it.service.settle()


def shown(it: Desk) -> dict[str, Any]:
    """`pool show` of every pool."""
    views = it.service.queries.pools(archived=True)
    found = [to_plain(view.shown("simulated")) for view in views]
    return {each["name"]: each | each["gpus"] for each in found}


def shown_at(it: Desk, name: str, time: float) -> dict[str, Any]:
    """`pool show --at` in the same form, without who made it so."""
    view = it.service.history.pool_at(name, time)
    fields = {each: value for each, value in to_plain(view.pool).items() if each != "changed"}
    return fields | {"subpools": [each.name for each in view.subpools]}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=5, max_size=25))
def test_past_pool_equals_the_output_of_pool_show_at_that_time(steps: list[tuple[Any, ...]]) -> None:
    """Law S6: after each step, and still at the end."""
    with TemporaryDirectory() as folder, desk(Path(folder), cluster=TEAM) as it:
        said: dict[float, dict[str, Any]] = {}
        it.service.declarations.create_cohort("org", CohortEdit(), user="ann")
        for step in steps:
            take(it, step)
            said[it.time[0]] = shown(it)
            check(it, it.time[0], said[it.time[0]])
            it.time[0] += 0.25
        for time, pools in said.items():
            check(it, time, pools)


def check(it: Desk, time: float, pools: dict[str, Any]) -> None:
    for name, show in pools.items():
        then = shown_at(it, name, time)
        assert then == {field: show[field] for field in then}
    for name in set(shown(it)) - set(pools):
        with pytest.raises(NotFound):
            it.service.history.pool_at(name, time)


# ---------------------------------------------------------------- never deleted


def rows(it: Desk) -> tuple[set[tuple[Any, ...]], set[str]]:
    """The trail of pools, and the names of all pools, as they lie in the database."""
    with it.store.transactions.reading() as connection:
        logged = connection.execute(select(schema.events).where(schema.events.c.pool.is_not(None)))
        return {tuple(map(str, row)) for row in logged}, set(connection.execute(select(schema.pools.c.name)).scalars())


def live(it: Desk) -> Iterator[None]:
    """All that can be done to pools, and years of waiting."""
    declarations = it.service.declarations
    declarations.create_cohort("org", CohortEdit(), user="ann")
    edit(it, "p", create=True, quota=2, cohort="org")
    yield
    it.submit("a", "p", duration=50)
    it.later(0)
    edit(it, "p", quota=1)
    declarations.delete_pool("p", user="bob")
    it.later(100)
    yield
    declarations.delete_cohort("org", user="ann")
    apply(it, EMPTY, prune=True)
    it.later(3 * 365 * 86400)
    yield


def test_neither_history_nor_pools_are_ever_deleted(tmp_path: Path) -> None:
    """Law S6: whatever is done, however long ago, also over restarts; rows of the log are written once and never again."""
    logged: set[tuple[Any, ...]] = set()
    names: set[str] = set()
    with traced() as seen:
        for start in range(2):
            with desk(tmp_path, cluster=TEAM, time=T0 + start * 4 * 365 * 86400) as it:
                for _ in live(it):
                    now_logged, now_names = rows(it)
                    assert logged < now_logged
                    assert names <= now_names
                    logged, names = now_logged, now_names
                assert {each.pool.state for each in it.service.queries.pools(archived=True)} == {PoolState.ARCHIVED}
    assert names == {"p", "team", "team--a", "team--b"}
    written = {
        (kind.upper(), table)
        for kind, table in re.findall(r"(?im)^(delete from|update|drop table|insert into) \"?(\w+)", "\n".join(seen))
    }
    assert {("INSERT INTO", "events"), ("INSERT INTO", "pools"), ("DELETE FROM", "gangs")} <= written
    assert {kind for kind, table in written if table == "events"} == {"INSERT INTO"}
    assert {kind for kind, table in written if table == "pools"} == {"INSERT INTO"}


def put_in(event: Event) -> str:
    """The pool that the event puts."""
    assert isinstance(event.action, PutPool)
    return event.action.pool.name


def test_history_of_a_database_of_the_first_release_is_preserved(tmp_path: Path) -> None:
    """The dump of v0.1.0, brought to the tables of today."""
    dump = Path(make_dump.__file__).with_name("data") / "v0.1.0.sql"
    make_dump.restore(dump.read_text(encoding="utf-8"), tmp_path / "runrig.db")
    store = SqlStore.open(tmp_path / "runrig.db")
    logged = [each for each in store.log.events() if isinstance(each.action, PutPool)]
    pools = store.load().pools
    assert len(logged) >= len(pools) > 2
    for pool in pools:
        family = {each.name for each in pools if pool.name in (each.name, each.parent)}
        changes = tuple(each for each in reversed(logged) if put_in(each) in family)
        assert store.log.pool_changes(ChangesQuery(pool.name)) == (changes, False)
        assert all(change_of(each).what for each in changes)
        last = {put_in(each): each for each in reversed(changes)}
        assert {put_in(each): each for each in store.log.pools_at(pool.name, 1e10)} == last
    store.close()
