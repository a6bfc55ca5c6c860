"""Every page, search and act of the page is walked through by keyboard alone, without scripts, and with hostile text, in a browser."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tests.browser.table import ACTS, NOT_PAGES, Way, read_by
from tests.web.test_every_route import routes

BROWSER = Path(__file__).parents[1] / "browser"
TEMPLATES = Path(__file__).parents[2] / "src/runrig/web/templates"


def cells() -> dict[tuple[str, Way], list[str]]:
    """Each route and way, with the tests of the browser that cover them: those that pytest finds, and that nothing leaves out."""
    found: dict[tuple[str, Way], list[str]] = {}
    for path in sorted(BROWSER.glob("test_*.py")):
        module = importlib.import_module(f"tests.browser.{path.stem}")
        for name, test in inspect.getmembers(module, inspect.isfunction):
            marks = {each.name for each in getattr(test, "pytestmark", ())}
            if name.startswith("test_") and test.__module__ == module.__name__ and not marks - {"parametrize"}:
                for cell in getattr(test, "cells", ()):
                    found.setdefault(cell, []).append(f"{path.name}::{name}")
    return found


def searches() -> Iterator[str]:
    """The forms that only read, from the templates."""
    for path in sorted(TEMPLATES.glob("*.html")):
        yield from map(read_by, re.findall(r'<form [^>]*method="get" action="([^"]*)"', path.read_text()))


def test_every_page_search_and_act_is_walked_through_in_every_way() -> None:
    declared = {*routes("GET")} - {*NOT_PAGES} | {*routes("POST")} | {*searches()}
    covered = cells()
    assert [(route, way.value) for route in sorted(declared) for way in Way if (route, way) not in covered] == []
    assert {route for route, _ in covered} - declared == set(), "there is no such page any more"
    assert not {*NOT_PAGES} - {*routes("GET")}


def test_every_button_below_the_list_is_an_act() -> None:
    row = re.search(r"in \((\('cancel'.*?\))\) %\}", (TEMPLATES / "workflows.html").read_text())
    assert row is not None
    words = {f"{each}…" for each in re.findall(r"'(\w+)'\)", row[1])}
    assert words == {each.opens for each in ACTS if each.route == "/workflows/act"}
