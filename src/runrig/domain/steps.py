"""Long answers in steps: a generator that yields where others may have their turn, and returns what it found.

Whatever it asks is at each step as it was before, so that it may be left alone for a while, or given up.
"""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]


def drained(steps: Steps[T]) -> T:
    """What *steps* return in the end."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: T = ended.value
            return found
