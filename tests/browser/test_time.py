"""The page of an earlier time, in Chromium: the slider, its keys, and the way back to now."""

from playwright.sync_api import Browser, Page, expect

from tests.browser import looks
from tests.browser.lab import Lab
from tests.browser.test_browser import looking


def revision(page: Page) -> int:
    return int(page.locator("body").get_attribute("data-at") or 0)


def test_page_follows_the_slider_and_returns(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium) as watched:
        page = watched.goto("/map")
        page.wait_for_selector("[data-drawn]")
        page.get_by_text("Earlier").click()
        expect(page.locator("#time svg path")).to_have_count(3)
        page.get_by_role("link", name="Previous decision").click()
        expect(page.locator("#stood")).to_be_visible()
        before = revision(page)
        expect(page.locator("#stood")).to_contain_text(f"(revision {before})")
        page.wait_for_selector("[data-drawn]")
        expect(page.locator("#pulse")).to_have_text("")
        assert looks.faults(page, axe=()) == []
        page.locator("#slider").focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(f'body:not([data-at="{before}"])')
        after = revision(page)
        assert after < before
        expect(page.locator("#stood")).to_contain_text(f"(revision {after})")
        page.wait_for_selector(f'[data-drawn="{after}"]')
        assert f"at={after}" in page.url
        assert page.evaluate("document.activeElement.id") == "slider"
        page.get_by_role("link", name="Map").first.click()
        page.wait_for_url(f"{server.url}/map?at={after}")
        page.wait_for_selector(f'[data-drawn="{after}"]')
        page.get_by_role("link", name="Now", exact=True).click()
        page.wait_for_url(f"{server.url}/map")
        expect(page.locator("#pulse")).to_have_text("live")
        watched.is_content()
