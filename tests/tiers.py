"""Two tiers of tests: the fast one, which is `make test`, and the slow one, which is `make test-slow`; .ci/run runs both.

The fast tier runs in the process of pytest.  Whatever starts a runrig process, a server or a database asks `only_slow` first, so
that a test of the fast tier that would do so fails and says why.  A test is slow if it has the mark, lies in one of FOLDERS, or
runs on PostgreSQL outside of DATABASES.
"""

from pathlib import Path

import pytest

FOLDERS = {
    "attack",
    "browser",
    "crash",
    "docs",
    "end_to_end",
    "examples",
    "failover",
    "fuzz",
    "load",
    "packaging",
}
DATABASES = "store"
"""The folder whose tests run on PostgreSQL in the fast tier too, on one server."""
_SLOW = ("slow", "soak", "kubernetes")
_running: list[pytest.Item] = []


def classify(item: pytest.Item) -> None:
    if _folder(item) in FOLDERS:
        item.add_marker(pytest.mark.slow)
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        databases = {value for value in item.callspec.params.values() if value == "postgresql"}
        if databases and _folder(item) != DATABASES:
            item.add_marker(pytest.mark.slow)


def begin(item: pytest.Item) -> None:
    _running[:] = [item]


def only_slow(what: str, *, but: str = "") -> None:
    """Fails a running test of the fast tier, because it starts *what*.  *but*: the folder whose tests may."""
    for item in _running:
        if _folder(item) != but and not any(item.get_closest_marker(mark) for mark in _SLOW):
            pytest.fail(f"starts {what}: do it in process, or mark the test as slow", pytrace=False)


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]
