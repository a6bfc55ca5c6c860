"""Takes the pictures of docs/page.md and the README: pages of a cluster in use, in Chromium.  `make pictures` runs it.

The cluster is the same each time, and its clock stands still; letters look as the machine's fonts do.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.large import Large, large

from docs.png import smaller

FOLDER = Path(__file__).parent / "pictures"
LARGEST = 150_000
"""Bytes of a picture."""
_CALM = (
    "*, *::before { transition: none !important; caret-color: transparent !important; } .pulse { visibility: hidden; }"
)


def views(it: Large) -> dict[str, tuple[str, int, int, str]]:
    """Returns address, width, height and colours of each picture."""
    return {
        "overview": ("/", 1440, 900, "light"),
        "overview-dark": ("/", 1440, 900, "dark"),
        "overview-phone": ("/", 390, 844, "light"),
        "map-size": ("/map?size=8x8", 1440, 900, "light"),
        "workflow": (f"/workflow/{it.waits}?would=own", 1440, 900, "light"),
        "pool": ("/pool/language--pretrain", 1440, 900, "light"),
    }


def main() -> int:
    if shutil.which(CHROMIUM) is None:
        print(f"{CHROMIUM} is not installed, so the pictures are not updated", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, large(Path(folder)) as it, sync_playwright() as playwright:
        while it.desk.service.usage.step():  # the page of a pool draws its GPUs over time from these sums
            pass
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, (path, width, height, scheme) in views(it).items():
            context = it.context(browser, width, height, scheme)
            page = context.new_page()
            it.goto(page, path)
            taken = smaller(page.screenshot(style=_CALM, animations="disabled", scale="css"))
            context.close()
            if len(taken) > LARGEST:
                raise SystemExit(f"{name} has {len(taken):,} bytes: at most {LARGEST:,}")
            (FOLDER / f"{name}.png").write_bytes(taken)
            print(f"{name}.png {len(taken):,} bytes")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
