"""Pages of an earlier time, without script: what is on them is what was on them then."""

import re
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from runrig.service.past.past import MOST_AT_ONCE
from runrig.service.queries.visibility import ALL
from tests import patience
from tests.web.visitor import Elements, Site, site
from tests.worlds.service import do

PAGES = ("/", "/map", "/waiting", "/workflows", "/workflows?status=RUNNING", "/workflow/a-1", "/pool/pool1", "/node/n0")
_TIME = re.compile(r'<section class="time.*?</section>', re.DOTALL)


def history(it: Site) -> None:
    """a-1 runs and takes all that its pool has; b-1 waits behind it, then c-1 in front."""
    it.desk.service.keeper.step()
    it.desk.submit("a", gpus=2)
    it.desk.service.settle()
    it.desk.submit("b", gpus=2)
    it.desk.service.settle()


def body(text: str) -> str:
    """What a page shows, but for the time, and for what is told of now only."""
    text = _TIME.sub("", text)
    text = re.sub(
        r"[?&](?:amp;)?at=\d+|<input type=\"hidden\" name=\"at\"[^>]*>| data-(?:at|revision)=\"\d+\"", "", text
    )
    now_only = (
        '<nav class="picks".*?</nav>|<p class="facts" id="sums">.*?</p>|<p class="chosen".*?</p>| ?<a href="/workflows/list.*?</a>'
        '|<th><span class="unseen">Select</span></th>|<td><input type="checkbox".*?</td>'
    )
    text = re.sub(now_only, "", text, flags=re.DOTALL)
    text = re.sub(r'<p class="acts">.*?</p>|<section [^>]*"what-title".*?</section>', "", text, flags=re.DOTALL)
    text = re.sub(r'<section [^>]*"(?:yours|trend)-title".*?</section>\s*', "", text, flags=re.DOTALL)
    text = re.sub(r'<section id="would".*?</section>|<p class="untold panel">.*?</p>', "", text, flags=re.DOTALL)
    return re.sub(r'<section [^>]*"output-title".*?</section>', "", text, flags=re.DOTALL)


@pytest.mark.parametrize("path", PAGES)
def test_page_at_a_revision_equals_the_page_at_that_time(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        history(it)
        visitor, then = it.visitor(), it.desk.revision
        before = visitor.page(path)
        do(it.desk.service, it.desk.service.submissions.cancelling("a-1", user="ann"))
        it.desk.later(50)
        it.desk.submit("d", "pool2", gpus=1)
        it.desk.later(1)
        it.desk.service.keeper.step()
        assert body(visitor.page(path)) != body(before) or path == "/map"
        sign = "&" if "?" in path else "?"
        found = visitor.page(f"{path}{sign}at={then}")
        assert body(found) == body(before)
        assert f"(revision {then})" in found


def test_past_page_shows_its_time_and_links_to_the_same_time_and_to_now(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        visitor = it.visitor()
        it.desk.later(500)
        first = it.desk.store.past.checkpoints()[0].revision
        found = visitor.page(f"/?at={first + 1}")
        elements = Elements(found)
        links = [
            each for each in elements.addresses if not each.startswith(("/static/", "/me", "/page/", "#", "/logout"))
        ]
        assert {each for each in links if "at=" not in each} == {"/", "/usage", "/find", "/submit"}
        assert "State at <time" in found
        assert f'data-at="{first + 1}"' in found
        assert 'name="at"' in visitor.page(f"/waiting?at={first + 1}").partition('class="filters"')[2]
        assert "data-at" not in visitor.page("/")


def test_time_steps_visit_every_decision(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        it.desk.later(500)
        visitor, found = it.visitor(), []
        first = it.desk.store.past.checkpoints()[0].revision
        page = visitor.page(f"/map?at={first}")
        while (forward := _link(page, "forward")) is not None:
            found.append(int(forward.partition("at=")[2]))
            page = visitor.page(forward)
        decided = {each.revision for each in it.desk.store.past.steps(after=first, upto=it.desk.revision)}
        assert found == sorted(decided)
        back = []
        while (link := _link(page, "back")) is not None:
            back.append(int(link.partition("at=")[2]))
            page = visitor.page(link)
        assert back == [*found[:-1][::-1], first][: len(back)]
        assert set(found[:-1]) <= set(back)


def _link(page: str, id: str) -> str | None:
    match = re.search(rf'id="{id}"[^>]*href="([^"]*)"', page)
    return None if match is None else match[1].replace("&amp;", "&")


NOT_KEPT = {
    "nonsense": "or a revision number",
    "-1": "or a revision number",
    "1": "no history for revision 1. history covers",
    "9" * 18: "no history for",
    "9" * 40: "or a revision number",
    "1999-12-31T23:59:59Z": "no history for 1999-12-31 23:59:59 utc",
    "2999-01-01T00:00:00Z": "no history for 2999-01-01 00:00:00 utc",
    "0001-01-01T00:00:00+14:00": "or a revision number",
    "9999-12-31T23:59:59-14:00": "or a revision number",
    "2027-01-15T08:00:00 x": "or a revision number",
    "<script>": "or a revision number",
}


def test_time_without_history_has_a_page_that_explains_it(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        visitor = it.visitor()
        asked = [("/", each) for each in NOT_KEPT] + [(path, "nonsense") for path in PAGES if "?" not in path]
        for path, at in asked:
            answer = visitor.http.get(path, params={"at": at}, headers={"Accept": "text/html"})
            assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
            assert NOT_KEPT[at] in answer.text.lower()
            assert "<script>" not in answer.text


def test_time_bar_is_missing_without_history(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        assert 'id="time"' not in visitor.page("/")
        answer = visitor.get("/?at=1")
        assert (answer.status_code, "No history is stored yet" in answer.text) == (400, True)


def test_time_can_be_given_in_every_form(tmp_path: Path) -> None:
    """What a form sends, with an offset, with a plus that was taken for a space."""
    with site(tmp_path) as it:
        history(it)
        visitor = it.visitor()
        pages = {
            visitor.page(f"/map?at=2027-01-15T{each}")
            for each in ("08:00:02Z", "08:00:02", "09:00:02+01:00", "09:00:02%2B01:00")
        }
        assert len({_TIME.search(page)[0] for page in pages}) == 1  # type: ignore[index]


def test_excess_queries_about_the_past_get_a_retry_time(tmp_path: Path) -> None:
    """Four at once: one looks, and three wait for it."""
    with site(tmp_path) as it:
        history(it)
        visitor, at = it.visitor(), it.desk.revision
        with ExitStack() as turns:
            for _ in range(MOST_AT_ONCE):
                turns.enter_context(it.desk.service.past._turns.turn())
            for path in (f"/map?at={at}", f"/page/state?at={at}"):
                answer = visitor.get(path)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert visitor.get("/map").status_code == 200
        assert visitor.get(f"/map?at={at}").status_code == 200


def test_past_pages_do_not_wait_for_the_state_lock(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        past, at, done = it.desk.service.past, it.desk.revision, threading.Event()

        def look() -> None:
            with past.at(past.moment(at)) as then:
                then.boards.board(ALL)
            done.set()

        with it.desk.service._transactor.reading():
            other = threading.Thread(target=look)
            other.start()
            assert done.wait(patience.PATIENCE_S)
        other.join()


def test_hidden_objects_are_hidden_in_the_past_too(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        it.desk.submit("unseen-work", "pool2", gpus=1)
        it.desk.service.settle()
        at = it.desk.revision
        visitor = it.person("eve", "pool1-user")
        for path in (
            "/",
            "/map",
            "/waiting",
            "/workflows",
            "/pool/pool1",
            "/node/n0",
            "/page/state",
            "/page/layout",
            "/page/series",
        ):
            text = visitor.get(f"{path}?at={at}").text
            assert "unseen-work" not in text
            assert "pool2" not in text
        for path in ("/workflow/unseen-work-1", "/pool/pool2"):
            assert visitor.get(f"{path}?at={at}").status_code in (403, 404)


def test_past_pages_equal_the_pages_at_that_time(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        visitor, at = it.visitor(), it.desk.revision
        before = visitor.get("/page/state").json(), visitor.get("/page/layout").json()
        it.desk.later(500)
        assert (visitor.get(f"/page/state?at={at}").json(), visitor.get(f"/page/layout?at={at}").json()) == before


def test_curve_shows_usage_and_demand(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        history(it)
        it.desk.later(500)
        it.desk.later(500)
        found = it.visitor().get("/page/series?points=500").json()
        held = [point[1:] for point in found["points"]]
        assert held[0] == [0, 0, 0]
        assert [2, 0, 2] in held
        assert [2, 0, 0] in held
        assert held[-1] == [0, 0, 0]
        assert found["points"] == sorted(found["points"], key=lambda point: point[0])
        assert len(it.visitor().get("/page/series?points=3").json()["points"]) <= 4
