"""Long computations in steps: a generator that yields where other work can run, and returns its result.

The state that it reads must be the same at every step. It can be paused or abandoned at each.
"""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]


def drained(steps: Steps[T]) -> T:
    """Runs *steps* to the end and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: T = ended.value
            return found
