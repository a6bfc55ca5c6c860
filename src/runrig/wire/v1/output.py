"""What tasks wrote, and what is read from it."""

from datetime import datetime

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


class WorkflowCause(Shown):
    """Why it failed, by what its tasks wrote: of those that failed by their own program the first, but for programs that only saw
    another one die.  *attempt* counts from 0; *ending*: its exit code in words.  *lines*: up to 20, in the order of time,
    of which *first* to *last*, from 0, tell the cause; -1: none does."""

    model_config = example(
        {
            "task": "main",
            "attempt": 0,
            "exit_code": 1,
            "ending": "exit code 1",
            "sentence": "KeyError: 'state_dict'",
            "lines": [
                "Traceback (most recent call last):",
                '  File "train.py", line 88, in <module>',
                "KeyError: 'state_dict'",
            ],
            "first": 0,
            "last": 2,
        }
    )

    task: str
    attempt: int
    exit_code: int | None
    ending: str
    sentence: str
    lines: list[str]
    first: int
    last: int


class LogRecord(Shown):
    """A line of output, as `format=records` sends it.  *attempt* counts from 0; *stream*: stdout or stderr."""

    model_config = example(
        {
            "time": "2026-01-31T12:00:00.250000Z",
            "task": "main",
            "attempt": 0,
            "stream": "stdout",
            "text": "step 0  loss 7.9",
        }
    )

    time: datetime
    task: str
    attempt: int
    stream: str
    text: str
