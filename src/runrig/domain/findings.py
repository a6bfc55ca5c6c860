"""Findings of a check of a cluster."""

import enum
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    """OPTIONAL: only what the message names does not work. UNKNOWN: it could not be checked."""

    OK = "ok"
    PROBLEM = "problem"
    OPTIONAL = "optional"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """*check*: the name of the check. *message*: one sentence. *command*: mends it; "" if nothing is to mend."""

    check: str
    verdict: Verdict
    message: str
    command: str = ""
