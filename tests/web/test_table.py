"""The list of workflows: its words, sums and order, and what is done with the chosen ones."""

import csv
import json
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import LabelSelector, TaskKey
from runrig.ports.backend import LogFile, Output
from runrig.ports.store import WorkflowQuery
from runrig.service.queries.visibility import ALL
from runrig.web.pages import workflows as pages
from runrig.web.pages.workflows import _cell
from runrig.web.words import read_words
from tests.web.visitor import Elements, Site, Visitor, fields_of, site, words_of
from tests.worlds.service import one_task, submit
from tests.worlds.workflow_files import sweep

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>'\""


def busy(it: Site) -> None:
    """a-1 has run for 52 s and takes all that pool1 has; b-1 has waited for 51 s, c-1 for 21 s; low-1 runs in pool2."""
    it.desk.submit("a", gpus=2, duration=1_000)
    it.desk.later(9)
    it.desk.submit("b", gpus=2)
    it.desk.later(29)
    it.desk.submit("c", gpus=2)
    it.desk.submit("low", "pool2", Priority.LOW, gpus=1, duration=1_000)
    it.desk.later(20)


def ids(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/workflow/[^"]*">([^<]*)</a>', page)


def listed(visitor: Visitor, **query: str) -> list[str]:
    return ids(visitor.page(f"/workflows?{urlencode(query)}"))


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", WorkflowQuery()),
        ("train", WorkflowQuery(name="train")),
        ("pool:a,b pool:c by:ann", WorkflowQuery(pools=("a", "b", "c"), users=("ann",))),
        ("status:running,FAILED priority:low", WorkflowQuery(statuses=("RUNNING", "FAILED"), priorities=("LOW",))),
        ("label:team=x tag:ok,best", WorkflowQuery(labels=(LabelSelector("team", ("x",)),), tags=("ok", "best"))),
        ("since:2h", WorkflowQuery(submitted_after=NOON.timestamp() - 7200)),
        ("since:yesterday until:today", WorkflowQuery(submitted_after=1769731200.0, submitted_before=1769817600.0)),
        ("since:2026-01-31T10:00", WorkflowQuery(submitted_after=NOON.timestamp() - 7200)),
        ("since:2026-01-31T10:00-02:00", WorkflowQuery(submitted_after=NOON.timestamp())),
    ],
)
def test_search_terms_are_the_filters_of_the_list(text: str, query: WorkflowQuery) -> None:
    assert read_words(text, NOON) == query


def test_all_invalid_search_terms_are_reported_with_a_way_out() -> None:
    with pytest.raises(InvalidInput) as told:
        read_words("pool:a colour:red status:GONE label:x since:soon since:99999999w pool: one two", NOON)
    assert [each.message.partition(". ")[0] for each in told.value.problems] == [
        "invalid word 'colour:red'",
        "invalid word 'status:GONE'",
        "invalid word 'label:x': 'x' is not a label selector",
        "invalid word 'since:soon'",
        "invalid word 'since:99999999w'",
        "invalid word 'pool:'",
        "use only one part of a name, not 'one and two'",
    ]
    with pytest.raises(InvalidInput, match="at most 1,000 characters"):
        read_words("x" * 5_000, NOON)


def test_invalid_search_terms_stay_in_the_field_as_text(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        answer = it.visitor().get(f"/workflows?{urlencode({'q': f'colour:{SCRIPT}'})}")
        assert (answer.status_code, 'role="alert"' in answer.text, ids(answer.text)) == (422, True, [])
        assert not {each for each in ("<script>alert", "<img src=x") if each in answer.text}
        assert f"colour:{SCRIPT}" in [each.get("value") for each in Elements(answer.text).named("input")]
        assert it.visitor().get("/workflows?sort=colour").status_code == 422


def test_list_has_all_matches_even_with_addresses_of_older_releases(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        assert listed(visitor) == ["low-1", "c-1", "b-1", "a-1"]
        assert listed(visitor, q="status:PENDING") == listed(visitor, status="PENDING") == ["c-1", "b-1"]
        assert listed(visitor, q="pool:pool2") == listed(visitor, pool="pool2", priority="LOW") == ["low-1"]
        assert listed(visitor, q="by:nobody") == listed(visitor, user="nobody") == []
        assert listed(visitor, q="b") == listed(visitor, name="b") == ["b-1"]


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("submitted", ["a-1", "b-1", "c-1", "low-1"]),
        ("-submitted", ["low-1", "c-1", "b-1", "a-1"]),
        ("-waited", ["b-1", "c-1", "low-1", "a-1"]),
        ("-ran", ["a-1", "low-1", "c-1", "b-1"]),
        ("-workflow", ["low-1", "c-1", "b-1", "a-1"]),
    ],
)
def test_list_can_be_sorted_by_durations_that_still_grow(tmp_path: Path, sort: str, found: list[str]) -> None:
    with site(tmp_path) as it:
        busy(it)
        assert listed(it.visitor(), sort=sort) == found


def test_pages_of_the_list_begin_at_a_workflow_and_the_first_one_is_always_full(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        for _ in range(pages.PAGE + 3):
            it.desk.submit("a", gpus=2)
        visitor = it.visitor()
        every = [f"a-{number}" for number in range(pages.PAGE + 3, 0, -1)]

        def leads_to(page: str, words: str) -> str | None:
            found = re.search(rf'<a href="([^"]*)"[^>]*>{words}</a>', page)
            return unescape(found[1]) if found else None

        for sort in ("", "-waited"):
            first = visitor.page(f"/workflows?sort={sort}")
            assert (ids(first), leads_to(first, "Previous")) == (every[:50] if not sort else every[::-1][:50], None)
            address = leads_to(first, "Next")
            assert address is not None
            it.desk.submit("new", "pool2", gpus=1)
            second = visitor.page(address)
            assert [each for each in ids(second) if each in every] == (every[50:] if not sort else every[::-1][50:])
            back = visitor.page(leads_to(second, "Previous") or "")
            assert ids(back) == ids(first)
            if not sort:
                whole = visitor.page(leads_to(back, "Previous") or "")
                assert (ids(whole)[0], len(ids(whole)), leads_to(whole, "Previous")) == ("new-1", 50, None)
        assert visitor.get("/workflows?after=x").status_code == 422
        assert visitor.get(f"{address}".replace("sort=-waited", "sort=workflow")).status_code == 422


def test_an_array_opens_in_place_with_its_elements_by_page(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("sweep", text=sweep("0-14"), pool="pool1")
        it.desk.submit("a", gpus=1)
        it.desk.service.settle()
        visitor = it.visitor()
        folded = visitor.page("/workflows?q=pool:pool1")
        (closed,) = [each for each in Elements(folded).named("a") if "data-fold" in each]
        assert (closed["aria-expanded"], "sweep-1/0" in folded) == ("false", False)
        page = visitor.page(str(closed["href"]))
        turn, more = [str(each["href"]) for each in Elements(page).named("a") if "data-fold" in each]
        assert re.findall(r">(sweep-1/[0-9]+)<", page) == [f"sweep-1/{number}" for number in range(10)]
        text = words_of(page)
        assert "sweep-1/1 RUNNING" in text
        assert "Arrays W4 at most 2 at a time" in text
        assert "1–10 of 15 elements, failed and running first Next elements" in text
        rest = visitor.page(more)
        assert re.findall(r">(sweep-1/[0-9]+)<", rest) == [f"sweep-1/{number}" for number in range(10, 15)]
        assert ids(visitor.page(turn)) == ids(folded)
        assert ids(visitor.page("/workflows?open=nothing-1&open=a-1&open=sweep-1:99&open=:&open=sweep-1:x"))
        arrays = visitor.page("/workflows?q=is:array")
        assert (re.findall(">((?:sweep|a)-1)<", arrays), "1 workflow 1 RUNNING" in words_of(arrays)) == (
            ["sweep-1"],
            True,
        )
        assert "Arrays 1" in words_of(folded)
        path = choice("cancel", "sweep-1/0", "sweep-1/14", "sweep-1/99", "a-1/0")
        shown = visitor.page(path)
        assert re.search(
            "sweep-1/0 stops 1 pod with 1 GPU sweep-1/14 leaves the queue sweep-1/99 not changed: .*a-1/0 not changed: .*"
            "2 of 4 would be changed",
            words_of(shown),
        )
        assert "sweep-1/0 not changed: a single element can only be canc" in words_of(
            visitor.page(choice("hold", "sweep-1/0"))
        )
        only = choice("cancel", "sweep-1/0", "sweep-1/14")
        assert visitor.confirm(only, visitor.page(only)).status_code == 303
        it.desk.service.settle()
        it.desk.later(60)
        statuses = it.desk.service.workflow_queries.statuses("sweep-1", ALL)
        assert {name for name, each in statuses.items() if each.value == "FAILED_CANCELED"} == {"0", "14"}


def test_the_reader_chooses_the_columns_and_the_browser_keeps_them(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", gpus=2)
        visitor = it.visitor()

        def heads() -> str:
            return words_of("<main" + visitor.page("/workflows").partition("<thead>")[2].partition("</thead>")[0])

        usual = heads()
        assert (
            usual == "Select Workflow Status Priority Pool By Submitted (UTC) ↓ GPUs Waited Ran Node, reason or cause"
        )
        form = fields_of(visitor.page("/workflows/columns?q=a&sort=-ran"))
        few = {name: form[name] for name in ("csrf", "key", "shown")} | {"pool": "on", "labels": "on", "x": "on"}
        answer = visitor.post("/workflows/columns?q=a&sort=-ran", few)
        assert (answer.status_code, answer.headers["location"]) == (303, "/workflows?q=a&sort=-ran")
        assert heads() == "Select Workflow Pool Labels"
        assert visitor.fill("/workflows/columns", **{name: "on" for name in form if name not in few}).status_code == 303
        again = fields_of(visitor.page("/workflows/columns"))
        visitor.post("/workflows/columns", {name: again[name] for name in again if name not in ("labels", "ended")})
        assert heads() == usual


# ---------------------------------------------------------------- sums


def test_sums_cover_all_matches_and_not_only_the_page(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        text = words_of(visitor.page("/workflows"))
        assert (
            "4 workflows 2 PENDING 2 RUNNING 3 GPUs run 4 wait waited 25s on average ran 52s in all "
            "oldest pending submitted 51s ago" in text
        )
        assert "Mine 4 Running 2 Waiting 2 Failed today 0 Arrays 0 All of today 4" in text
        assert "2 workflows 2 PENDING 0 GPUs run 4 wait" in words_of(visitor.page("/workflows?q=status:PENDING"))
        assert "1 workflow 1 RUNNING 1 GPU runs" in words_of(it.person("eve", "pool2-user").page("/workflows"))


def test_sums_read_only_what_they_show(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        totals = it.desk.service.totals
        some = WorkflowQuery(submitted_after=0.0)
        few = totals.of(some, 3, ALL)
        assert (few.statuses, few.whole) == ({"PENDING": 2, "RUNNING": 1}, False), "the newest three"
        assert totals.of(some, 5, ALL) == totals.of(WorkflowQuery(), 3, ALL), "these are kept, and cost no reads"


# ---------------------------------------------------------------- place, reason or cause


def test_each_row_shows_where_it_runs_why_it_waits_or_why_it_failed(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        it.desk.submit("bad", "pool2", gpus=1)
        it.desk.service.settle()
        key = TaskKey("bad-1", "main", 0)
        (tmp_path / "log").write_text(f"Traceback (most recent call last):\n  x\nKeyError: {SCRIPT}\n")
        it.desk.backend.written = {key: Output(LogFile(str(tmp_path), "log"))}
        it.desk.backend.facts = {key: TaskFact(Phase.ENDED, 1, by_itself=True)}
        it.desk.later(1)
        page = it.visitor().page("/workflows")
        rows = dict(zip(ids(page), re.findall(r'<td class="place">(.*?)</td>', page, re.DOTALL), strict=True))
        text = {id: re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", row)).strip() for id, row in rows.items()}
        assert (text["a-1"], text["low-1"]) == ("n0", "n0")
        assert text["b-1"].startswith("Guarantee P2 ")
        assert text["bad-1"].startswith("KeyError: &lt;script&gt;alert(1)")
        assert text["bad-1"].endswith("main, exit code 1")


# ---------------------------------------------------------------- selected rows


def choice(do: str, *chosen: str) -> str:
    return f"/workflows/act?{urlencode([('do', do), *(('id', each) for each in chosen)])}"


def test_selected_workflows_change_only_after_a_preview(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor, before = it.visitor(), it.desk.revision
        path = choice("cancel", "a-1", "b-1")
        shown = visitor.page(path)
        assert "a-1 stops 1 pod with 2 GPUs b-1 leaves the queue 2 workflows would be changed" in words_of(shown)
        assert it.desk.revision == before
        answer = visitor.confirm(path, shown)
        assert (answer.status_code, answer.headers["location"]) == (303, "/workflows?q=")
        it.desk.service.settle()
        it.desk.later(60)
        assert [it.desk.status(each) for each in ("a-1", "b-1", "c-1")] == [
            "FAILED_CANCELED",
            "FAILED_CANCELED",
            "RUNNING",
        ]


def test_each_command_previews_its_effect_and_then_does_it(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        held = visitor.page(choice("hold", "b-1", "a-1"))
        assert "b-1 does not start until it is released a-1 not changed: " in words_of(held)
        answer = visitor.confirm(choice("hold", "b-1"), visitor.page(choice("hold", "b-1")))
        assert (answer.status_code, it.desk.store.head("b-1").held_by) == (303, "ann")
        assert "b-1 would " in words_of(visitor.page(choice("release", "b-1")))
        visitor.confirm(choice("release", "b-1"), visitor.page(choice("release", "b-1")))
        assert it.desk.store.head("b-1").held_by is None
        low = visitor.page(choice("LOW", "c-1"))
        assert "c-1 would wait: needs 2" in words_of(low)
        visitor.confirm(choice("LOW", "c-1"), low)
        assert it.desk.store.head("c-1").priority is Priority.LOW


def test_user_without_permission_for_one_changes_only_the_others_and_learns_that(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        eve = it.person("eve", "pool1-user")
        own = submit(it.desk.service, one_task("own", gpus=2), "pool1", "eve")
        shown = eve.page(choice("cancel", "b-1", own, "low-1", "nothing-1"))
        text = words_of(shown)
        assert "own-1 leaves the queue" in text
        assert "1 workflow would be changed" in text
        assert re.search(r"b-1 not changed: .*low-1 not changed: .*nothing-1 not changed: ", text)
        answer = eve.confirm(choice("cancel", "b-1", own), shown)
        assert (answer.status_code, "1 of 2 are changed. Not changed: b-1: " in words_of(answer.text)) == (409, True)
        assert [it.desk.status(each) for each in ("b-1", "own-1")] == ["PENDING", "FAILED_CANCELED"]
        assert 'type="checkbox"' not in it.person("nina", "pool1-viewer").page("/workflows")


def test_empty_selections_unknown_commands_and_excess_are_reported(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        assert "No workflow is selected" in visitor.page(choice("cancel"))
        assert visitor.get(choice("explode", "a-1")).status_code == 422
        too_many = choice("cancel", *(f"a-{number}" for number in range(51)))
        assert visitor.get(too_many).status_code == 422
        assert visitor.confirm(too_many, visitor.page(choice("cancel"))).status_code == 422


# ---------------------------------------------------------------- files


def test_list_can_be_saved_as_json_and_csv(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        found = visitor.get("/workflows/list.json?q=status:PENDING")
        assert found.headers["content-disposition"] == 'attachment; filename="workflows.json"'
        assert [each["id"] for each in json.loads(found.text)["items"]] == ["c-1", "b-1"]
        table = visitor.get("/workflows/list.csv?q=pool:pool1&sort=workflow")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        (first, *_, last) = csv.DictReader(table.text.splitlines())
        assert first == {
            "id": "a-1",
            "status": "RUNNING",
            "priority": "NORMAL",
            "pool": "pool1",
            "submitted_by": "ann",
            "submit_time": "2027-01-15T08:00:01Z",
            "gpus": "2",
            "waited_s": "9.0",
            "ran_s": "52.0",
            "node": "n0",
        }
        assert last["id"] == "c-1"
        assert visitor.get("/workflows/list.csv?q=colour:red").status_code == 422


def test_exported_cell_is_never_a_formula() -> None:
    assert [_cell(each) for each in ("=1+1", "@x", "-2", "a", -2, None)] == ["'=1+1", "'@x", "'-2", "a", -2, None]
