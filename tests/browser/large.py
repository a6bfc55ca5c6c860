"""A server of a cluster in use, for browsers: that of `tests.worlds.seeded`, whose clock stands still."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.ports.store import WorkflowQuery
from runrig.service.queries.visibility import ALL
from runrig.web.install import install
from tests.patience import PATIENCE_S
from tests.worlds import seeded
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk

HERE = "127.0.0.1"


@dataclass(frozen=True)
class Large:
    """*cookie*: of somebody who sees all.  *waits*: a workflow that waits; *runs*: the one that runs with the most GPUs."""

    desk: Desk
    port: int
    cookie: str
    waits: str
    runs: str

    @property
    def url(self) -> str:
        return f"http://{HERE}:{self.port}"

    @property
    def pages(self) -> tuple[str, ...]:
        """Those with more on them than in a small cluster; `tests.browser.test_small` looks at all."""
        return (
            "/",
            f"/map?size=8x8&gang={self.runs}",
            "/map?table=1",
            "/waiting",
            "/workflows",
            f"/workflow/{self.waits}?would=own",
            f"/workflow/{self.runs}",
            "/pool/language",
            "/node/gpu-00003",
            "/node/gpu-00018/drain",
            "/?at=300",
        )

    def context(
        self, browser: Browser, width: int = 1440, height: int = 900, scheme: str = "light", **more: object
    ) -> BrowserContext:
        """A browser that is signed in."""
        view = {"width": width, "height": height}
        context = browser.new_context(viewport=view, color_scheme=scheme, **more)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_S * 1000)
        self.sign_in(context)
        return context

    def sign_in(self, context: BrowserContext) -> None:
        context.add_cookies([{"name": f"runrig-{self.port}", "value": self.cookie, "url": self.url}])

    def goto(self, page: Page, path: str) -> None:
        """Until the map is drawn, if there is one; without scripts it stays hidden."""
        page.goto(self.url + path)
        if page.locator("[data-map]").count() and page.evaluate("matchMedia('(scripting: enabled)').matches"):
            page.wait_for_selector("[data-drawn]")


@contextmanager
def large(folder: Path, nodes: int = 1_000) -> Iterator[Large]:
    text = seeded.cluster(nodes)
    with desk(folder, nodes=seeded.nodes_of(text), cluster=text) as it:

        def later(seconds: float) -> None:
            it.time[0] += seconds

        def application(port: int) -> FastAPI:
            app = create_app(it.service, port=port)
            install(app, it.service)
            return app

        it.service.keeper.step()  # recorded history begins here
        seeded.fill(it.service, later, nodes)
        it.service.keeper.step()
        access = it.service.access
        access.users.create("root", [role_named("admin")], actor="ann")
        cookie = access.browsers.enter(access.tokens.create("root", "laptop", None, actor="root").text, HERE)
        (waiting, *_), _ = it.service.workflow_queries.workflows(WorkflowQuery(statuses=("PENDING",), limit=1))
        largest = max(it.service.boards.board(ALL).gangs, key=lambda gang: (len(gang.shares), gang.id))
        with listening(application) as port:
            yield Large(it, port, cookie, waiting.id, largest.id.partition("/")[0])
