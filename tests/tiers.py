"""Two tiers of tests: the fast one, which is `make test`, and the slow one, which is `make test-slow`; .ci/run runs both.

The fast tier runs in the process of pytest.  Whatever starts a runrig process, a server or a database asks `only_slow` first, so
that a test of the fast tier that would do so fails and says why.  A test is slow if it has the mark, lies in one of FOLDERS, or
runs on PostgreSQL outside of DATABASES.  A run of one tier does not import the modules that have no test of it.
"""

from functools import cache
from pathlib import Path

import pytest

FOLDERS = {"attack", "browser", "crash", "end_to_end", "examples", "failover", "fuzz", "load", "packaging"}
_TESTS = Path(__file__).parent
DATABASES = "store"
"""The folder whose tests run on PostgreSQL in the fast tier too, on one server."""
_SLOW = ("slow", "soak", "kubernetes")
_WORDS = ("slow", "explored", "postgresql", "KINDS", "any_store")
"""A module outside of FOLDERS that has none of them has no test of the slow tier."""
_running: list[pytest.Item] = []


def classify(item: pytest.Item) -> None:
    if _folder(item) in FOLDERS:
        item.add_marker(pytest.mark.slow)
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        databases = {value for value in item.callspec.params.values() if value == "postgresql"}
        if databases and _folder(item) != DATABASES:
            item.add_marker(pytest.mark.slow)

    if any(item.get_closest_marker(mark) for mark in ("slow", "explored")) and is_left_out(item.path, "slow"):
        raise pytest.UsageError(f"{item.nodeid}: make test-slow would not find it: its module has none of {_WORDS}")


@cache
def is_left_out(path: Path, tier: str | None) -> bool:
    """True for a folder or module that a run of *tier* need not import; None is a run of both."""
    folder = path.relative_to(_TESTS).parts[:1]
    if tier == "fast":
        return bool(folder) and folder[0] in (*FOLDERS, "kubernetes")
    named = path.name.startswith("test_") and path.is_file() and folder[0] not in FOLDERS
    return tier == "slow" and named and not any(word in path.read_text() for word in _WORDS)


def begin(item: pytest.Item) -> None:
    _running[:] = [item]


def only_slow(what: str, *, but: str = "") -> None:
    """Fails a running test of the fast tier, because it starts *what*.  *but*: the folder whose tests may."""
    for item in _running:
        if _folder(item) != but and not any(item.get_closest_marker(mark) for mark in _SLOW):
            pytest.fail(f"starts {what}: do it in process, or mark the test as slow", pytrace=False)


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(_TESTS).parts[0]
