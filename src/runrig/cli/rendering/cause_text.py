"""Why a workflow failed, with the last output of its task."""

from collections.abc import Iterator, Mapping
from typing import Any

from runrig.cli.rendering import sanitize


def last_lines(cause: Mapping[str, Any] | None) -> Iterator[str]:
    """Yields the last output of the failed task, below its name; nothing if it wrote nothing."""
    if cause is None or not cause["lines"]:
        return
    attempt = f", attempt {cause['attempt'] + 1}" if cause["attempt"] else ""
    yield ""
    yield f"{cause['task']}{attempt} wrote last:"
    for line in cause["lines"]:
        yield f"  {sanitize.line(line)}".rstrip()
