"""What tasks wrote."""

from datetime import datetime

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


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
