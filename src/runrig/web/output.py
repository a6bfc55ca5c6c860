"""Output of tasks on a page: the last lines of both streams, a search in them, and what shows why a task failed."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from markupsafe import Markup, escape

from runrig.domain.attempt_words import ended_as, next_attempt
from runrig.domain.errors import NotFound
from runrig.domain.printable import printable
from runrig.domain.shown.workflows import Workflow
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Task
from runrig.service import log_stream as logs
from runrig.service.queries.output import STDERR, Lines, one_by_one, text_of
from runrig.service.queries.record import Record
from runrig.service.service import Service
from runrig.web.attempts import killed

LINES = 2_000
"""Lines on a page."""
SEARCHED = 100_000
"""Lines that a search reads."""
MOST_ATTEMPTS = 64
"""Attempts of pods whose output is read. Of more, a page shows those of one task."""
_READ = 16_000
"""Lines that a page reads, over all streams of all attempts, but at least `LINES` of each of a few."""
HUES = 8

# Safe: all parts are class names, numbers, or escaped text.
_html = Markup

Key = tuple[str, int]
"""A pod and its attempt."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """*task*: "": all. *attempt*: from 0; None: all. *find*: only lines with this text, in any case. *skip*: lines at the
    end that are left out.
    """

    task: str = ""
    attempt: int | None = None
    find: str = ""
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """*lines*: as HTML. *count*: number of *lines*. *found*: number of lines that match the search.

    *earlier*: there are lines before. *each*: lines that were read of each stream of a task, where these are fewer than
    a page has; None: as many as a page has. *cause*: the cause of the failure is among the lines. *left_out*: attempts
    whose output was not read.
    """

    lines: Markup = field(default_factory=Markup)
    count: int = 0
    found: int = 0
    earlier: bool = False
    each: int | None = None
    cause: bool = False
    left_out: int = 0


def request_of(id: str, wanted: Wanted, each: int | None = None, *, follow: bool = False) -> logs.LogRequest:
    """*each*: lines of each stream of each attempt; None: all."""
    return logs.LogRequest(
        id,
        wanted.task or None,
        wanted.attempt,
        each,
        follow,
        every_attempt=wanted.attempt is None,
        records=follow,
    )


def lines_each(attempts: int) -> int:
    return max(50, min(LINES, _READ // max(1, 2 * attempts)))


def output_of(service: Service, of: Workflow, wanted: Wanted, record: Record) -> Output:
    """Reads up to `MOST_ATTEMPTS` attempts, the latest: bounded, however much they wrote."""
    try:
        every = logs.attempts_of(service, request_of(of.id, wanted), record)
    except NotFound:
        return Output()
    attempts = sorted(every, key=lambda each: (not _failed_first(of, each), -(each.start_time or 0)))[:MOST_ATTEMPTS]
    each = SEARCHED // max(1, 2 * len(attempts)) if wanted.find else lines_each(len(attempts))
    read = logs.Follower(service, request_of(of.id, wanted, each + wanted.skip + 1), attempts).lines()
    if wanted.find:
        found, lines = _matching(read, wanted.find.lower())
        return Output(_drawn(lines, of, {}), len(lines), found, left_out=len(every) - len(attempts))
    lines, earlier = _last(read, LINES + wanted.skip)
    marks = _cause_marks(lines, of)
    lines = lines[: len(lines) - wanted.skip]
    drawn = _drawn(lines, of, marks)
    reads_less = each if each < LINES else None
    shows_cause = any(at < len(lines) for at in marks)
    return Output(drawn, len(lines), 0, earlier, reads_less, shows_cause, len(every) - len(attempts))


def _failed_first(of: Workflow, attempt: Task) -> bool:
    return of.cause is not None and (of.cause.task, of.cause.attempt) == (attempt.name, attempt.retry_id)


def _last(read: Iterable[Lines], most: int) -> tuple[list[Lines], bool]:
    """Returns the last *most* lines one by one, and whether there are others before."""
    blocks: deque[tuple[int, Lines]] = deque()
    total = 0
    earlier = False
    for block in read:
        blocks.append((block.data.count(b"\n") + 1, block))
        total += blocks[-1][0]
        while total - blocks[0][0] >= most:
            total -= blocks.popleft()[0]
            earlier = True
    lines = list(one_by_one(block for _, block in blocks))
    return lines[-most:], earlier or len(lines) > most


def _matching(read: Iterable[Lines], needle: str) -> tuple[int, list[Lines]]:
    """Returns the number of lines with *needle*, and the last of them."""
    found: deque[Lines] = deque(maxlen=LINES)
    count = 0
    for line in one_by_one(read):
        if needle in text_of(line).lower():
            found.append(line)
            count += 1
    return count, list(found)


def _cause_marks(lines: Sequence[Lines], of: Workflow) -> dict[int, str]:
    """Returns classes of the lines that show the cause, by index."""
    cause = of.cause
    if cause is None or cause.block[0] == 0:
        return {}
    tells = of.status is WorkflowStatus.FAILED and not killed(cause)  # Otherwise the program did not know why it ended.
    marks: dict[int, str] = {}
    behind = 0
    for at in range(len(lines) - 1, -1, -1):
        key = lines[at].key
        if (key.task, key.retry_id) != (cause.task, cause.attempt):
            continue
        behind += 1
        if behind > cause.block[0]:
            break
        if behind >= cause.block[1]:
            marks[at] = "said" if behind == cause.block[1] and tells else "cause"
    return marks


# ---------------------------------------------------------------- as HTML


def hue(pod: str) -> int:
    """The same in the script."""
    return sum(map(ord, pod)) % HUES


def _drawn(lines: Sequence[Lines], of: Workflow, marks: dict[int, str]) -> Markup:
    tasks = [task for group in of.groups for task in group.tasks]
    ends = {(task.name, task.attempt): ended_as(task.message, task.status) for task in tasks}
    several = len({task.name for task in tasks}) > 1
    return _html("".join(_paragraphs(lines, ends, marks, several=several)))


def _paragraphs(lines: Sequence[Lines], ends: dict[Key, str], marks: dict[int, str], *, several: bool) -> Iterator[str]:
    attempts: dict[str, int] = {}
    day, error = "", ' id="error"'
    for at, line in enumerate(lines):
        moment = datetime.fromtimestamp(int(line.time), UTC)
        pod, number = line.key.task, line.key.retry_id
        before = attempts.setdefault(pod, number)
        if number > before:
            attempts[pod] = number
            yield f'<p class="rule">{escape(next_attempt(pod, before, number, ends.get((pod, before), "ended")))}</p>'
        if day and day != f"{moment:%Y-%m-%d}":
            yield f'<p class="rule">{moment:%Y-%m-%d}</p>'
        day = f"{moment:%Y-%m-%d}"
        kinds = " ".join(each for each in (marks.get(at, ""), "err" if line.stream == STDERR else "") if each)
        name = f'<i class="h{hue(pod)}">{escape(pod)}</i> ' if several else ""
        attributes = f' class="{kinds}"' if kinds else ""
        if at in marks:
            attributes, error = attributes + error, ""
        yield f"<p{attributes}><time>{moment:%H:%M:%S}</time> {name}{escape(printable(text_of(line)))}</p>"
