"""Users see their own pools and the work there; from other pools they see amounts without names."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.access import Grant, Identity, RoleKind, role_named
from runrig.domain.blockers import Blocker, Tier
from runrig.domain.gangs import Law, Priority
from runrig.domain.plan import Action, MoveTask, Nominate, Preempt, Submit
from runrig.domain.pools import Queueing
from runrig.domain.reasons import Code, Concerned, Part, Reason
from runrig.domain.records import Event
from runrig.domain.shown.why import GroupWhy
from runrig.domain.workflows import Status, TaskKey
from runrig.ports.store import WorkflowQuery
from runrig.service.commands.edits import PoolEdit
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.queries import would_start
from runrig.service.queries.redaction import Names, preemptors
from runrig.service.queries.visibility import ALL, Visibility
from tests.api.permissions.rows import ROWS
from tests.api.permissions.test_routes import QUESTIONS
from tests.api.permissions.two_teams import FOREIGN, TwoTeams, two_teams
from tests.patience import until
from tests.worlds.service import desk, one_task

LOW = Priority.LOW
TEAM = Visibility(Identity("tom", (Grant(RoleKind.POOL_USER, "team"),)))


def _answers(it: TwoTeams, actor: str, pool: str) -> dict[str, str]:
    """Everything that *actor* can read of *pool* and of the cluster, by address."""
    found = {}
    for route in QUESTIONS:
        row = ROWS[route]
        path = row.path.format(pool=pool, sub="a", id=it.work[pool], old=it.old[pool])
        answer = it.send(actor, "GET", path, **row.query)
        if answer.status_code == 200:
            found[path] = answer.text
    return found


# ---------------------------------------------------------------- whole servers


def test_responses_do_not_name_other_pools_their_users_or_their_work(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        for actor in ("tina", "tom"):
            answers = _answers(it, actor, "team")
            assert len(answers) > 20
            leaks = {path: word for path, text in answers.items() for word in FOREIGN if word in text}
            assert leaks == {}
        assert all(word in "".join(_answers(it, "vera", "team").values()) for word in FOREIGN)


def test_user_without_a_role_can_read_no_pool(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        text = "".join(_answers(it, "nina", "team").values())
        assert [word for word in (*FOREIGN, "team", "tom", "org") if word in text] == []


def test_lists_contain_only_visible_pools(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:

        def names(actor: str, **query: Any) -> list[str]:
            found = it.get(actor, "/api/workflow", all_users=True, **query)
            return [each["name"] for each in found["workflows"]]

        everything = ["uwejob-1", "tomjob-1", "uweold-1", "tomold-1"]
        assert names("vera") == names("ada") == everything
        assert names("tom") == ["tomjob-1", "tomold-1"]
        assert names("tom", pools=["team", "team2"]) == ["tomjob-1", "tomold-1"]
        assert names("tom", pools=["team2"]) == names("tom", name="uwe") == names("nina") == []
        assert names("tom", limit=1, offset=1) == ["tomold-1"]
        pools = {actor: sorted(it.get(actor, "/api/pool")["pools"]) for actor in ("vera", "tom", "uwe", "nina")}
        assert pools == {
            "vera": ["team", "team--a", "team2", "team2--b"],
            "tom": ["team", "team--a"],
            "uwe": ["team2", "team2--b"],
            "nina": [],
        }


def test_quota_tree_includes_the_cohorts_above_own_pools(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        whole, seen = it.get("ada", "/api/v1/quota-tree"), it.get("tom", "/api/v1/quota-tree")
        assert [each["name"] for each in seen["nodes"]] == ["org", "team", "team--a"]
        assert seen["root"]["children"] == ["org"]
        assert seen["root"]["balances"] == whole["root"]["balances"]


def test_nodes_show_how_much_others_use_but_not_who(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        (node,) = it.get("tom", "/api/resources")["resources"]
        assert [each for each in node["gpus"] if each] == [
            {"index": 0, "workflow": "tomjob-1", "task": "main"},
            {"index": 1, "workflow": None, "task": None},
        ]
        assert (node["usage_fields"]["gpu"], node["resource_type"]) == ("2", "SHARED")
        assert sorted(node["pool_platform_labels"]) == ["team", "team--a"]


def test_map_counts_hidden_gangs(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        seen, whole = (it.get(actor, "/api/v1/topology", holders=1)["maps"][0]["all"] for actor in ("tom", "vera"))
        assert ([each["gang"] for each in seen["holders"]], seen["others"]) == (
            ["tomjob-1/main-group"],
            {"gangs": 1, "gpus": 1},
        )
        assert seen["gpus"] == whole["gpus"]
        assert it.get("tom", "/api/v1/topology", holders=0)["maps"][0]["all"]["others"] == {"gangs": 2, "gpus": 2}
        assert it.send("tom", "GET", "/api/v1/topology", pool="team2").json()["detail"] == (
            "unknown pool 'team2'. Did you mean 'team'?"
        )


def _reclaimed(it: TwoTeams) -> tuple[str, str]:
    """LOW of `team` that borrows, and firm work of `team2` that takes it back; the first still stops."""
    low = it.submit("tom", "tomlow", "team", priority=LOW, gpus=6)
    firm = it.submit("uwe", "uwefirm", "team2--b")
    return low, firm


def test_why_shows_each_side_of_a_preemption_only_its_own_work(tmp_path: Path) -> None:
    """R2: the law is named, and the amounts are; who it was is not."""
    with two_teams(tmp_path) as it:
        low, firm = _reclaimed(it)
        assert (
            it.get("tom", f"/api/v1/workflows/{low}/why")["sentence"]
            == f"{low} is stopping: preempted by work of another pool."
        )
        waits = it.get("uwe", f"/api/v1/workflows/{firm}/why")
        assert (waits["groups"][0]["waits_for"], waits["groups"][0]["reasons"][0]["holders"]) == (
            ["work of another pool (6 GPUs)"],
            ["work of another pool (6 GPUs)"],
        )
        assert waits["sentence"].startswith(f"{firm} is waiting: work of another pool (6 GPUs) must stop first")
        assert it.get("ada", f"/api/v1/workflows/{firm}/why")["groups"][0]["waits_for"] == [low]
        it.api.desk.later(31)
        (story,) = it.get("tom", f"/api/v1/workflows/{low}/why")["groups"][0]["preempted"]
        assert (story["by"], story["law"]) == ("work of another pool", "RECLAIM")
        assert story["sentence"].startswith(
            "was preempted by work of another pool, whose pool reclaimed borrowed quota"
        )
        (told,) = it.get("ada", f"/api/v1/workflows/{low}/why")["groups"][0]["preempted"]
        assert told["by"] == firm


ASKED = ("", "/why", "/why?changes=all", "/events", "/wait?timeout=0", "/logs")


def test_suggestions_are_limited_to_what_the_user_may_see_and_do(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        it.submit("uwe", "uwelow", "team2", priority=LOW, gpus=6)
        waits = it.submit("tom", "tomlow", "team", priority=LOW, gpus=6)
        address = f"/api/v1/workflows/{waits}/why?changes="
        toms, adas = it.get("tom", f"{address}all")["changes"], it.get("ada", f"{address}all")["changes"]
        ended = [each["changes"] for each in toms["would_start"] if each["kinds"] == ["Ended"]]
        assert ended == [["until work of another pool (6 GPUs) has finished"]]
        assert ["until uwelow-1 has finished"] in [each["changes"] for each in adas["would_start"]]
        assert "uwe" not in str(toms)
        assert {each["who"] for each in toms["tried"]} == {"owner", "wait"}
        assert {each["who"] for each in adas["tried"]} == {"owner", "admin", "wait"}
        own = it.get("tom", f"{address}own")["changes"]
        assert {each["who"] for each in own["tried"]} == {"owner"}
        assert own["would_start"] == []  # all GPUs are in use


def test_each_user_gets_the_changes_that_they_may_make(tmp_path: Path) -> None:
    """S1: the subpool `a` holds 1 of the 4 GPUs of `team`, which has a STRICT_FIFO queue."""
    with two_teams(tmp_path) as it:
        it.api.desk.service.declarations.update_pool(
            "team", PoolEdit(settings={"queueing": Queueing.STRICT_FIFO}), user="ada"
        )
        it.submit("tom", "runs", "team--a")
        waits = it.submit("tom", "waits", "team--a")

        def dials(actor: str) -> dict[str, int]:
            found = it.get(actor, f"/api/v1/workflows/{waits}/why?changes=all")["changes"]
            return {each["dial"]: each["values"] for each in found["tried"] if each["who"] == "admin"}

        of_the_pool = {"quota of pool team--a (default/gpu)": 1, "queue": 1}
        assert dials("tina") == of_the_pool
        assert dials("tom") == dials("tess") == dials("vera") == {}
        assert dials("ada").keys() > of_the_pool.keys()
        found = it.get("tina", f"/api/v1/workflows/{waits}/why?changes=all")["changes"]
        (more,) = [each["changes"] for each in found["would_start"] if each["kinds"] == ["MoreNominal"]]
        assert more == ["raise the quota of pool team--a to 2 GPUs (now 1)"]
        done = it.send("tina", "PATCH", "/api/v1/pools/team--a", {"quota": 2})
        it.api.desk.service.settle()
        assert (done.status_code, it.api.desk.status(waits)) == (200, "RUNNING")


def test_number_of_concurrent_searches_is_limited(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        it.submit("uwe", "uwelow", "team2", priority=LOW, gpus=6)
        waits = it.submit("tom", "tomlow", "team", priority=LOW, gpus=6)
        address = f"/api/v1/workflows/{waits}/why?changes=own"
        turns = it.api.desk.service.change_queries._turns
        with ThreadPoolExecutor(would_start.MOST_WAIT) as threads:
            leaving = [Leaving() for _ in range(would_start.MOST_WAIT)]
            with ExitStack() as others:
                for _ in range(would_start.AT_ONCE):
                    others.enter_context(turns.turn())
                waiting = [threads.submit(others.enter_context, turns.turn(leaving=each)) for each in leaving]
                until(lambda: len(turns._waiting) == len(waiting))
                refused = it.api.http.get(address)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
                assert it.get("ada", f"/api/v1/workflows/{waits}/why")["changes"] is None, (
                    "why alone is always answered"
                )
                for each in leaving:
                    each.leave()
                assert {type(each.exception()) for each in waiting} == {GivenUp}
        assert it.api.http.get(address).status_code == 200


def test_no_route_of_preempted_work_names_a_hidden_preemptor(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        low, firm = _reclaimed(it)
        for seconds in (0, 31, 0):
            it.api.desk.later(seconds)
            for actor, id, others in (("tom", low, "uwe"), ("uwe", firm, "tom")):
                ours = [f"/api/v1/workflows/{id}{rest}" for rest in ASKED]
                for path in (*ours, *(f"/api/workflow/{id}{rest}" for rest in ("", "/events", "/logs"))):
                    text = str(it.get(actor, path))
                    assert others not in text.replace("custom", ""), (actor, path)
        assert "preempted by work of another pool" in str(it.get("tom", f"/api/workflow/{low}"))
        assert f"preempted by {firm}, queued again" in str(it.get("ada", f"/api/workflow/{low}"))


def test_repeated_workflow_is_named_only_to_users_who_see_it(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        it.api.desk.service.access.users.grant("uwe", role_named("team-user"), actor="ada")
        again = it.send("uwe", "POST", "/api/pool/team/workflow?workflow_id=uweold-1").json()["name"]
        parents = {actor: it.get(actor, f"/api/workflow/{again}")["parent_name"] for actor in ("uwe", "vera", "tom")}
        assert parents == {"uwe": "uweold-1", "vera": "uweold-1", "tom": None}


def test_foreign_workflow_is_not_found_by_its_uuid_either(tmp_path: Path) -> None:
    with two_teams(tmp_path) as it:
        uuid = it.get("ada", "/api/workflow/uwejob-1")["uuid"]
        assert it.send("tom", "GET", f"/api/workflow/{uuid}").json() == {
            "message": f"workflow {uuid!r} not found. List workflows with `runrig workflow list`",
            "error_code": "NOTFOUND",
            "details": {},
        }
        ends = [("GET", "/spec"), ("GET", "/events"), ("GET", "/logs"), ("GET", "/why"), ("POST", "/cancel")]
        assert {it.send("tom", way, f"/api/workflow/{uuid}{end}").status_code for way, end in ends} == {404}


def test_unknown_id_suggests_similar_visible_ids(tmp_path: Path) -> None:
    typos = {"gang": "'gang-1' or 'gang-3'", "gnag-1": "'gang-1'", "gang-33": "'gang-1' or 'gang-3'", "zzz": None}
    with two_teams(tmp_path) as it:
        for pool in ("team", "team2", "team"):
            it.send("ada", "POST", "/api/v1/workflows", {"file": one_task("gang"), "pool": pool})
        for path, (typed, meant) in product(("", "/why", "/logs", "/cancel"), typos.items()):
            method = "POST" if path == "/cancel" else "GET"
            told = it.send("tom", method, f"/api/v1/workflows/{typed}{path}", {} if path == "/cancel" else None)
            way_out = f"Did you mean {meant}?" if meant else "List workflows with `runrig workflow list`"
            assert (told.status_code, told.json()["detail"]) == (404, f"workflow {typed!r} not found. {way_out}")


NAMES = st.sampled_from(["t", "team", "team2", "team_", "te%m", "x"])
SOME_GRANTS = st.lists(
    st.builds(Grant, st.sampled_from([RoleKind.VIEWER, RoleKind.POOL_USER, RoleKind.POOL_ADMIN]), NAMES), max_size=3
)


@given(SOME_GRANTS, NAMES, st.sampled_from(["", "--a", "--team2"]))
def test_users_see_exactly_the_pools_of_their_roles_and_their_subpools(
    grants: list[Grant], top: str, rest: str
) -> None:
    """S5: the list asks the database by the names of the pools, all else asks the rule."""
    visibility = Visibility(Identity("tom", tuple(grants)))
    assert visibility.sees(top + rest) is any(
        top + rest == each or (top + rest).startswith(f"{each}--") for each in visibility.tops
    )


def test_list_treats_a_name_as_a_name_and_not_as_a_pattern(tmp_path: Path, any_store: str) -> None:
    cluster = "pools: [{name: t-a, quota: 1}, {name: t-ab, quota: 1}, {name: txa, quota: 1}]"
    with desk(tmp_path, cluster=cluster, database=any_store) as it:
        for pool in ("t-a", "t-ab", "txa"):
            it.submit(f"in-{pool}", pool)
        for tops, found in ((("t-a",), ["in-t-a-1"]), (("t-a", "txa"), ["in-txa-1", "in-t-a-1"]), (("t%",), [])):
            page, _ = it.store.workflows(WorkflowQuery(below=tops))
            assert [each.id for each in page] == found


# ---------------------------------------------------------------- names alone

POOLS = {"a-1": "team", "b-1": "team2", "c-1": "team2--b", "d-1": "team--x"}


def _names(visibility: Visibility = TEAM, preemptors: Iterable[str] = ()) -> Names:
    return Names(visibility, POOLS.get, preemptors)


@pytest.mark.parametrize(
    ("gangs", "shown"),
    [
        ((), ()),
        (("a-1/g", "d-1/g"), ("a-1/g", "d-1/g")),
        (("b-1/g",), ("work of another pool",)),
        (("b-1/g", "a-1/g", "c-1/g", "gone-7/g"), ("a-1/g", "3 gangs of other pools")),
    ],
)
def test_several_gangs_are_named_or_counted(gangs: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert _names().several(gangs) == shown
    assert _names(ALL).several(gangs) == gangs


def test_events_keep_their_rule_and_lose_hidden_names() -> None:
    placement = ()
    spared = (("b-1/g", "R2"), ("c-1/g", "R2"), ("a-1/h", "R3"))
    before: list[Action] = [
        Preempt("a-1/g", "b-1/g", Law.RECLAIM, spared),
        Nominate("a-1/g", placement, ("b-1/g", "c-1/g", "d-1/g")),
        MoveTask(TaskKey("a-1", "main", 0), Status.FAILED_PREEMPTED, 3006, "preempted by b-1/g, queued again"),
        MoveTask(TaskKey("a-1", "main", 0), Status.FAILED_PREEMPTED, 3006, "preempted by d-1/g"),
    ]
    after: list[Action] = [
        Preempt("a-1/g", "work of another pool", Law.RECLAIM, (("work of another pool", "R2"), ("a-1/h", "R3"))),
        Nominate("a-1/g", placement, ("d-1/g", "2 gangs of other pools")),
        MoveTask(
            TaskKey("a-1", "main", 0), Status.FAILED_PREEMPTED, 3006, "preempted by work of another pool, queued again"
        ),
        before[3],
    ]
    events = [Event(7, seq, 1.0, "engine", action, "R2") for seq, action in enumerate(before)]
    events.append(Event(7, 9, 1.0, "engine", Preempt("a-1/g", "d-1/g", Law.PRIORITY), "R1"))
    by = preemptors(events)
    assert by == {"b-1/g", "d-1/g"}
    assert [_names(TEAM, by).event(each).action for each in events[:-1]] == after
    assert [_names(ALL, by).event(each) for each in events] == events


WORDS = st.text(st.characters(categories=("L", "N", "P", "Zs"), max_codepoint=0x2FF), max_size=20)
WORKFLOWS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?-[1-9][0-9]{0,2}", fullmatch=True)
GANGS = st.builds("{}/{}".format, WORKFLOWS, st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,8}", fullmatch=True))


@given(st.lists(GANGS, min_size=1, max_size=3, unique=True), st.data())
def test_no_form_of_a_message_names_a_hidden_preemptor(gangs: list[str], data: st.DataObject) -> None:
    """The names come from the log: a text of today, of an older release or of a later one is cut all the same."""
    parts = data.draw(st.lists(st.tuples(WORDS, st.sampled_from(gangs)), min_size=1, max_size=4))
    message = "".join(f"{words}{gang}" for words, gang in parts)
    told = Names(TEAM, lambda workflow: "team2", gangs).text(message)
    assert [gang for gang in gangs if gang in told] == []
    assert Names(TEAM, lambda workflow: "team", gangs).text(message) == message


@given(
    GANGS, st.sampled_from(["{} took its place", "its GPUs went to {}.", "preempted by {}, queued again", "({})", "{}"])
)
def test_hidden_workflow_is_not_named_by_its_name_alone_either(gang: str, wording: str) -> None:
    workflow = gang.partition("/")[0]
    told = Names(TEAM, lambda workflow: None, [gang]).text(wording.format(workflow))
    assert told == wording.format("work of another pool")


def test_name_does_not_match_a_part_of_another_name() -> None:
    mixed = {"b-1": "team2", "ab-1": "team"}
    names = Names(TEAM, mixed.get, ["b-1/g", "ab-1/g", "b-1/g2"])
    assert names.text("b-1/g2, ab-1/g, b-1/g and ab-1") == (
        "work of another pool, ab-1/g, work of another pool and ab-1"
    )


def test_earlier_groups_of_the_same_workflow_are_not_work_of_others() -> None:
    upstream = GroupWhy("g", Status.WAITING, reasons=(Reason(Code.UPSTREAM, "W1", holders=("first",)),))
    (told,) = _names().why(upstream).reasons
    assert (told.holders, told.sentence) == (("first",), "group first must complete first")
    full = Reason(Code.QUOTA_FULL, "P2", "team", "default/gpu", 0, 1, ("a-1/g", "b-1/g"))
    waiting = GroupWhy("g", Status.SCHEDULING, 1, 0, reasons=(full,), waits_for=("b-1/g",), preempted_by="c-1/g")
    found = _names().why(waiting)
    assert (found.reasons[0].holders, found.waits_for, found.preempted_by) == (
        ("a-1/g", "work of another pool"),
        ("work of another pool",),
        "work of another pool",
    )


@given(st.data())
def test_no_blocker_names_a_hidden_pool_or_gang(data: st.DataObject) -> None:
    """Their amounts stay, added up."""
    pools = st.sampled_from(["team", "team--a", "team2", "secret", "t"])
    concerned = st.builds(Concerned, st.sampled_from(Part), pools, st.integers(1, 9))
    gangs = data.draw(st.lists(st.sampled_from(["a-1/g", "b-1/g", "c-1/g"]), max_size=4, unique=True))
    parts = tuple(data.draw(st.lists(concerned, max_size=6)))
    reason = Reason(Code.NO_TARGETS, "R2", "pool team", "default/gpu", 1, 2, tuple(gangs), concerned=parts)
    blocked = (Blocker(Tier.PREEMPTION, ("default",), reason),)
    group = GroupWhy("g", Status.SCHEDULING, 1, 0, stops=tuple(gangs), reasons=(reason,), blockers=blocked)
    found = _names().why(group)
    told = repr(found)
    assert [name for name in ("'team2'", "'secret'", "'t'", "b-1", "c-1") if name in told] == []
    (blocker,) = found.blockers
    for part in Part:
        amounts = [sum(each.amount for each in all_ if each.part is part) for all_ in (parts, blocker.reason.concerned)]
        assert amounts[0] == amounts[1]


def test_log_of_a_submission_has_no_specification() -> None:
    """Only the hash of it, and how long it may wait and run: no text that a user wrote can be told by the log."""
    assert [*Submit.__dataclass_fields__] == ["workflow", "groups", "exec_timeout_s", "queue_timeout_s"]
