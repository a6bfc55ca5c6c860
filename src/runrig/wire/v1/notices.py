"""Requests about notices."""

from typing import Literal

from runrig.wire.base import Request, Whole, example


class NoticesRequest(Request):
    """*to*: an https address, or a mail address if the server sends mail. *when*: what to send notices of. *min_run_s*: no
    notice of the end of a workflow that ran for less.
    """

    model_config = example({"to": "https://hooks.example.org/runrig", "when": ["fail", "preempt"], "min_run_s": 600})

    to: str
    when: list[Literal["start", "done", "fail", "preempt"]]
    min_run_s: Whole = 0
