"""Edits of pools by the forms of their pages, each behind the plan of what it would do; and what if."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.errors import Conflict
from runrig.domain.gangs import Priority
from runrig.domain.pools import PoolState
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.shown.plans import Plan, PlanPreempted
from runrig.service.commands.edits import PoolEdit
from runrig.service.foresight import plans
from runrig.web.forms import Done
from runrig.web.planned import plan_view
from runrig.wire.base import example_of
from runrig.wire.json import read
from tests.api.client import TOKEN, URL
from tests.web.test_acts import SCRIPT
from tests.web.visitor import Site, fields_of, site, words_of

GPUS = "nominal default/gpu"
TEAM = """
pools:
- name: team
  quota: 3
  subpools: [{name: a, quota: 1}]
- {name: other, quota: 1}
"""


UNSEEN = """
cohorts: [{name: all}]
pools:
- {name: mine, quota: 2, cohort: all, subpools: [{name: s, quota: 1}]}
- {name: zebra, quota: 2, cohort: all}
"""
LENT = "pools: [{name: pool1, quota: 2}, {name: pool2, quota: 0}]"


def waiting(it: Site) -> None:
    """a-1 takes all of pool1, b-1 waits there; low-1 has what nobody was promised."""
    it.desk.submit("a", gpus=2)
    it.desk.submit("low", "pool2", Priority.LOW, gpus=2)
    it.desk.service.settle()
    it.desk.submit("b", gpus=2)
    it.desk.service.settle()


def quota(it: Site, name: str) -> int:
    return it.desk.service.queries.pool(name).now.gpus.quota


def changes(it: Site, name: str) -> list[tuple[str, tuple[str, ...]]]:
    found, _ = it.desk.service.history.changes(name, limit=100)
    return [(each.by, tuple(each.what)) for each in found]


def test_a_quota_is_changed_after_its_plan_was_shown(tmp_path: Path) -> None:
    with site(tmp_path, cluster=LENT) as it:
        waiting(it)
        visitor = it.visitor()
        shown = visitor.fill("/pool/pool1/edit", **{GPUS: "4"})
        words = words_of(shown.text)
        for said in (
            "quota of default/gpu 2 → 4",
            "1 group (b-1) would start on 2 GPUs.",
            "Cost: 2 GPUs in pool2 (1 group preempted).",
            "low-1 (pool2, LOW, 2 GPUs, by b-1) R",
            "Nothing has changed yet.",
        ):
            assert said in words, words
        assert quota(it, "pool1") == 2
        answer = visitor.confirm("/pool/pool1/edit", shown.text)
        assert (answer.status_code, answer.headers["location"], quota(it, "pool1")) == (303, "/pool/pool1", 4)
        assert changes(it, "pool1")[0] == ("ann", ("resized",))


def test_limits_weight_and_queueing_change_and_other_settings_stay(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        typed = {
            "borrowing_limit default/gpu": "1",
            "lending_limit default/gpu": "0",
            "weight": "3",
            "queueing": "STRICT_FIFO",
        }
        shown = visitor.fill("/pool/pool1/edit", **typed)
        words = words_of(shown.text)
        for said in (
            "borrowing limit of default/gpu none → 1",
            "weight 1 → 3",
            "queueing BEST_EFFORT_FIFO → STRICT_FIFO",
        ):
            assert said in words, words
        assert "quota of" not in words
        assert visitor.confirm("/pool/pool1/edit", shown.text).status_code == 303
        pool = it.desk.service.queries.pool("pool1").pool
        found = pool.quotas[FlavorResource("default", GPU)]
        assert (found.nominal, found.borrowing_limit, found.lending_limit, pool.weight) == (2, 1, 0, 3)
        cleared = visitor.fill("/pool/pool1/edit", **{"borrowing_limit default/gpu": ""})
        assert visitor.confirm("/pool/pool1/edit", cleared.text).status_code == 303
        assert it.desk.service.queries.pool("pool1").pool.quotas[FlavorResource("default", GPU)].borrowing_limit is None


def test_cohort_flavors_and_description_are_set_and_removed(tmp_path: Path) -> None:
    cluster = "cohorts: [{name: all}, {name: some}]\n" + LENT
    with site(tmp_path, cluster=cluster) as it:
        visitor = it.visitor()
        shown = visitor.fill("/pool/pool1/edit", cohort="some", flavors=" default ", description="Nights & days")
        words = words_of(shown.text)
        for said in ("cohort none → some", "flavors all → default", "description none → Nights & days"):
            assert said in words, words
        assert visitor.confirm("/pool/pool1/edit", shown.text).status_code == 303
        pool = it.desk.service.queries.pool("pool1").pool
        assert (pool.cohort, pool.flavors, pool.description) == ("some", ("default",), "Nights & days")
        taken = visitor.fill("/pool/pool1/edit", cohort="", flavors="", description="")
        assert visitor.confirm("/pool/pool1/edit", taken.text).status_code == 303
        pool = it.desk.service.queries.pool("pool1").pool
        assert (pool.cohort, pool.flavors, pool.description) == (None, (), "")
        for wrong, said in (({"flavors": "gold"}, "unknown flavor 'gold'"), ({"description": "<b>"}, "plain text")):
            answer = visitor.fill("/pool/pool1/edit", **wrong)
            assert (answer.status_code in (400, 404, 422), said in words_of(answer.text)) == (True, True), answer.text


def test_pool_admin_changes_the_description_but_not_the_guarantee(tmp_path: Path) -> None:
    with site(tmp_path, cluster=TEAM) as it:
        lead = it.person("lead", "team-admin")
        form = fields_of(lead.page("/pool/team/edit"))
        assert ("description" in form, {"cohort", "flavors", "weight"} & form.keys()) == (True, set())
        shown = lead.fill("/pool/team/edit", description="ours")
        assert lead.confirm("/pool/team/edit", shown.text).status_code == 303
        assert it.desk.service.queries.pool("team").pool.description == "ours"
        assert lead.fill("/pool/team/edit", flavors="default").status_code == 403


def test_subpools_are_created_resized_and_deleted(tmp_path: Path) -> None:
    with site(tmp_path, cluster=TEAM) as it:
        lead = it.person("lead", "team-admin")
        assert 'href="/pool/team/subpool"' in lead.page("/pool/team")
        assert 'href="/pool/team/delete"' not in lead.page("/pool/team")
        shown = lead.fill("/pool/team/subpool", name="b", quota="1")
        assert "quota of default/gpu none → 1" in words_of(shown.text)
        assert lead.confirm("/pool/team/subpool", shown.text).headers["location"] == "/pool/team--b"
        shown = lead.fill("/pool/team--b/edit", quota="2")
        assert lead.confirm("/pool/team--b/edit", shown.text).headers["location"] == "/pool/team--b"
        assert quota(it, "team--b") == 2
        too_much = lead.fill("/pool/team--b/edit", quota="3")
        assert (too_much.status_code, "team--b" in words_of(too_much.text)) == (400, True)
        end = lead.page("/pool/team--b/delete")
        assert "state ACTIVE → ARCHIVED" in words_of(end)
        assert lead.confirm("/pool/team--b/delete", end).headers["location"] == "/pool/team"
        assert it.desk.service.queries.pool("team--b").pool.state is PoolState.ARCHIVED
        assert 'class="acts"' not in lead.page("/pool/team--b")
        assert [by for by, _ in changes(it, "team--b")] == ["lead"] * 3


def test_edit_does_not_undo_a_concurrent_change(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        opened = fields_of(visitor.page("/pool/pool1/edit"))
        shown = visitor.fill("/pool/pool1/edit", **{GPUS: "3"})
        it.desk.service.declarations.update_pool("pool1", PoolEdit(settings={"weight": 7}), user="bob")
        for answer in (
            visitor.confirm("/pool/pool1/edit", shown.text),
            visitor.post("/pool/pool1/edit", opened | {GPUS: "3", "step": "check"}),
        ):
            words = words_of(answer.text)
            assert answer.status_code == 412
            assert "pool pool1 was changed by bob at 2027-01-15" in words.replace("Pool pool1", "pool pool1")
            assert "Now 7" in words
            assert "now 2" in words
            assert fields_of(answer.text)[GPUS] == "3"
        pool = it.desk.service.queries.pool("pool1").pool
        assert (pool.weight, quota(it, "pool1")) == (7, 2)
        again = visitor.post("/pool/pool1/edit", fields_of(answer.text) | {"weight": "7", "step": "check"})
        assert visitor.confirm("/pool/pool1/edit", again.text).status_code == 303
        assert (it.desk.service.queries.pool("pool1").pool.weight, quota(it, "pool1")) == (7, 3)
        stale = visitor.page("/pool/pool2/delete")
        it.desk.service.declarations.update_pool("pool2", PoolEdit(settings={"weight": 7}), user="bob")
        assert visitor.confirm("/pool/pool2/delete", stale).status_code == 412
        assert it.desk.service.queries.pool("pool2").pool.state is PoolState.ACTIVE


def test_edit_sent_twice_is_applied_once(tmp_path: Path) -> None:
    with site(tmp_path, cluster=TEAM) as it:
        visitor = it.visitor()
        for path, typed in (
            ("/pool/team/edit", {GPUS: "2"}),
            ("/pool/team/subpool", {"name": "c", "quota": "1"}),
            ("/pool/team--c/delete", {}),
        ):
            shown = visitor.fill(path, **typed).text
            form = fields_of(shown) | {"step": "send"}
            before = len(changes(it, "team"))
            assert [visitor.post(path, form).status_code for _ in range(3)] == [303] * 3
            assert len(changes(it, "team")) == before + 1, path
            anew = visitor.post(path, form | {"key": "00000000-0000-4000-8000-000000000000"})
            assert anew.status_code in (404, 409, 412), path


def test_double_click_acts_once() -> None:
    found: list[str] = []

    def do() -> str:
        found.append("done")
        return f"/{len(found)}"

    async def clicks() -> list[str]:
        done = Done()
        sent = [done.once(user, key, do) for user, key in (("ann", "1"), ("ann", "1"), ("bob", "1"), ("ann", "2"))]
        return [answer.headers["location"] for answer in await asyncio.gather(*sent)]

    first, again, *others = asyncio.run(clicks())
    assert (first, len(found), len({first, *others})) == (again, 3, 3)


def test_failed_action_is_not_reported_as_done() -> None:
    tries: list[int] = []

    def fail() -> str:
        tries.append(1)
        raise Conflict("no")

    async def clicks() -> None:
        done = Done()
        for _ in range(2):
            with pytest.raises(Conflict):
                await done.once("ann", "1", fail)

    asyncio.run(clicks())
    assert len(tries) == 2


def test_a_pool_is_paused_and_resumed_after_the_plan_was_shown(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("low", "pool2", Priority.LOW, gpus=4)
        it.desk.service.settle()
        it.desk.submit("c", "pool2", gpus=1)
        visitor = it.visitor()
        shown = visitor.fill("/pool/pool2/pause", reason="new switches")
        words = words_of(shown.text)
        for said in (
            "1 group (low-1) would start on 4 GPUs.",
            "Cost: 1 GPU in pool2 (1 group delayed).",
            "Waits c-1 (pool2, NORMAL, 1 GPU) Kept low-1 (pool2, LOW, 4 GPUs, by c-1)",
            "Nothing has changed yet.",
        ):
            assert said in words, words
        again = visitor.confirm("/pool/pool2/pause", shown.text, reason="other words")
        assert (again.status_code, it.desk.service.queries.pool("pool2").pool.paused_by) == (200, None)
        answer = visitor.confirm("/pool/pool2/pause", again.text)
        assert (answer.status_code, answer.headers["location"]) == (303, "/pool/pool2")
        page = visitor.page("/pool/pool2")
        assert "(other words): nothing new starts until it is resumed." in page
        assert 'href="/pool/pool2/resume"' in page
        resumed = visitor.page("/pool/pool2/resume")
        assert "1 group (c-1) would start on 1 GPU. Cost: 4 GPUs in pool2 (1 group preempted)." in words_of(resumed)
        assert visitor.confirm("/pool/pool2/resume", resumed).status_code == 303
        assert it.desk.service.queries.pool("pool2").pool.paused_by is None
        wrong = visitor.fill("/pool/pool2/pause", until="soon")
        assert (wrong.status_code, 'id="wrong-until"' in wrong.text) == (422, True)
        shown = visitor.fill("/pool/pool2/pause", until="2h")
        assert visitor.confirm("/pool/pool2/pause", shown.text).status_code == 303
        assert "nothing new starts until 2027-01-15 10:00" in visitor.page("/pool/pool2")


def test_pool_is_closed_and_opened_and_a_concurrent_change_is_noticed(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        form = visitor.page("/pool/pool1/close")
        assert "Queued workflows still start." in words_of(form)
        it.desk.service.declarations.update_pool("pool1", PoolEdit(settings={"description": "theirs"}), user="bob")
        lost = visitor.confirm("/pool/pool1/close", form, reason="Friday")
        assert (lost.status_code, "pool pool1 was changed by bob" in words_of(lost.text)) == (412, True)
        assert visitor.confirm("/pool/pool1/close", lost.text).status_code == 303
        pool = it.desk.service.queries.pool("pool1").pool
        assert (pool.closed_by, pool.closed_reason) == ("ann", "Friday")
        twice = visitor.confirm("/pool/pool1/close", visitor.page("/pool/pool1/close"))
        assert (twice.status_code, "was already closed by ann" in words_of(twice.text)) == (409, True)
        assert visitor.confirm("/pool/pool1/open", visitor.page("/pool/pool1/open")).status_code == 303
        assert it.desk.service.queries.pool("pool1").pool.closed_by is None
        long = visitor.fill("/pool/pool1/close", step="send", reason="x" * 5000)
        assert (long.status_code, 'id="wrong-reason"' in long.text) == (422, True)


# ---------------------------------------------------------------- permissions and errors

PATHS = tuple(f"/pool/pool1/{act}" for act in ("edit", "subpool", "delete", "pause", "close"))


@pytest.mark.parametrize("path", PATHS)
def test_user_who_may_not_edit_gets_no_form_and_is_refused(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        form = fields_of(it.visitor().page(path)) | {"step": "send", GPUS: "4", "name": "x", "quota": "1"}
        for role, status in (("pool1-user", 403), ("pool1-viewer", 403), ("pool2-admin", 404)):
            eve = it.person(f"eve-{status}-{role}", role)
            own = fields_of(eve.page("/me"))["csrf"]
            assert (eve.get(path).status_code, eve.post(path, form | {"csrf": own}).status_code) == (status, status)
            assert eve.get("/pool/pool1/what-if?quota=4").status_code == status
            if status == 403:
                assert f'href="{path}"' not in eve.page("/pool/pool1")
                assert "data-what-if" not in eve.page("/pool/pool1")
        assert [by for by, _ in changes(it, "pool1")] == ["ann"]


def test_pool_admin_changes_queueing_but_nothing_that_affects_others(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        lead = it.person("lead", "pool1-admin")
        assert GPUS not in lead.page("/pool/pool1/edit")
        assert "data-what-if" not in lead.page("/pool/pool1")
        shown = lead.fill("/pool/pool1/edit", queueing="STRICT_FIFO")
        assert lead.confirm("/pool/pool1/edit", shown.text).status_code == 303
        for typed in ({GPUS: "4"}, {"weight": "2"}, {"borrowing_limit default/gpu": "1"}):
            answer = lead.fill("/pool/pool1/edit", **typed)
            assert (answer.status_code, "Required role: admin." in words_of(answer.text)) == (403, True)
        assert lead.get("/pool/pool1/what-if?quota=4").status_code == 403
        assert quota(it, "pool1") == 2


@pytest.mark.parametrize("path", PATHS)
def test_cookie_alone_cannot_edit(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        typed = {"edit": {GPUS: "3"}, "subpool": {"name": "x", "quota": "1"}}.get(path.rpartition("/")[2], {})
        shown = visitor.page(path) if path.endswith("close") else visitor.fill(path, **typed).text
        form = fields_of(shown) | {"step": "send"}
        for wrong in ("", "x", form["csrf"][:-1]):
            assert visitor.post(path, form | {"csrf": wrong}, Accept="*/*").status_code == 401
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert visitor.post(path, form, Accept="*/*", **headers).status_code in (401, 403)
        assert len(changes(it, "pool1")) == 1
        assert visitor.confirm(path, shown).status_code == 303


@pytest.mark.parametrize(
    ("path", "typed", "said"),
    [
        ("/pool/pool1/edit", {GPUS: "many"}, "Invalid number of GPUs 'many'. Use a whole number, 0 or more."),
        ("/pool/pool1/edit", {GPUS: "-1"}, "Invalid number of GPUs '-1'."),
        ("/pool/pool1/edit", {GPUS: "1.5"}, "Invalid number of GPUs '1.5'."),
        ("/pool/pool1/edit", {GPUS: "3,default/cpu=9"}, "Invalid number of GPUs '3,default/cpu=9'."),
        ("/pool/pool1/edit", {"weight": "0"}, "weight: 0 is too small. Use at least 1"),
        ("/pool/pool1/edit", {"weight": "x"}, "'x' is not a whole number from 1 to 1000000."),
        (
            "/pool/pool1/edit",
            {"queueing": "LIFO"},
            "queueing: expected one of BEST_EFFORT_FIFO, STRICT_FIFO, got text 'LIFO'",
        ),
        ("/pool/pool1/edit", {}, "No changes. Change at least one value."),
        ("/pool/pool1/subpool", {"name": "", "quota": "1"}, "Enter the part of the name after pool1--."),
        ("/pool/pool1/subpool", {"name": "A b", "quota": "1"}, "A b"),
        ("/pool/pool1/subpool", {"name": "x", "quota": ""}, "Enter a number of GPUs such as 8"),
        ("/pool/pool1/subpool", {"name": "x", "quota": "200%"}, "200% is more than the parent's quota"),
        ("/pool/pool1/subpool", {"name": "x", "quota": "5"}, "5"),
    ],
)
def test_invalid_number_is_reported_next_to_its_field(
    tmp_path: Path, path: str, typed: dict[str, str], said: str
) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        answer = visitor.fill(path, **typed)
        assert answer.status_code in (400, 422)
        assert said.lower() in words_of(answer.text).lower(), words_of(answer.text)
        kept = fields_of(answer.text)
        assert {name: kept[name] for name in typed if name != "queueing"} == {
            name: value for name, value in typed.items() if name != "queueing"
        }
        assert 'class="planned"' not in answer.text
        assert len(changes(it, "pool1")) == 1


def test_html_in_any_field_of_an_edit_is_escaped(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        for path in PATHS:
            for field in (GPUS, "weight", "queueing", "name", "quota", "tag", "key", "shown"):
                answer = visitor.fill(path, **{"name": "x", "quota": "1"} | {field: SCRIPT})
                assert [each for each in ("<script>alert", "<img src=x") if each in answer.text] == [], (path, field)


# ---------------------------------------------------------------- what if


def test_what_if_shows_effects_and_changes_nothing(tmp_path: Path) -> None:
    with site(tmp_path, cluster=LENT) as it:
        waiting(it)
        visitor = it.visitor()
        before = it.desk.revision
        words = words_of(visitor.page("/pool/pool1/what-if?quota=4"))
        assert "1 group (b-1) would start on 2 GPUs." in words
        assert "Cost: 2 GPUs in pool2 (1 group preempted)." in words
        assert "pool1 2 → 4" in words
        assert "No workflow is affected." in words_of(visitor.page("/pool/pool2/what-if?quota=1"))
        assert "No changes." in words_of(visitor.page("/pool/pool1/what-if?quota=2"))
        for asked in ("", "?quota=", "?quota=-1", "?quota=x", "?quota=1e9", "?quota=99999999999"):
            page = words_of(visitor.page(f"/pool/pool1/what-if{asked}"))
            assert ("Quota 2 GPUs" in page, "would" in page) == (True, False), asked
        answer = visitor.get(f"/pool/pool1/what-if?quota={SCRIPT}")
        assert "<script>alert" not in answer.text
        assert it.desk.revision == before


def test_refusal_is_shown_as_the_result(tmp_path: Path) -> None:
    with site(tmp_path, cluster=TEAM) as it:
        answer = it.visitor().get("/pool/team--a/what-if?quota=9")
        assert (answer.status_code, "team has only 3" in words_of(answer.text)) == (400, True)


def test_hidden_pools_appear_only_as_amounts(tmp_path: Path) -> None:
    with site(tmp_path, cluster=UNSEEN) as it:
        it.desk.submit("first", "mine--s")
        it.desk.service.settle()
        it.desk.submit("work", "zebra", Priority.LOW, gpus=3)
        it.desk.service.settle()
        it.desk.submit("second", "mine--s")
        it.desk.service.settle()
        text = it.person("lead", "mine-admin").page("/pool/mine--s/what-if?quota=2")
        assert "Cost: 3 GPUs in other pools (1 group preempted)." in words_of(text)
        assert "zebra" not in text


def test_query_of_a_disconnected_client_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser goes away while the branches run; they would run for ten seconds more."""
    begun = threading.Event()
    real = plans.outcome_with

    def slow(*args: Any) -> Any:
        begun.set()
        leaving = args[-1]
        for _ in range(1_000):
            if leaving.left:
                break
            threading.Event().wait(0.01)
        return real(*args)

    monkeypatch.setattr(plans, "outcome_with", slow)
    with site(tmp_path, cluster=LENT) as it:
        waiting(it)
        coming: list[dict[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if coming:
                return coming.pop(0)
            await asyncio.to_thread(begun.wait)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(it.app(_scope("/pool/pool1/what-if", b"quota=4"), receive, send))
        assert sent[0]["status"] == 499


def _scope(path: str, query: bytes) -> dict[str, Any]:
    headers = {"host": URL.partition("//")[2], "authorization": f"Bearer {TOKEN}"}
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 1),
        "state": {},
    }


def test_plan_in_words_names_a_few_workflows_and_counts_the_rest() -> None:
    example = example_of(Plan)
    taken = [example_of(PlanPreempted) | {"gang": f"low-{at}/t", "again": at == 0} for at in range(12)]
    many = example | {"preempted": taken, "others": {"preempted": {"gangs": 2, "gpus": 16}}}
    shown = plan_view(read(Plan, many))
    (kind,) = [each for each in shown["kinds"] if each.label == "Preempted"]
    assert (len(kind.items), kind.more) == (9, 4)
    assert kind.items[0].text.endswith("restarts elsewhere")
    assert shown["sentences"][1] == (
        "Cost: 176 GPUs in nlp (11 groups preempted) and 16 GPUs in other pools (2 groups preempted)."
    )
