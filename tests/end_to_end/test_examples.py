"""Every example workflow runs, as it is, on the local backend."""

from pathlib import Path

import pytest

from runrig.domain.workflows import TaskKey
from tests.end_to_end.server import Server, server

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "workflows").glob("*.yaml"))
ONE_POOL = "pools: [{name: pool, quota: 2}]"

SAYS = {
    "01-hello": ("greet", "with GPU 0"),
    "05-platforms": ("tokenize", "4"),
    "07-simulation": ("referee", "the winner is flyer"),
    "09-retries": ("worker-0", "attempt 1: nothing left to do"),
}
"""What a task of the example has printed in the end."""


def printed(here: Server, workflow: str, task: str) -> str:
    last = max(each.retry_id for each in here.store.workflow(workflow).tasks if each.name == task)
    output = here.service.workflow_queries.output(TaskKey(workflow, task, last))
    assert output is not None
    assert output.stdout is not None
    return Path(output.stdout.path).read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_completes(tmp_path: Path, example: Path) -> None:
    with server(tmp_path / "data", "local", gpus=2, cluster=ONE_POOL) as here:
        workflow = here.run(example.read_text(encoding="utf-8"), "pool")
        here.until(lambda: here.status(workflow) not in ("PENDING", "RUNNING"))
        assert here.status(workflow) == "COMPLETED", here.store.workflow(workflow)
        if example.stem in SAYS:
            task, words = SAYS[example.stem]
            assert words in printed(here, workflow, task)


def test_there_are_ten_examples_or_more() -> None:
    assert len(EXAMPLES) >= 10
