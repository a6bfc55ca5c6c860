"""Pages of a cluster of 1,000 nodes, in every view that people have of it: nothing cut, nothing sideways, and axe finds nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import looks
from tests.browser.lab import Watched
from tests.browser.large import Large, large


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    with large(tmp_path_factory.mktemp("large")) as it:
        yield it


def test_page_is_complete_and_accessible_in_every_view(cluster: Large, chromium: Browser) -> None:
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        for path in cluster.pages:
            cluster.goto(watched.page, path)
            assert looks.faults(watched.page) == [], path
        watched.is_content()
    finally:
        context.close()


def test_printed_page_is_light_and_complete(cluster: Large, chromium: Browser, tmp_path: Path) -> None:
    """As from a dark screen: map and tree are each on one sheet, and controls on none."""
    context = cluster.context(chromium, scheme="dark")
    try:
        page = context.new_page()
        cluster.goto(page, "/")
        page.emulate_media(media="print")
        page.evaluate(looks.DRAWN)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.querySelector('h2')).color") == "rgb(84, 93, 102)"
        colours = page.evaluate(looks.COLOURS)
        assert "51,34,136" in colours, "c0 of the light colours"
        assert "143,134,224" not in colours, "c0 of the dark ones"
        for each in (".tree", "#map canvas"):
            assert page.evaluate(BREAKS, each) == "avoid", each
        for each in ("nav", ".modes", "form", "#map-table", ".pulse"):
            assert [shown for shown in page.locator(each).all() if shown.is_visible()] == [], each
        cluster.goto(page, "/pool/language")
        assert page.locator("#share").is_visible()
        assert not page.locator("#what-title").is_visible(), "a title over nothing"
        page.pdf(path=tmp_path / "print.pdf", format="A4")
        assert (tmp_path / "print.pdf").read_bytes()[:5] == b"%PDF-"
    finally:
        context.close()


BREAKS = """(selector) => {
  for (let e = document.querySelector(selector); e; e = e.parentElement) if (getComputedStyle(e).breakInside === 'avoid') return 'avoid';
}"""


def test_map_shows_what_its_url_says(cluster: Large, chromium: Browser) -> None:
    accent, ink = "10,90,168", "28,32,36"  # of frames
    context = cluster.context(chromium)
    try:
        watched = Watched(context.new_page(), cluster)
        page = watched.page
        colours = {}
        for path in ("/map", "/map?size=8x8", f"/map?gang={cluster.runs}", "/map?by=load", "/map?in=z1/s5"):
            cluster.goto(page, path)
            colours[path] = page.evaluate(looks.COLOURS)
        assert accent not in colours["/map"]
        assert colours["/map?size=8x8"][accent] > 500
        assert accent not in colours[f"/map?gang={cluster.runs}"], "it would say that there is room"
        assert colours[f"/map?gang={cluster.runs}"][ink] > 100
        assert "51,34,136" in colours["/map"], "c0, of batch"
        assert "51,34,136" not in colours["/map?by=load"]
        assert "51,34,136" not in colours[f"/map?gang={cluster.runs}"], "all else is pale"
        page.locator("canvas").focus()
        for key, said in (("Home", "z1, s5, r40, node gpu-00640"), ("End", "z1, s5, r47, node gpu-00767")):
            page.keyboard.press(key)
            assert (page.locator("#here").text_content() or "").startswith(said)
        page.get_by_role("link", name="Load").click()
        assert page.url.endswith("/map?in=z1%2Fs5&by=load")
        page.get_by_role("link", name="All", exact=True).click()
        page.wait_for_selector("[data-drawn]")
        page.locator("canvas").click(position={"x": 8, "y": 10})  # the label of the outermost domains
        page.wait_for_url("**/map?in=z0%2Fs0*")
        watched.is_content()
    finally:
        context.close()
