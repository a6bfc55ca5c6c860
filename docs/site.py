"""Builds the site of the docs in ``.site/html``, and checks it; ``make site`` runs this.

    python -m docs.site ZENSICAL       ZENSICAL: the program that builds sites

The pages are copied first, with the files that they link to and in the same folders, so that links work both in the repository
and on the site.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).parent.parent
STAGE = ROOT / ".site" / "pages"
HTML = ROOT / ".site" / "html"
MERMAID = ROOT / ".site" / "mermaid.min.js"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
FOLDERS = ("docs", "examples")
CLICKS = 3
"""From the first page to any other, at most."""
_FENCE = re.compile(r"^(```[a-z]+) [^\n`]+$", re.MULTILINE)
"""Tests read words behind the language of a block; with them, the site would show the block as plain text."""


def stage() -> None:
    """Copies the pages and what they link to."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    for name in TOP:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, STAGE / name)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, STAGE / folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(MERMAID, STAGE)
    for page in STAGE.rglob("*.md"):
        text = _FENCE.sub(r"\1", page.read_text(encoding="utf-8"))
        if "```mermaid" in text:  # without this, the theme would load Mermaid from another server
            up = "../" * (len(page.relative_to(STAGE).parts) - 1)
            text += f'\n<script src="{up}{MERMAID.name}"></script>\n'
        page.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- the site that was built


class _Page(HTMLParser):
    """The links and the anchors of a page, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
                if tag != "a" and dict(attrs).get("rel") not in ("canonical", "next", "prev"):
                    self.loads.append(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def problems(site: Path, clicks: int = CLICKS) -> Iterator[str]:
    """Yields a sentence for each link of *site* that leads nowhere, for each page that takes more than *clicks* to reach, and for
    each thing that a page loads from another server."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    leads: dict[Path, set[Path]] = {path: set() for path in pages}
    for path, page in pages.items():
        for link in page.loads:
            if urlsplit(link).netloc:
                yield f"{path.relative_to(site)}: loads {link} from another server"
        for link in dict.fromkeys(page.links):
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            there = _file(site, path, link)
            anchor = unquote(urlsplit(link).fragment)
            if there is None:
                yield f"{path.relative_to(site)}: {link} does not exist"
            elif there not in pages:
                continue
            elif anchor and anchor not in pages[there].anchors:
                yield f"{path.relative_to(site)}: {link} has no such heading"
            else:
                leads[path].add(there)
    for path in sorted(set(pages) - _within(clicks, site / "index.html", leads) - {site / "404.html"}):
        yield f"{path.relative_to(site)}: more than {clicks} clicks from the first page"


def _file(site: Path, page: Path, link: str) -> Path | None:
    path = site / unquote(urlsplit(urljoin(f"/{page.relative_to(site)}", link)).path).lstrip("/")
    path = path / "index.html" if path.is_dir() else path
    return path if path.is_file() else None


def _within(clicks: int, first: Path, leads: dict[Path, set[Path]]) -> set[Path]:
    reached = latest = {first}
    for _ in range(clicks):
        latest = {there for page in latest for there in leads[page]} - reached
        reached = reached | latest
    return reached


def main() -> int:
    stage()
    built = subprocess.run([sys.argv[1], "build", "--clean", "--strict"], cwd=ROOT, check=False).returncode
    found = list(problems(HTML)) if built == 0 else []
    for each in found:
        print(each, file=sys.stderr)
    return built or bool(found)


if __name__ == "__main__":
    sys.exit(main())
