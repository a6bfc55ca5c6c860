"""What `make affected` runs: an edge of each kind leads from a change to the tests that it can break."""

import pytest

from tests.affected import EVERYTHING, affected


def names(*changed: str) -> set[str]:
    return {str(file.relative_to("tests")) for file in affected(changed)}


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("src/runrig/engine/quota/quota_node.py", "engine/quota/test_tree.py"),
        ("src/runrig/cli/commands/cohort.py", "cli/test_topology.py"),
        ("src/runrig/wiring/serve.py", "wiring/test_serve.py"),
        ("src/runrig/wiring/up.py", "crash/test_kill_server.py"),
        ("tests/worlds/seeded.py", "bench/test_bench.py"),
        ("tests/store/contract/conftest.py", "store/contract/test_log.py"),
        ("tests/stores.py", "service/runtime/test_clock.py"),
        ("src/runrig/web/templates/overview.html", "web/test_pages.py"),
        ("examples/topology/01-cluster.yaml", "engine/placement/test_use_cases.py"),
    ],
    ids=[
        "an import",
        "a lazy table",
        "a process",
        "a relative import",
        "a world",
        "fixtures",
        "any_store",
        "a template",
        "data",
    ],
)
def test_change_selects_the_tests_that_use_it(changed: str, test: str) -> None:
    assert test in names(changed)


def test_change_does_not_select_unrelated_tests() -> None:
    found = names("src/runrig/kueue/engine/cycle.py")
    assert "engine/quota/test_tree.py" not in found
    assert "domain/test_access.py" not in found
    assert names("LICENSE", "docs/pictures/overview.png").isdisjoint({"engine/quota/test_tree.py"})


@pytest.mark.parametrize("changed", EVERYTHING)
def test_change_of_shared_test_code_selects_all_tests(changed: str) -> None:
    assert {"engine/quota/test_tree.py", "domain/test_access.py", "web/test_pages.py"} <= names(changed)
