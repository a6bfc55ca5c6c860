"""The pages of a cluster of four nodes in use, whose texts are hostile: every page, search and act, in every way and view."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import looks
from tests.browser.lab import Watched
from tests.browser.small import HOSTILE, Small, small
from tests.browser.table import ACTS, PAGES, SEARCHES, Act, Search, Way, covers, covers_routes, notices_on, read_by
from tests.browser.table import Page as PageRow
from tests.browser.walk import MADE, acted, searched, toured, visited
from tests.web.test_every_route import routes
from tests.web.visitor import Elements


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small(tmp_path_factory.mktemp("small")) as it:
        yield it


def _looking(cluster: Small, chromium: Browser, **more: object) -> Iterator[Watched]:
    context = cluster.context(chromium, **more)  # type: ignore[arg-type]
    yield Watched(context.new_page(), cluster)
    context.close()


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest) -> None:
    """No test has the complaints of the one before."""
    for name in {"scripted", "plain", "narrow"} & {*request.fixturenames}:
        request.getfixturevalue(name).complaints.clear()


@pytest.fixture(scope="module")
def scripted(cluster: Small, chromium: Browser) -> Iterator[Watched]:
    yield from _looking(cluster, chromium)


@pytest.fixture(scope="module")
def plain(cluster: Small, chromium: Browser) -> Iterator[Watched]:
    yield from _looking(cluster, chromium, java_script_enabled=False)


@pytest.fixture(scope="module")
def narrow(cluster: Small, chromium: Browser) -> Iterator[Watched]:
    yield from _looking(cluster, chromium, width=390, height=844, scheme="dark")


REFUSED = re.compile("status of (400|401|404|409|422)")
"""What the browser says of a form that is refused."""


def content(watched: Watched) -> None:
    complaints = [each for each in watched.complaints if not REFUSED.search(each)]
    watched.complaints = []
    assert complaints == []


# ---------------------------------------------------------------- every page, search and act


@covers(PAGES, Way.HOSTILE)
def test_page_is_complete_and_accessible_in_every_view(cluster: Small, narrow: Watched, row: PageRow) -> None:
    page = narrow.page
    visited(page, cluster, row.at)
    for summary in page.locator("main summary").all():
        summary.click()
    found = looks.faults(page, looks.VIEWS[::-1])
    assert found == [], found
    assert page.evaluate(MADE) == []
    content(narrow)


@covers(PAGES, Way.KEYBOARD, Way.PLAIN)
def test_page_is_toured_by_keyboard_alone_and_says_as_much_without_scripts(
    cluster: Small, scripted: Watched, plain: Watched, row: PageRow
) -> None:
    toured(scripted.page, cluster, row.at)
    content(scripted)
    visited(plain.page, cluster, row.at)
    assert plain.page.evaluate(SAYS) == scripted.page.evaluate(SAYS)
    assert plain.page.evaluate(DEAD) == []
    content(plain)


SAYS = """() => [...document.querySelectorAll('h1, h2, h3, dt, th[scope=col], main [aria-label]')]
  .map((e) => e.matches('[aria-label]') ? e.ariaLabel : e.textContent.trim())"""
"""What the page is about."""
DEAD = """() => [...document.querySelectorAll('button[type=button], .scripted, canvas, a[href="#"], a:not([href])')]
  .filter((e) => e.checkVisibility()).map((e) => e.outerHTML)"""
"""What would do nothing."""


@covers(SEARCHES, Way.KEYBOARD, Way.HOSTILE)
def test_search_is_used_by_keyboard_alone_with_hostile_text(cluster: Small, scripted: Watched, row: Search) -> None:
    searched(scripted.page, cluster, row)
    content(scripted)


@covers(SEARCHES, Way.PLAIN)
def test_search_is_used_without_scripts(cluster: Small, plain: Watched, row: Search) -> None:
    searched(plain.page, cluster, row)
    content(plain)


@covers_routes((read_by("/workflows/act"),), Way.KEYBOARD, Way.HOSTILE)
@covers(ACTS, Way.KEYBOARD, Way.HOSTILE)
def test_act_is_done_by_keyboard_alone_and_hostile_text_stays_text(cluster: Small, scripted: Watched, row: Act) -> None:
    acted(scripted.page, cluster, row, hostile=True)
    content(scripted)


@covers_routes((read_by("/workflows/act"),), Way.PLAIN)
@covers(ACTS, Way.PLAIN)
def test_act_is_done_without_scripts(cluster: Small, plain: Watched, row: Act) -> None:
    acted(plain.page, cluster, row, hostile=False)
    content(plain)


@covers_routes(("/me/notices/test",), *Way)
def test_notices_are_tested_by_keyboard_alone_with_and_without_scripts(
    cluster: Small, scripted: Watched, plain: Watched
) -> None:
    for watched in (scripted, plain):
        notices_on(cluster)
        page = watched.page
        cluster.goto(page, "/me")
        page.get_by_role("button", name="Send a test").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="The test notice did not arrive")).to_be_visible()
        assert page.evaluate(MADE) == []
        content(watched)


@covers_routes(("/login", "/logout"), *Way)
@pytest.mark.parametrize("script", [True, False])
def test_one_signs_in_and_out_by_keyboard_alone(cluster: Small, chromium: Browser, script: bool) -> None:
    context = cluster.context(chromium, java_script_enabled=script)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page
        visited(page, cluster, "/login")
        context.clear_cookies()
        for typed in (HOSTILE, cluster.token):
            page.get_by_label("Token or code").focus()
            page.keyboard.insert_text(typed)
            page.keyboard.press("Enter")
            answer = "[role=alert]" if typed == HOSTILE else "nav[aria-label=Pages]"
            expect(page.locator(answer)).to_be_visible()
            assert page.evaluate(MADE) == []
        cluster.goto(page, "/me")
        page.get_by_role("button", name="Sign out").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/login")
        cluster.goto(page, "/workflows?status=RUNNING")
        assert page.url == f"{cluster.url}/login?next=/workflows%3Fstatus%3DRUNNING"
        content(watched)
    finally:
        context.close()


@covers_routes((read_by("/pool/{{ name|urlencode }}/what-if"),), *Way)
def test_another_quota_is_tried_by_keyboard_alone_with_and_without_scripts(
    cluster: Small, scripted: Watched, plain: Watched
) -> None:
    for watched in (scripted, plain):
        page = watched.page
        cluster.goto(page, "/pool/vision")
        page.get_by_role("slider", name="Quota").focus()
        page.keyboard.press("ArrowRight")
        if watched is plain:
            page.keyboard.press("Enter")
        expect(page.locator("#what-answer")).to_contain_text("16 → 17")
        cluster.goto(page, f"/pool/vision/what-if?{urlencode({'quota': HOSTILE[:20]})}")
        assert page.evaluate(MADE) == []
        content(watched)


ODD = {
    **{f"/access/user/{{user}}/{each}": f"/access/user/root/{each}" for each in ("token", "disable", "enable")},
    **{f"/access/user/{{user}}/{each}/{{name}}": f"/access/user/root/{each}/laptop" for each in ("change", "revoke")},
    "/access/revoke/{user}/{role}": "/access/revoke/eve/vision-user",
    "/me/change/{name}": "/me/change/laptop",
    "/me/credential/delete/{name}": "/me/credential/delete/wandb",
    "/limits/user": "/limits/user?name=eve",
    "/me/revoke/{name}": "/me/revoke/laptop",
    "/workflow/{id}/array": "/workflow/points-1/array",
    "/workflow/{id}/elements": "/workflow/points-1/elements?of=3",
    "/workflow/{id}/hold": "/workflow/big-1/hold",
    "/workflow/{id}/release": "/workflow/big-1/release",
    "/workflows/act": "/workflows/act?do=cancel&id=late-1",
}
"""Forms of something else than a running workflow, a pool or a node."""
FORMS = tuple(
    sorted(
        ODD.get(path)
        or path.replace("{id}", "late-1").replace("{name}", "n1" if path.startswith("/node") else "vision")
        for path in {*routes("GET")} & {*routes("POST")} - {"/login"}
    )
)


def test_every_form_is_complete_and_accessible_in_every_view(cluster: Small, narrow: Watched) -> None:
    """Of forms with the same controls, one is looked at."""
    seen = set()
    for path in FORMS:
        form = Elements(narrow.page.request.get(cluster.url + path).text().partition('id="act"')[2])
        assert sum("data-ask" in each for each in form.named("form")) == 1, path
        shape = tuple((tag, each.get("name")) for tag, each in form.found if is_control(tag, each))
        if shape not in seen:
            cluster.goto(narrow.page, path)
            assert looks.faults(narrow.page, looks.VIEWS[::-1], axe=looks.AXE[:1]) == [], path
            seen.add(shape)
    content(narrow)


def is_control(tag: str, attributes: Mapping[str, str | None]) -> bool:
    return tag in ("input", "select", "textarea", "table", "pre") and attributes.get("type") != "hidden"


# ---------------------------------------------------------------- keys of their own


def test_pool_page_works_with_the_keyboard_alone(cluster: Small, chromium: Browser) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page
        cluster.goto(page, "/pool/vision")
        page.get_by_role("group", name="Time", exact=True).get_by_role("link", name="24h").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**over=7d**")
        expect(page.get_by_role("group", name="Time", exact=True).locator("[aria-current]")).to_have_text("7d")
        page.locator("#over-title").locator("xpath=ancestor::section").locator("summary").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("table", name="vision: GPUs in the last 7 days")).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("group", name="GPUs over time")).to_be_focused()
        watched.is_content()
    finally:
        context.close()


def test_the_overview_and_the_list_are_used_by_keyboard_alone(cluster: Small, chromium: Browser) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page
        cluster.goto(page, "/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Workflows").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/workflows")
        page.keyboard.press("/")
        expect(page.get_by_role("textbox", name="Filter")).to_be_focused()
        page.keyboard.type("by:ann")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=by*")
        row = page.locator(".flow tbody tr").first
        page.keyboard.press("j")
        expect(row.locator("th a")).to_be_focused()
        page.keyboard.press("x")
        expect(row.locator("[name=id]")).to_be_checked()
        name = row.locator("th a").inner_text()
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="points-1", exact=True)).to_be_focused()
        page.keyboard.press("o")
        fold = page.get_by_role("button", name="Elements of points-1")
        expect(fold).to_be_focused()
        expect(fold).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="points-1/0")).to_be_focused()
        expect(row.locator("[name=id]")).to_be_checked()
        page.get_by_role("link", name="Next elements").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="points-1/10")).to_be_visible()
        page.keyboard.press("k")
        page.keyboard.press("k")
        expect(row.locator("th a")).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/workflow/{name}")
        page.get_by_role("textbox", name="Find", exact=True).focus()
        page.keyboard.type("vision")
        page.keyboard.press("Enter")
        page.wait_for_url("**/pool/vision")
        watched.is_content()
    finally:
        context.close()
