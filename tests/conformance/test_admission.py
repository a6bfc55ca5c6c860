"""What is admitted, with how many pods of which flavors, what is preempted, and why the rest waits."""

import pytest

from tests.conformance.cases import Case, parameters
from tests.conformance.outcomes import expected, seen
from tests.conformance.run import answer


@pytest.mark.parametrize("case", parameters("admission", "partial", "otherwise"))
def test_cycle_has_the_listed_result(case: Case) -> None:
    assert seen(answer(case)) == expected(case)
