"""Removes control sequences from text of servers, files and tasks.

Removes escape sequences, control characters, marks that change the writing direction and unpaired surrogates.
"""

import re

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC and other strings, up to their end
    r"|\x1b[ -/]*[0-~]"  # two-character sequences
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_RETURN = re.compile(r"\r+\n?")


def printable(text: str) -> str:
    """Keeps newlines and tabs, and replaces a carriage return by a newline."""
    return _CONTROL.sub("", _ESCAPE.sub("", _RETURN.sub("\n", text)))
