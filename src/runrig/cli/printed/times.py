"""Times of answers as they are printed."""

from typing import overload


@overload
def naive(text: str) -> str: ...
@overload
def naive(text: None) -> None: ...
@overload
def naive(text: str | None) -> str | None: ...
def naive(text: str | None) -> str | None:
    """``2026-01-31T12:00:00Z`` without the zone, which is always UTC."""
    return text and text.removesuffix("Z")
