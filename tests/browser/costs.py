"""The cost of a page in a browser: bytes on the wire, and processor time, by the clock of the thread."""

from dataclasses import dataclass

from playwright.sync_api import Browser

from tests.browser.large import Large

_SETTLES_MS = 300


@dataclass(frozen=True)
class Cost:
    """*bytes*: of all answers, headers included; *requests*: without the stream, which never ends.  *heap*: bytes.

    *thread_ms*: processor time of all that the page's thread did, until it was drawn and at rest; *script_ms*: without style and
    layout, so it is a little more than what scripts take: modules and promises are not told apart from parsing and painting.
    """

    bytes: int
    requests: int
    script_ms: float
    thread_ms: float
    heap: int
    elements: int


def cold(it: Large, browser: Browser, path: str) -> Cost:
    """The cost of a first visit, with nothing kept."""
    context = it.context(browser)
    try:
        page = context.new_page()
        console = context.new_cdp_session(page)
        console.send("Performance.enable", {"timeDomain": "threadTicks"})
        console.send("Network.enable")
        sizes: list[int] = []
        console.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
        it.goto(page, path)
        page.wait_for_timeout(_SETTLES_MS)
        said = {each["name"]: each["value"] for each in console.send("Performance.getMetrics")["metrics"]}
        loaded = [size for size in sizes if size]
        return Cost(
            sum(loaded),
            len(loaded),
            1000 * (said["TaskDuration"] - said["LayoutDuration"] - said["RecalcStyleDuration"]),
            1000 * said["TaskDuration"],
            int(said["JSHeapUsedSize"]),
            int(said["Nodes"]),
        )
    finally:
        context.close()
