"""Each page has its place on the site, and a site with a dead end is found."""

import tomllib
from pathlib import Path

from docs import generate, site


def files(entries: object) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    if isinstance(entries, dict):
        entries = list(entries.values())
    assert isinstance(entries, list)
    return [file for each in entries for file in files(each)]


def test_every_page_is_in_the_navigation_once() -> None:
    """A new page needs a line in zensical.toml."""
    listed = files(tomllib.loads((site.ROOT / "zensical.toml").read_text())["project"]["nav"])
    every = [str(page.relative_to(site.ROOT)) for page in generate.pages()]
    records = [page for page in every if page.startswith("docs/decisions/0")]  # listed by docs/decisions/README.md
    assert sorted(listed) == sorted(set(every) - set(records))


def test_broken_links_and_distant_pages_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    pages = {
        "index": '<a href="one/">1</a> <a href="a.yaml">a file</a> <a href="https://example.org/">outside</a>',
        "one/index": '<h1 id="top"><a href="#top">here</a> <a href="../two.html#gone">2</a> <a href="../none/">3</a>',
        "two": '<a href="three.html">3</a> <a href="one/#top">1</a>',
        "three": '<script src="https://cdn.example/a.js"></script><img src="//cdn.example/b.png"><link rel="next" href="two.html">',
        "404": "",
    }
    (tmp_path / "one").mkdir()
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text)
    assert list(site.problems(tmp_path, clicks=1)) == [
        "one/index.html: ../two.html#gone has no such heading",
        "one/index.html: ../none/ does not exist",
        "three.html: loads https://cdn.example/a.js from another server",
        "three.html: loads //cdn.example/b.png from another server",
        "three.html: more than 1 clicks from the first page",
        "two.html: more than 1 clicks from the first page",
    ]
