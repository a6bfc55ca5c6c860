"""Text that both databases can store: valid Unicode without NUL, which PostgreSQL cannot store.

SQLite would accept more, but then data could not be moved to PostgreSQL, so both refuse it.
"""

from collections.abc import Mapping
from typing import Any

from runrig.domain.errors import InvalidInput
from runrig.store.codec import dumps


def checked(text: str) -> str:
    """Returns *text*. Raises InvalidInput for a NUL; the drivers refuse invalid Unicode."""
    if "\0" in text:
        raise InvalidInput.one(f"{text!r:.200} contains a NUL character, which cannot be stored. Remove it")
    return text


def checked_dumps(plain: object) -> str:
    """Like `codec.dumps`. Raises InvalidInput for a NUL, UnicodeEncodeError for an unpaired surrogate."""
    text = dumps(plain)
    if "\\u0000" in text or "\\ud" in text:  # Or a backslash precedes these letters.
        _walk(plain)
    return text


def text_of(data: bytes) -> str:
    """Returns bytes as text, in the form that PostgreSQL reads: ``\\x`` and hexadecimal digits."""
    return f"\\x{data.hex()}"


def bytes_of(text: str) -> bytes:
    """The inverse of `text_of`. Raises ValueError."""
    if not text.startswith("\\x") or " " in text:
        raise ValueError(f"{text!r:.80} is not bytes in hexadecimal")
    return bytes.fromhex(text[2:])


def _walk(plain: Any) -> None:
    if isinstance(plain, str):
        checked(plain).encode()
    elif isinstance(plain, Mapping):
        for key, value in plain.items():
            _walk(key)
            _walk(value)
    elif isinstance(plain, (list, tuple)):
        for value in plain:
            _walk(value)
