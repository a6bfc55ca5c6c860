"""Chromium signs in at a real provider of identities, which is another site to it: cookies, policy and redirects as a browser has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.attack.target import Target, serve
from tests.patience import PATIENCE_S
from tests.provider.running import PASSWORD, Running, provider

PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Running]]:
    folder: Path = tmp_path_factory.mktemp("signing")
    with provider(folder) as running:
        oidc = {"issuer": running.issuer, "client_id": "runrig", "role_map": {"ml": "team-user"}}
        with serve(folder / "server", oidc=oidc) as target:
            running.groups(alice=["ml"])
            running.returns_to(f"http://localhost:{target.port}/login/oidc/return")
            yield target, running


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    found = chromium.new_context()
    found.set_default_timeout(PATIENCE_MS)
    yield found
    found.close()


def complaining(page: Page, here: str) -> list[str]:
    """The complaints of the browser about pages of *here*; those of the provider are its own business."""
    found: list[str] = []

    def noted(kind: str, text: str, url: str) -> None:
        if kind in ("error", "warning") and url.startswith(here):
            found.append(f"{url}: {text}")

    page.on("console", lambda said: noted(said.type, said.text, said.location["url"]))
    page.on("pageerror", lambda error: noted("error", str(error), page.url))
    return found


def at_the_provider(page: Page, running: Running) -> None:
    page.wait_for_url(f"{running.origin}/**")
    page.locator("input[name=username]").fill("alice")
    page.locator("input[name=password]").fill(PASSWORD)
    page.evaluate("document.forms[0].submit()")


def test_button_signs_in_and_returns_to_the_requested_page(
    place: tuple[Target, Running], context: BrowserContext
) -> None:
    target, running = place
    here = f"http://localhost:{target.port}"  # for a browser, this is a different site from 127.0.0.1
    page = context.new_page()
    complaints = complaining(page, here)
    page.goto(f"{here}/workflows?pool=team")
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    at_the_provider(page, running)
    page.locator("input[name=allow]").click()
    page.wait_for_url(f"{here}/workflows?pool=team")
    expect(page.get_by_role("link", name="oidc:alice")).to_be_visible()
    assert complaints == []
    cookies = {each["name"]: each for each in context.cookies(here)}
    session = cookies.pop(f"runrig-{target.port}")
    assert (session["httpOnly"], session["sameSite"]) == (True, "Strict")
    assert not [each for each in cookies if each.startswith("runrig-")]  # the cookie of the request is gone


def test_refusal_to_sign_in_is_reported(place: tuple[Target, Running], context: BrowserContext) -> None:
    target, running = place
    page = context.new_page()
    page.goto(f"http://localhost:{target.port}/login")
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    at_the_provider(page, running)
    page.locator("input[type=submit]:not([name=allow])").click()
    expect(page.get_by_role("alert")).to_contain_text("did not sign you in (access_denied)")
