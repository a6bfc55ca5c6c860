"""Options of a submission that change what its file says."""

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import ExitAction, ExitRule
from runrig.spec.overrides import with_retry
from runrig.spec.workflow import read_workflow

SPEC = read_workflow("""
workflow:
  name: w
  tasks:
  - {name: first, image: i, command: [c], exitActions: {FAIL: "9"}}
  - {name: second, image: i, command: [c], retries: 7}
""")


@pytest.mark.parametrize(
    ("text", "retries", "ranges"),
    [("3", 3, [(1, 255)]), ("1:75", 1, [(75, 75)]), ("5:1-9, 137", 5, [(1, 9), (137, 137)])],
)
def test_retry_applies_to_every_task_ahead_of_the_rules_of_the_file(
    text: str, retries: int, ranges: list[tuple[int, int]]
) -> None:
    rules = tuple(ExitRule(ExitAction.RESCHEDULE, *each) for each in ranges)
    first, second = (group.tasks[0] for group in with_retry(SPEC, text).groups)
    assert (first.retries, first.exit_rules) == (retries, (*rules, ExitRule(ExitAction.FAIL, 9, 9)))
    assert (second.retries, second.exit_rules) == (retries, rules)


def test_without_retry_the_file_decides() -> None:
    assert with_retry(SPEC, None) is SPEC
    assert [group.tasks[0].retries for group in SPEC.groups] == [10, 7]


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "3:", "3:0", "3:5-1", "3:9999", "3;75", "99999999999"])
def test_invalid_retry_is_one_problem(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        with_retry(SPEC, text)
    assert refused.value.message.startswith("retry: ")
