"""Makes text from servers and files safe for a terminal. JSON does not need this, because it escapes control sequences."""

import json
from typing import Any

from runrig.domain.printable import printable

block = printable
"""Sanitizes several lines."""


def line(value: object) -> str:
    """Returns *value* on one line; ``-`` for None."""
    return "-" if value is None else " ".join(block(str(value)).split("\n")).replace("\t", " ")


def as_json(value: Any) -> str:
    """Returns a JSON document in printable ASCII; all other characters are escaped."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")
