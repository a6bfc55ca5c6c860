"""Reads files named on the command line, or ``-`` for stdin, as text."""

import sys
from pathlib import Path

from runrig.domain.errors import InvalidInput
from runrig.spec.regular_file import read_once

LARGEST_FILE = 2 * 1024 * 1024
"""Bytes. The parsers refuse smaller files with better messages; this only stops endless reading from a device."""


def read_text(name: str) -> str:
    """Returns the text of the file *name*. Raises InvalidInput if it cannot be read."""
    try:
        return _decoded(name, read_bytes(name, LARGEST_FILE))
    except FileNotFoundError:
        raise InvalidInput.one(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InvalidInput.one(f"{name} is a folder. Name a file.") from None
    except (OSError, ValueError) as error:
        raise InvalidInput.one(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def shown(name: str) -> str:
    return "<stdin>" if name == "-" else name


def read_bytes(name: str, most: int) -> bytes:
    """Returns *most* bytes and one more, if there are so many. Raises OSError, ValueError."""
    return sys.stdin.buffer.read(most + 1) if name == "-" else read_once(Path(name), most + 1)


def _decoded(name: str, raw: bytes) -> str:
    if len(raw) > LARGEST_FILE:
        raise InvalidInput.one(
            f"{shown(name)} is larger than {LARGEST_FILE // 1024 // 1024} MiB. Check that it is the right file."
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} is {raw[error.start]:#04x}"
        raise InvalidInput.one(f"{shown(name)} is not UTF-8 text: {byte}") from None
