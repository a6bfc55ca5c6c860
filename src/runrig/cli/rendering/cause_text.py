"""What a workflow failed of, and the last lines that its task wrote."""

from collections.abc import Iterator, Mapping
from typing import Any

from runrig.cli.rendering import sanitize


def last_lines(cause: Mapping[str, Any] | None) -> Iterator[str]:
    """The last lines of the task that failed, below its name; of a task that wrote nothing there is nothing to see."""
    if cause is None or not cause["lines"]:
        return
    attempt = f", attempt {cause['attempt'] + 1}" if cause["attempt"] else ""
    yield ""
    yield f"{cause['task']}{attempt} wrote last:"
    for line in cause["lines"]:
        yield f"  {sanitize.line(line)}".rstrip()
