"""The pages of a cluster of four nodes in use: whole in every view, by keyboard alone, and with hostile text."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import looks
from tests.browser.lab import Watched
from tests.browser.large import Large
from tests.browser.small import HOSTILE, small


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
    "/me/notices",
    "/me/token",
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
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/workflow/{name}")
        watched.is_content()
    finally:
        context.close()


def test_a_token_is_created_and_revoked_by_keyboard_alone(cluster: Large, chromium: Browser) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page
        cluster.goto(page, "/me")
        page.get_by_role("link", name="Create…").focus()
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
