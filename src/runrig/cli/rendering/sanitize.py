"""Makes text from servers and files safe for a terminal by removing control sequences.

Removes escape sequences, control characters, marks that change the writing direction and unpaired surrogates. JSON does
not need this, because it escapes them.
"""

import json
import re
from typing import Any

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC and other strings, up to their end
    r"|\x1b[ -/]*[0-~]"  # two-character sequences
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RETURN = re.compile(r"\r+\n?")


def block(text: str) -> str:
    """Sanitizes several lines: keeps newlines and tabs, replaces a carriage return by a newline."""
    return _CONTROL.sub("", _ESCAPE.sub("", _RETURN.sub("\n", text)))


def line(value: object) -> str:
    """Returns *value* on one line; ``-`` for None."""
    return "-" if value is None else " ".join(block(str(value)).split("\n")).replace("\t", " ")


def as_json(value: Any) -> str:
    """Returns a JSON document in printable ASCII; all other characters are escaped."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")
