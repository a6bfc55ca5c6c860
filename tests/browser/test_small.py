"""The pages of a cluster of four nodes in use: whole in every view, by keyboard alone, and with hostile text."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import looks
from tests.browser.lab import Watched
from tests.browser.large import Large
from tests.browser.small import HOSTILE, small
from tests.web.test_every_route import routes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    with small(tmp_path_factory.mktemp("small")) as it:
        yield it


PAGES = (
    "/",
    "/pool/vision",
    "/pool/nlp?over=1h&used=30d",
    "/pool/nlp--chat?over=30d",
    "/usage",
    "/me",
    "/access",
    "/access/user/root",
    "/limits",
    "/node/n1",
    "/workflows?open=points-1",
    "/workflow/points-1",
    "/pool/vision/what-if?quota=20",
)
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


def test_every_page_is_complete_and_accessible_in_every_view(cluster: Large, chromium: Browser) -> None:
    context = cluster.context(chromium, 390, 844, "dark")
    try:
        watched = Watched(context.new_page(), cluster)
        for path in PAGES:
            cluster.goto(watched.page, path)
            for summary in watched.page.locator("main summary").all():
                summary.click()
            assert looks.faults(watched.page, looks.VIEWS[::-1]) == [], path
        watched.is_content()
    finally:
        context.close()


CONTROLS = """() => {
  const all = document.querySelectorAll('#act :is(a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"])');
  const kind = (e) => e.matches('input:not([type=checkbox], [type=file]), textarea') ? 'text' : e.value;
  return [...all].filter((e) => e.checkVisibility()).map((e, at) => (e.dataset.at = at, kind(e)));
}"""
"""What the form has to be used with, numbered in its order."""
ANSWERED = "() => document.activeElement.matches('[role=alert], [data-answer]')"


def test_every_form_is_complete_and_used_by_keyboard_alone_with_hostile_text(cluster: Large, chromium: Browser) -> None:
    """Each control is reached with Tab in its order; what is typed stays text in the preview, or in what is wrong."""
    context = cluster.context(chromium, 390, 844, "dark")
    try:
        watched = Watched(context.new_page(), cluster)
        page, previews = watched.page, 0
        for path in FORMS:
            cluster.goto(page, path)
            assert page.locator("form[data-ask]").count() == 1, path
            assert looks.faults(page, looks.VIEWS[::-1], axe=looks.AXE[:1]) == [], path
            controls = page.evaluate(CONTROLS)
            page.locator("main").focus()
            for at, kind in enumerate(controls):
                page.keyboard.press("Tab")
                assert page.evaluate("document.activeElement.dataset.at") == str(at), (path, at, kind)
                if kind == "text":
                    page.keyboard.press("ControlOrMeta+A")
                    page.keyboard.type(HOSTILE)
            if "check" in controls:
                for _ in range(len(controls) - 1 - controls.index("check")):
                    page.keyboard.press("Shift+Tab")
                page.keyboard.press("Enter")
                page.wait_for_function(ANSWERED)
                assert looks.faults(page, looks.VIEWS[-1:], axe=()) == [], path
                previews += 1
            assert page.locator("img[src=x]").count() == 0, path
        assert previews > 8
        watched.complaints = [each for each in watched.complaints if not re.search("status of (409|422)", each)]
        watched.is_content()
    finally:
        context.close()


def test_pool_page_works_with_the_keyboard_alone(cluster: Large, chromium: Browser) -> None:
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


def test_the_overview_and_the_list_are_used_by_keyboard_alone(cluster: Large, chromium: Browser) -> None:
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


def test_a_user_and_tokens_are_created_and_a_token_is_revoked_by_keyboard_alone(
    cluster: Large, chromium: Browser
) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page
        cluster.goto(page, "/access")
        page.get_by_role("link", name="Create user…").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Create a user").get_by_label("User")).to_be_focused()
        page.keyboard.type("dan")
        page.keyboard.press("Enter")
        page.wait_for_url("**/access/user/dan")
        page.get_by_role("link", name="Disable…").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Disable dan").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="Enable…")).to_be_visible()
        cluster.goto(page, "/me")
        page.get_by_role("link", name="Create token…").focus()
        page.keyboard.press("Enter")
        box = page.get_by_role("dialog", name="Create a token")
        expect(box.get_by_label("Name")).to_be_focused()
        page.keyboard.type("ci")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Created token ci").locator("#secret")).to_have_text(
            re.compile(r"\S{43}")
        )
        page.get_by_role("link", name="Done").focus()
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Revoke ci").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Revoke token ci").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="Revoke ci")).to_have_count(0)
        expect(page.get_by_role("link", name="Revoke laptop")).to_be_visible()
        watched.is_content()
    finally:
        context.close()


def test_limits_and_an_array_are_changed_by_keyboard_alone(cluster: Large, chromium: Browser) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page

        def sent(link: str, typed: str, said: str, button: str) -> None:
            """Opens a form, types, and presses Enter for the preview and for the change."""
            page.get_by_role("link", name=link, exact=True).first.focus()
            page.keyboard.press("Enter")
            box = page.get_by_role("dialog")
            box.locator("input:not([type=hidden])").first.focus()
            page.keyboard.press("ControlOrMeta+A")
            page.keyboard.type(typed)
            page.keyboard.press("Enter")
            expect(box.locator("#planned")).to_contain_text(said)
            box.get_by_role("button", name=button).focus()
            with page.expect_navigation():
                page.keyboard.press("Enter")

        cluster.goto(page, "/limits")
        sent("Change limits of eve", "5", "4 → 5", "Set limits")
        expect(page.get_by_role("row", name="eve all pools GPUs")).to_contain_text("5")
        cluster.goto(page, "/workflow/points-1")
        sent("Elements at a time…", "4", "2 elements would enter the queue now.", "Change points-1")
        expect(page.locator("#tasks")).to_contain_text("60, at most 4 at a time")
        sent("Cancel main-9", "9", "1 element would be cancelled", "Cancel 1 element")
        expect(page.locator("#tasks")).to_contain_text("1 cancelled")
        watched.is_content()
    finally:
        context.close()


def test_hostile_text_stays_text(cluster: Large, chromium: Browser) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        cluster.goto(watched.page, "/pool/nlp--chat")
        expect(watched.page.locator("#paused")).to_contain_text(HOSTILE)
        cluster.goto(watched.page, "/me")
        expect(watched.page.get_by_role("row", name="laptop")).to_contain_text(HOSTILE)
        watched.is_content()
    finally:
        context.close()
