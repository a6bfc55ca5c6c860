"""`runrig pool default` on a real server, and the commands that use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.served import Served, served
from tests.worlds.service import one_task

UNSET = "You have no default pool. Set one with `runrig pool default POOL`: pool1, pool2.\n"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Served]:
    """With pool1 and pool2, of 2 GPUs each."""
    with served(tmp_path) as it:
        yield it


def test_the_default_pool_is_shown_set_used_and_removed(there: Served) -> None:
    assert there.runrig("pool", "default").out == UNSET
    assert there.runrig("pool", "default", "pool2").out == "Your default pool is pool2: quota 2 GPUs, 2 left.\n"
    assert there.json("workflow", "query", there.submit(one_task("train")))["pool"] == "pool2"
    assert there.json("pool", "default")["default_pool"] == "pool2"
    assert there.runrig("pool", "default", "--none").out == UNSET
    refused = there.runrig("submit", "-", stdin=one_task("train"))
    assert (refused.code, refused.err) == (
        2,
        "Error: you can submit to 2 pools (pool1, pool2). Choose one with --pool, or set a default with "
        "`runrig pool default POOL`\n",
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [(("pool3",), "unknown pool 'pool3'"), (("pool1", "--none"), "name a POOL or use --none, not both")],
)
def test_an_invalid_default_is_refused_and_keeps_the_one_that_is_set(
    there: Served, args: tuple[str, ...], says: str
) -> None:
    there.runrig("pool", "default", "pool1")
    done = there.runrig("pool", "default", *args)
    assert (done.code, says in done.err) == (2, True), done
    assert there.json("pool", "default")["default_pool"] == "pool1"
