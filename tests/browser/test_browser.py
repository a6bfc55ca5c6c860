"""The page as people see it: in Chromium, on a server that runs tasks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser import looks
from tests.browser.lab import Lab, Watched
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import up

PATIENCE_MS = PATIENCE_S * 1000


@contextmanager
def looking(server: Lab, chromium: Browser, **view: object) -> Iterator[Watched]:
    context = server.context(chromium, **view)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Watched(context.new_page(), server)
    finally:
        context.close()


def test_one_click_signs_in_and_uses_up_the_code(server: Lab, chromium: Browser) -> None:
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    address = server.address()
    watched = Watched(context.new_page(), server)
    watched.page.goto(address)
    watched.page.wait_for_url(f"{server.url}/")
    expect(watched.page.get_by_role("heading", name="Quota")).to_be_visible()
    watched.is_content()
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    again = chromium.new_context().new_page()
    again.set_default_timeout(PATIENCE_MS)
    again.goto(address)
    expect(again.get_by_role("alert")).to_contain_text("Invalid or expired token")
    again.context.close()
    context.close()


def test_started_work_appears_without_a_reload(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium) as watched:
        page = watched.goto("/")
        expect(page.locator("#pulse")).to_have_text("live")
        page.evaluate("() => { window.stayed = true; }")
        server.submit("new", 1, pool="pool2")
        expect(page.locator("#lately")).to_contain_text("new-1")
        expect(page.locator("#nodes")).to_contain_text("new-1")
        assert page.evaluate("window.stayed")
        server.server.runrig("workflow", "cancel", "new-1")
        watched.is_content()


def test_map_has_the_colours_of_pools_and_names_the_holders(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium) as watched:
        page = watched.goto("/map")
        page.wait_for_selector("[data-drawn]")
        canvas = page.locator("canvas")
        canvas.focus()
        page.keyboard.press("ArrowDown")
        said = page.locator("#here")
        expect(said).to_contain_text("2 GPUs a-1/main-group, NORMAL")
        expect(said).to_contain_text("1 GPU low-1/main-group, LOW")
        page.keyboard.press("Escape")
        expect(said).to_contain_text("Point at a node")
        colours = page.evaluate(looks.COLOURS)
        assert colours.get("51,34,136", 0) > 50, "c0, of pool1"
        page.get_by_role("link", name="Priority").click()
        expect(page.get_by_role("link", name="Priority")).to_have_attribute("aria-current", "true")
        assert page.url.endswith("/map?by=priority")
        page.wait_for_selector("[data-drawn]")
        canvas.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**/workflow/*")
        watched.is_content()


def test_node_with_more_gpus_than_fit_on_a_phone_is_drawn_completely(tmp_path: Path, chromium: Browser) -> None:
    with up(tmp_path / "data", "--gpus", "48", "--backend", "simulated") as server:
        it = Lab(server, tmp_path, server.said.split(" at ")[1].split(" ")[0])
        it.submit("most", 36, pool="default")
        until(lambda: server.json("workflow", "query", "most-1")["status"] == "RUNNING")
        with looking(it, chromium, width=390, height=844) as watched:
            page = watched.goto("/map")
            page.wait_for_selector("[data-drawn]")
            shares = page.evaluate(looks.SHARES)
            assert 0.70 < shares["51,34,136"] < 0.80, shares
            watched.is_content()


def test_output_appears_as_it_is_written(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium) as watched:
        page = watched.goto("/workflow/a-1")
        expect(page.locator("#output")).to_contain_text("first")
        count = page.locator("#output p", has_text="more").count()
        expect(page.locator("#output p", has_text="more").nth(count + 1)).to_be_visible()
        watched.is_content()


ODD = "<img src=x onerror=alert({})>"
"""In a line of output and in an error."""


def test_a_failed_job_is_read_by_keyboard_and_without_scripts_and_its_hostile_output_stays_text(
    server: Lab, chromium: Browser
) -> None:
    line, error = ODD.format(1), f"ValueError: {ODD.format(2)}"
    server.submit("odd", 1, f'echo "{line}"; echo "{error}" >&2; exit 1', pool="pool2")
    until(lambda: server.server.json("workflow", "query", "odd-1")["status"] == "FAILED")
    for script in (True, False):
        with looking(server, chromium, java_script_enabled=script) as watched:
            page = watched.goto("/workflows?q=odd")
            expect(page.locator(".place")).to_contain_text(error)
            page = watched.goto("/workflow/odd-1")
            expect(page.locator(".sentence .said")).to_have_text(error)
            expect(page.locator("#output")).to_contain_text(line)
            page.get_by_role("link", name="To the error").focus()
            page.keyboard.press("Enter")
            page.wait_for_url("**/workflow/odd-1#error")
            expect(page.locator("#error")).to_contain_text(error)
            page.get_by_role("searchbox", name="Search the output").focus()
            page.keyboard.type("onerror=alert(1)")
            if script:
                expect(page.locator("#hits")).to_contain_text("1")
                page.get_by_role("button", name="Search").focus()
            page.keyboard.press("Enter")
            page.wait_for_url("**find=onerror*")
            expect(page.locator("#output")).to_contain_text(line)
            expect(page.locator("#output")).not_to_contain_text("ValueError")
            with page.expect_download() as saved:
                page.get_by_role("link", name="Download").focus()
                page.keyboard.press("Enter")
            assert {*saved.value.path().read_text().splitlines()} == {line, error}
            assert page.locator("img[src=x]").count() == 0
            watched.is_content()


def test_suggestions_appear_while_the_page_is_open(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium) as watched:
        page = watched.goto("/workflow/b-1")
        expect(page.locator(".sentence")).to_contain_text(
            "b-1 is waiting: needs 2 GPUs, but pool pool1 has no quota left"
        )
        expect(page.locator("#would .dials")).to_contain_text("move it to pool pool2")
        watched.is_content()


def test_without_scripts_the_map_is_a_table_and_the_search_a_link(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium, java_script_enabled=False) as watched:
        page = watched.goto("/map")
        expect(page.locator("canvas")).to_be_hidden()
        expect(page.locator("#domains table")).to_be_visible()
        page = watched.goto("/workflow/b-1")
        page.get_by_role("link", name="Find changes").click()
        expect(page.locator("#would .dials")).to_contain_text("move it to pool pool2")
        watched.is_content()


def test_printed_page_has_text_and_no_controls(server: Lab, chromium: Browser) -> None:
    with looking(server, chromium) as watched:
        page = watched.goto("/workflow/b-1")
        page.emulate_media(media="print")
        expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
        expect(page.locator("h1")).to_be_visible()
        assert page.pdf()[:5] == b"%PDF-"


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
