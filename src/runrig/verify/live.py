"""Follows a log while it grows, and reports an unlawful decision within a second of its commit (docs/verify.md)."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from .chain import Chain, Item
from .verify import LAWFUL, UNLAWFUL, Checker, Report, changes

PAUSE_S = 0.5


def follow(
    read: Callable[[int], Iterable[Item]],
    begin: int,
    checker: Checker,
    *,
    name: str,
    as_json: bool,
    say: Callable[[str], None],
    textfile: Path | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Returns UNLAWFUL after the first commit that is; LAWFUL when it is interrupted. Raises what *read* raises, and Unreadable.

    *read*: returns the log after a revision, as `reading.log`. *begin*: the snapshot to begin with; 0: the start. *name*: of the log.
    *textfile*: gets metrics for Prometheus with each look.
    """
    chain, found = Chain(name), list[Report]()
    try:
        while not found:
            for commit in chain.commits(read(chain.at or begin)):
                found = checker.read([commit]) + changes(chain)
                if found:
                    break
            if textfile is not None:
                _write(textfile, checker, len(found))
            if not found:
                wait(PAUSE_S)
    except KeyboardInterrupt:
        pass
    for report in found:
        say(json.dumps(report._asdict()) if as_json else str(report))
    if not as_json:
        say(checker.numbers.text(len(found)))
    return UNLAWFUL if found else LAWFUL


def _write(path: Path, checker: Checker, unlawful: int) -> None:
    """Replaces the file, so that readers find all of the old or all of the new one."""
    numbers = checker.numbers
    rows = (
        ("unlawful", "gauge", "Unlawful decisions and changes of the log that were found.", unlawful),
        ("decisions_total", "counter", "Decisions that were checked.", numbers.decisions),
        ("revision", "gauge", "The last revision that was checked.", numbers.revision),
        ("checked_timestamp_seconds", "gauge", "When the log was last looked at.", f"{time.time():.3f}"),
    )
    text = "".join(
        f"# HELP runrig_verify_{name} {what}\n# TYPE runrig_verify_{name} {kind}\nrunrig_verify_{name} {value}\n"
        for name, kind, what, value in rows
    )
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
