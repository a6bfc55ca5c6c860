"""Tests are the same in every run: what Hypothesis tries is derived from the test, not from chance (`make soak` explores)."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, is_hypothesis_test, settings
from hypothesis.strategies import just

from tests import tiers
from tests.compiled import share_compiled_statements
from tests.exploring import EXPLORING, PROFILE
from tests.stores import KINDS, store_url

pytest_plugins = ["tests.costs"]
share_compiled_statements()

for _name in ("few", "same"):
    settings.register_profile(_name, derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(PROFILE)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # If a shell started the tests in the background, the programs whose Ctrl-C is tested would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # As under nohup: a shell cannot trap what it was started to ignore.

_IN_MEMORY, _ENOUGH = Path("/dev/shm"), 4 << 30
if "PYTEST_XDIST_WORKER" not in os.environ and _IN_MEMORY.is_dir() and shutil.disk_usage(_IN_MEMORY).free > _ENOUGH:
    # A commit waits 10 ms for the disk, and the tests make tens of thousands.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

TIMEOUTS_S = {"soak": 7200, "kubernetes": 600}
"""How long a test with this mark may take, by the first that it has; pyproject.toml has the timeout of all others."""


@settings(max_examples=1, database=None)
@given(just(None))
def _anything(_: None) -> None:
    pass


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What was collected lives to the end: two million objects, which would be looked at again and again, 0.5 s each time.

    So it stays frozen, also where a server that ends in this process, or a benchmark, lets go of what it froze. Hypothesis
    registers its source of randomness first: it warns if no object that the collector sees refers to it.
    """
    _anything()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        vars(gc)["unfreeze"] = lambda: None
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return tiers.is_left_out(collection_path, config.option.budget) or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    usual = TIMEOUTS_S["soak"] if EXPLORING else float(config.getini("timeout"))
    for item in items:
        limit = next((TIMEOUTS_S[mark] for mark in TIMEOUTS_S if item.get_closest_marker(mark)), usual)
        item.add_marker(pytest.mark.timeout(limit, method="thread" if is_repeated(item) else "signal"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: what was compressed holds the time, and each process of a run would name the test otherwise."""
    return argname if isinstance(val, bytes) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    tiers.classify(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    tiers.begin(item)


def is_repeated(item: pytest.Item) -> bool:
    """True if Hypothesis would run it again after a timeout, and hang again: only the end of its process ends it."""
    if not isinstance(item, pytest.Function):
        return False
    return is_hypothesis_test(item.function) or hasattr(item.module, "run_state_machine_as_test")


@pytest.fixture(scope="session", autouse=True)
def temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a run that was killed leaves lies among pytest's own folders, which removes old ones."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))


@pytest.fixture(params=KINDS)
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, empty database of each kind in turn."""
    with store_url(request.param, tmp_path) as url:
        yield url
