"""Pages over HTTP: who gets in, what they are sent, and what they must not be sent."""

import json
import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from runrig.api.app import described
from runrig.domain.gangs import Priority
from runrig.http.permissions import declared
from runrig.web import files, rendering
from runrig.web.install import ROUTES
from tests.api.client import TOKEN, URL
from tests.web.visitor import Elements, Site, site, words_of
from tests.worlds.service import one_task

PAGES = (
    "/",
    "/map",
    "/waiting",
    "/workflows",
    "/workflow/a-1",
    "/workflow/b-1?would=own",
    "/pool/pool1",
    "/usage",
    "/node/n0",
    "/me",
    "/submit",
    "/workflow/a-1/cancel",
    "/workflow/a-1/again",
    "/pool/pool1/edit",
    "/pool/pool1/subpool",
    "/pool/pool1/delete",
    "/pool/pool1/what-if?quota=4",
    "/me/pool",
    "/me/notices",
    "/me/notices/off",
    "/me/token",
)
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>'\""


def busy(it: Site) -> None:
    """a-1 runs in pool1 and takes all it has; b-1 waits behind it."""
    it.desk.submit("a", gpus=2)
    it.desk.service.settle()
    it.desk.submit("b", gpus=2)
    it.desk.service.settle()


@pytest.mark.parametrize("path", PAGES)
def test_page_is_complete_and_loads_nothing_from_other_sites(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        busy(it)
        answer = it.visitor().get(path)
        elements = Elements(answer.text)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert answer.headers["content-security-policy"] == rendering.POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert (answer.headers["x-frame-options"], answer.headers["cross-origin-opener-policy"]) == (
            "DENY",
            "same-origin",
        )
        assert [each for each in elements.addresses if not each.startswith(("/", "#"))] == []
        assert len(elements.named("h1")) == len(elements.named("main")) == 1
        assert [each for each in elements.named("script") if "src" not in each] == []
        assert [
            name for _, attributes in elements.found for name in attributes if name.startswith("on") or name == "style"
        ] == []
        ids = [str(attributes["id"]) for _, attributes in elements.found if "id" in attributes]
        assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("path", PAGES)
def test_every_link_on_a_page_works(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        there = {each.partition("#")[0] for each in Elements(visitor.page(path)).addresses if not each.startswith("#")}
        assert [each for each in sorted(there - {"/logout"}) if visitor.get(each).status_code != 200] == []


def test_every_page_route_declares_its_permission() -> None:
    assert [route for route in ROUTES if not isinstance(route, APIRoute) or not list(declared(route))] == []


def test_workflow_page_has_the_whole_answer(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        limited = one_task("a", gpus=2).replace("  tasks:", "  timeout: {exec_timeout: 1h}\n  tasks:", 1)
        it.desk.submit("a", text=limited)
        it.desk.service.settle()
        it.desk.submit("b", gpus=2)
        it.desk.service.settle()
        shown = it.visitor().page("/workflow/b-1?would=own")
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", shown))
        why = it.desk.service.workflow_queries.why("b-1")
        assert why.sentence in text
        for group in why.groups:
            assert group.blockers
            for blocker in group.blockers:
                assert str(blocker.reason) in text
        assert "set its priority to LOW" in text or "move it to pool pool2" in text
        assert re.search("wait nothing changes until [0-9: -]{19} UTC, when a-1 reaches its time limit", text)


def test_user_text_is_escaped(tmp_path: Path) -> None:
    file = one_task("a").replace("command: [sleep, '1']", f"command: [echo, {json.dumps(SCRIPT)}]")
    with site(tmp_path) as it:
        it.desk.submit("a", text=file)
        it.desk.service.settle()
        visitor = it.visitor()
        for path in (
            "/",
            "/workflow/a-1",
            f"/workflows?name={SCRIPT}&user={SCRIPT}&pool={SCRIPT}",
            f"/waiting?pool={SCRIPT}&law={SCRIPT}",
            f"/pool/{SCRIPT}",
            f"/node/{SCRIPT}",
            f"/workflow/{SCRIPT}",
            f"/login?next={SCRIPT}",
        ):
            answer = visitor.get(path)
            assert [each for each in ("<script>alert", "<img src=x") if each in answer.text] == [], path
            assert answer.headers["content-security-policy"] == rendering.POLICY, path
        assert "&lt;script&gt;alert(1)" in visitor.page("/workflow/a-1")


def test_errors_are_pages_or_json(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        page = visitor.get("/workflow/nothing")
        assert (page.status_code, "not found. List workflows" in page.text) == (404, True)
        program = visitor.get("/workflow/nothing", Accept="*/*")
        assert (program.status_code, program.json()["error_code"]) == (404, "NOTFOUND")


# ---------------------------------------------------------------- logging in and out


def test_token_signs_in_and_the_cookie_is_not_readable_by_scripts(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        answer = visitor.sign_in(TOKEN, "/waiting?law=P2")
        assert (answer.status_code, answer.headers["location"]) == (303, "/waiting?law=P2")
        cookie = answer.headers["set-cookie"].lower()
        assert all(each in cookie for each in ("httponly", "samesite=strict", "path=/", "max-age=604800"))
        assert TOKEN not in cookie


@pytest.mark.parametrize(
    "next",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/api/v1/pools",
        "javascript:alert(1)",
        "",
        "/login",
        "/logout",
        "/pool/a\nb",
    ],
)
def test_login_never_redirects_to_another_site(tmp_path: Path, next: str) -> None:
    with site(tmp_path) as it:
        assert it.visitor().sign_in(TOKEN, next).headers["location"] == "/"


def test_invalid_token_stays_on_the_login_page(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        for shown in ("wrong", "", f"{TOKEN}x"):
            answer = visitor.sign_in(shown)
            assert (answer.status_code, "set-cookie" in answer.headers, 'role="alert"' in answer.text) == (
                401,
                False,
                True,
            )
        assert visitor.sign_in(TOKEN, Origin="https://evil.example").status_code == 403
        assert visitor.sign_in(TOKEN, Origin="null").status_code == 403


def test_logout_ends_the_session_and_cannot_be_forged(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        (csrf,) = [each["value"] for each in Elements(visitor.page("/me")).named("input") if each.get("name") == "csrf"]
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": URL}
        assert visitor.http.post("/logout", content="csrf=wrong", headers=form).status_code == 403
        assert visitor.get("/").status_code == 200
        kept = dict(visitor.http.cookies)
        assert visitor.http.post("/logout", content=f"csrf={csrf}", headers=form).headers["location"] == "/login"
        visitor.http.cookies.update(kept)
        assert visitor.get("/").headers["location"] == "/login"


def test_page_with_a_secret_is_not_compressed(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        busy(it)
        assert visitor.get("/", **{"Accept-Encoding": "gzip"}).headers["content-encoding"] == "gzip"
        assert "content-encoding" not in visitor.get("/me", **{"Accept-Encoding": "gzip"}).headers


def test_static_files_are_cached_forever_under_a_unique_name(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        found = [each for each in Elements(visitor.page("/")).addresses if each.startswith("/static/")]
        assert {each.rpartition(".")[2] for each in found} == {"css", "js", "svg"}
        for each in found:
            answer = visitor.get(each)
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert visitor.get("/static/another/page.css").status_code == 404


def test_all_scripts_and_styles_together_stay_small_and_are_sent_without_comments() -> None:
    assert not [name for name, each in files._FILES.items() if b"\n//" in each.plain or each.plain.startswith(b"//")]
    assert sum(len(each.zipped) for each in files._FILES.values()) <= 24_000


# ---------------------------------------------------------------- work of other users


def test_pages_contain_no_names_of_hidden_pools(tmp_path: Path) -> None:
    cluster = "pools: [{name: mine, quota: 2}, {name: zebra, quota: 2}]"
    with site(tmp_path, cluster=cluster) as it:
        it.desk.submit("zebra-work", "zebra", Priority.LOW, gpus=3)
        it.desk.service.settle()
        it.desk.submit("zebra-wait", "zebra", gpus=2)
        it.desk.submit("own", "mine", gpus=2)
        it.desk.service.settle()
        visitor = it.person("eve", "mine-user")
        paths = (
            "/",
            "/map",
            "/waiting",
            "/workflows",
            "/workflow/own-1?would=all",
            "/pool/mine",
            "/usage",
            "/node/n0",
            "/me",
            "/submit",
            "/workflow/own-1/again",
            "/page/state",
            "/page/layout",
            "/waiting?pool=zebra",
            "/pool/zebra",
            "/workflow/zebra-work-1",
            "/page/output/zebra-work-1",
        )
        for path in paths:
            text = visitor.get(path).text
            if path.startswith(("/waiting?", "/pool/zebra", "/workflow/zebra", "/page/output")):
                text = text.replace(path.rpartition("/")[2].rpartition("=")[2], "")  # the requested page
            assert "zebra" not in text, path
        for path in paths[-3:]:
            assert visitor.get(path).status_code == 404


def test_user_without_roles_sees_only_that_message(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.person("nina")
        assert "You do not have access to any pool." in visitor.page("/")
        assert [visitor.get(path).status_code for path in ("/map", "/page/state", "/node/n0")] == [403] * 3
        assert "You have no roles" in visitor.page("/me")


def test_page_of_a_paused_pool_and_its_subpools_shows_who_paused_it(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        it.desk.service.declarations.pause_pool("pool1", user="ada", reason="the disks are checked")
        words = words_of(it.person("eve", "pool1-user").page("/pool/pool1"))
        assert "(the disks are checked): nothing new starts until it is resumed." in words
        assert "Paused by ada at" in words
        assert "0 1 paused or on hold" in words
        assert "Nothing is in the queue; 1 group paused or on hold." in words
        assert re.search("paused since: none → [0-9-]{10} [0-9:]{8} UTC", words)


def test_openapi_document_has_no_pages(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        assert it.app.openapi()["paths"].keys() == described().openapi()["paths"].keys()


def test_parent_counts_and_lists_work_in_its_subpools(tmp_path: Path) -> None:
    cluster = (
        "pools: [{name: team, quota: 3, subpools: [{name: a, quota: 1}, {name: b, quota: 1}]}, {name: else, quota: 1}]"
    )
    with site(tmp_path, cluster=cluster) as it:
        for name, pool in (
            ("one", "team--a"),
            ("two", "team--a"),
            ("three", "team--b"),
            ("four", "team--b"),
            ("five", "else"),
        ):
            it.desk.submit(name, pool, gpus=1)
            it.desk.service.settle()
        it.desk.submit("six", "else", gpus=1)
        it.desk.service.settle()
        visitor = it.visitor()
        page = visitor.page("/pool/team")
        assert "Waiting 2" in words_of(page)
        assert {f"{name}-1" in page for name in ("one", "two", "three", "four")} == {True}
        assert not {each for each in ("five-1", "six-1") if each in page}
        listed = visitor.page("/workflows?pool=team")
        assert {f"{name}-1" in listed for name in ("one", "two", "three", "four")} == {True}
        assert "five-1" not in listed
        filtered = visitor.page("/waiting?pool=team")
        assert {each for each in ("two-1", "four-1", "six-1") if each in filtered} == {"two-1", "four-1"}


def test_task_table_shows_the_gpus_of_each_task(tmp_path: Path) -> None:
    with site(tmp_path, cluster="pools: [{name: pool1, quota: 1}, {name: pool3, quota: 3}]") as it:
        for name, gpus in (("first", 1), ("second", 3)):
            it.desk.submit(name, f"pool{gpus}", gpus=gpus)
        it.desk.service.settle()
        for name, gpus in (("first", 1), ("second", 3)):
            page = it.visitor().page(f"/workflow/{name}-1")
            row = re.search(r"#output-title\">main</a>.*?</tr>", page, re.DOTALL)
            assert row is not None
            assert re.findall(r"<td class=\"n\">(.*?)</td>", row.group()) == [str(gpus), "–"]
