"""How somebody without a mouse uses a page: Tab, what is typed, Space and Enter."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from playwright.sync_api import Page, Request, expect

from tests.browser.small import HOSTILE, Small
from tests.browser.table import Act, Search

CONTROLS = """() => {
  const all = document.querySelectorAll('#act :is(a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"])');
  const kind = (e) => e.matches('input:not([type=checkbox], [type=file]), textarea') ? 'text' : e.type === 'select-one' ? 'choice' : e.type;
  return [...all].filter((e) => e.checkVisibility()).map((e, at) => (e.dataset.at = at, [NAME(e), kind(e), e.value ?? '']));
}"""
NAME = "((e) => e.ariaLabel || (e.labels?.[0] ?? e).textContent.trim())"
"""What people call a control."""
CONTROLS = CONTROLS.replace("NAME", NAME)
"""The controls of a form, numbered in their order."""
AT = "() => Number(document.activeElement.dataset.at ?? -1)"
HERE = f"() => {NAME}(document.activeElement)"
MADE = """() => [...document.querySelectorAll('img[src=x], script:not([src]), [onerror]')].map((e) => e.outerHTML)"""
"""Elements that can only be of hostile text."""
FAR = 60
"""Controls that somebody tries before they give up."""


def visited(page: Page, it: Small, path: str) -> None:
    """Signs out for the page on which one signs in."""
    if path == "/login":
        page.context.clear_cookies()
    it.goto(page, path)
    it.sign_in(page.context)


def opened(page: Page, it: Small, row: Act, made: str) -> None:
    """The form of *row*, in a dialog or on a page of its own."""
    it.goto(page, row.at.replace("{it}", made))
    if row.picks:
        page.get_by_role("checkbox", name=row.picks.replace("{it}", made), exact=True).focus()
        page.keyboard.press("Space")
    name = row.opens.replace("{it}", made)
    page.get_by_role("link", name=name, exact=True).or_(page.get_by_role("button", name=name, exact=True)).first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#act form[data-ask]")).to_have_count(1)


def filled(page: Page, typed: Mapping[str, str], button: str) -> None:
    """Goes through the form in the order of its controls, each of which is the next one for Tab, and presses *button*."""
    left, controls = dict(typed), page.evaluate(CONTROLS)
    if page.evaluate(AT) != 0:
        _begin(page)
    for at, (name, kind, _) in enumerate(controls):
        if at:
            page.keyboard.press("Tab")
        assert page.evaluate(AT) == at, (name, "is not next")
        if kind in ("submit", "button") and name == button:
            page.keyboard.press("Enter")
            break
        if name in left:
            _put(page, kind, left.pop(name))
    assert not left, (left, controls)


def _begin(page: Page) -> None:
    """To the first control of the form, on a page of its own with Tab."""
    if page.locator("dialog[open]").count():
        page.locator("[data-at='0']").focus()
    else:
        page.locator("main").focus()
        page.keyboard.press("Tab")


def _put(page: Page, kind: str, text: str) -> None:
    if kind == "checkbox":
        page.keyboard.press("Space")
    elif kind == "choice":
        page.keyboard.press("Home")
        for _ in range(FAR):  # Typed letters would have to come within a second of each other.
            if page.evaluate("document.activeElement.value") == text:
                break
            page.keyboard.press("ArrowDown")
    else:
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.insert_text(text)


def reached(page: Page, name: str) -> None:
    """Goes on with Tab until *name* has the focus."""
    for _ in range(FAR):
        page.keyboard.press("Tab")
        if page.evaluate(HERE) == name:
            return
    raise AssertionError(f"Tab never comes to {name}")


def acted(page: Page, it: Small, row: Act, *, hostile: bool) -> None:
    """Carries out *row*: the preview is seen, the act done.  *hostile*: first such text in all fields is refused, and kept as text."""
    made, posts = row.make(it), list[str]()

    def posted(request: Request) -> None:
        if request.method == "POST":
            posts.append(request.url.removeprefix(it.url).partition("?")[0])

    page.on("request", posted)
    opened(page, it, row, made)
    typed = {name: value.replace("{it}", made) for name, value in row.typed.items()}
    button, planned = row.button.replace("{it}", made), page.locator("#planned")
    texts = {name: value for name, kind, value in page.evaluate(CONTROLS) if kind == "text"}
    first = "Preview" if row.said and not planned.count() else button
    if hostile and any(typed.get(name) != HOSTILE for name in texts):
        filled(page, dict.fromkeys(texts, HOSTILE), first)
        _refused(page)
        typed = texts | typed
    if first != button:
        filled(page, typed, first)
    elif not row.said:
        with _ending(page, row):
            filled(page, typed, button)
    if row.said:
        expect(planned).to_contain_text(row.said.replace("{it}", made))
        assert page.evaluate(MADE) == []
        if not page.evaluate("document.activeElement.matches('[data-answer]')"):
            page.locator("main").focus()
        reached(page, button)
        with _ending(page, row):
            page.keyboard.press("Enter")
    it.desk.service.settle()
    assert row.done(it, made, page.content())
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", row.route), posts[-1]), posts
    page.remove_listener("request", posted)


def _refused(page: Page) -> None:
    expect(page.locator("#act [role=alert]").first).to_be_visible()
    assert page.evaluate(MADE) == []
    assert {value for _, kind, value in page.evaluate(CONTROLS) if kind == "text"} <= {HOSTILE, ""}
    if page.locator("dialog[open]").count():
        assert page.evaluate("document.activeElement.matches('[role=alert]')"), "the focus goes to what is wrong"


@contextmanager
def _ending(page: Page, row: Act) -> Iterator[None]:
    """Inside, the last button is pressed."""
    if row.once:
        yield
        expect(page.get_by_role("link", name="Done", exact=True)).to_be_visible()
        return
    with page.expect_navigation():
        yield


def searched(page: Page, it: Small, row: Search) -> None:
    it.goto(page, row.at)
    field = page.locator(row.field)
    if page.locator("#travel:not([open])").count():
        page.locator("#travel summary").focus()
        page.keyboard.press("Enter")
    field.focus()
    _put(page, "choice" if page.evaluate("document.activeElement.matches('select')") else "text", row.typed)
    if row.button:
        reached(page, row.button)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("body")).to_contain_text(row.said)
    assert page.evaluate(MADE) == []


STOPS = """() => {
  const all = document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]');
  const found = [...all].filter((e) => e.checkVisibility() && !e.disabled);
  window.stops = [];
  addEventListener('focusin', ({target}) => {
    const shown = getComputedStyle(target).outlineStyle !== 'none';
    if (found.includes(target)) stops.push([found.indexOf(target), shown ? '' : target.outerHTML]);
  });
  window.missing = () => found.filter((_, at) => !stops.some(([each]) => each === at)).map((e) => e.outerHTML);
  return found.length;
}"""


def toured(page: Page, it: Small, path: str) -> None:
    """Tab comes to all that can be used, in its order, and it is shown where one is."""
    visited(page, it, path)
    expect(page.locator("[data-load]")).to_have_count(0)
    count = page.evaluate(STOPS)
    for at in range(count + FAR):
        page.keyboard.press("Tab")
        if at + 1 >= count and page.evaluate("stops.length") >= count:
            break
    assert page.evaluate("missing()") == []
    said = page.evaluate("stops")[:count]
    assert [at for at, _ in said] == [*range(count)]
    assert [unseen for _, unseen in said if unseen] == []
