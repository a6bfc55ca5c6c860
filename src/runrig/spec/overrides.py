"""Options of a submission that change its specification: `--retry` and `--after`."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from runrig.domain.after import MOST_AFTER, parse_after
from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import ExitAction, ExitRule, TaskSpec, WorkflowSpec
from runrig.spec.task import MOST_RETRIES
from runrig.spec.values import parse_exit_codes

_ANY_FAILURE = "1-255"
_RETRY = re.compile(r"([0-9]{1,9})(?::(.*))?", re.DOTALL)


class Retry(NamedTuple):
    """Restart a task up to *retries* times if it ends with one of *codes*, such as ``75,130-137``."""

    retries: int
    codes: str


def parse_retry(text: str) -> Retry:
    """Returns the value of ``3`` (any exit code of a program but 0) or ``3:75,137``. Raises ValueError."""
    match = _RETRY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is not N or N:CODES. Use for example 3, or 3:75,137.")
    retries = int(match[1])
    if not 1 <= retries <= MOST_RETRIES:
        raise ValueError(f"{retries} retries are not possible. Use 1 to {MOST_RETRIES}.")
    codes = _ANY_FAILURE if match[2] is None else match[2]
    if any(first == 0 for first, _ in parse_exit_codes(codes)):
        raise ValueError(f"{text!r:.80} includes exit code 0, which means success. Use codes from 1.")
    return Retry(retries, codes)


def with_retry(spec: WorkflowSpec, text: str | None) -> WorkflowSpec:
    """Returns *spec* with ``--retry`` *text* for every task, before the rules of the file. Raises InvalidInput."""
    if text is None:
        return spec
    try:
        retry = parse_retry(text)
    except ValueError as error:
        raise InvalidInput.one(f"retry: {error}", "retry") from None
    rules = tuple(ExitRule(ExitAction.RESCHEDULE, *each) for each in parse_exit_codes(retry.codes))

    def retried(task: TaskSpec) -> TaskSpec:
        return replace(task, retries=retry.retries, exit_rules=rules + task.exit_rules)

    return spec.with_tasks(retried)


def with_after(spec: WorkflowSpec, texts: Sequence[str]) -> WorkflowSpec:
    """Returns *spec* with ``--after`` *texts* in addition to those of the file. Raises InvalidInput."""
    try:
        after = tuple(dict.fromkeys((*spec.after, *map(parse_after, texts))))
    except ValueError as error:
        raise InvalidInput.one(f"after: {error}", "after") from None
    if len(after) > MOST_AFTER:
        raise InvalidInput.one(f"after: too many workflows ({len(after)}, maximum {MOST_AFTER})", "after")
    return replace(spec, after=after) if texts else spec
