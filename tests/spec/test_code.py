"""The field `code` of a workflow file."""

import pytest

from runrig.domain.errors import InvalidInput
from runrig.spec.workflow import read_workflow
from tests.worlds.service import one_task


def test_a_workflow_names_its_code_even_if_its_id_looks_like_a_number() -> None:
    assert read_workflow(one_task("w")).code is None
    for id in ("ab" * 32, "1" * 64, f"'{'0' * 64}'"):
        assert read_workflow(f"{one_task('w')}  code: {id}\n").code == id.strip("'")


@pytest.mark.parametrize("id", ["ab" * 31, "AB" * 32, "g" * 64, "../" * 21 + "a", "[]", "''"])
def test_other_text_is_refused(id: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_workflow(f"{one_task('w')}  code: {id}\n")
    (problem,) = refused.value.problems
    assert (problem.path, "64 hexadecimal digits" in problem.message) == ("workflow.code", True)
