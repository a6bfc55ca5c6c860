"""Finds the cause of a failed program in the last lines of its output. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_LINES = 2_000
"""Number of lines that are searched, from the end."""
WENT_ON = 200
"""If at least this many lines follow a traceback, it was only logged and the program continued."""
LONGEST = 300
"""Maximum length of a sentence, in characters."""
NOTHING = "it wrote nothing"

_RANK = re.compile(r"\s*\[(?:rank|default|worker)?[ :]?(\d{1,6})\]\s?:?\s?")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: .*)?$|(?:[A-Za-z_]\w*\.)*[A-Z]\w*:$")
_CHAINS = ("During handling of the above exception", "The above exception was the direct cause", "Original Traceback")
_LAUNCHER = re.compile(
    r"ChildFailedError|torch/distributed/(?:launcher|elastic|run\.py)|accelerate/commands|deepspeed/launcher|"
    r"subprocess\.CalledProcessError"
)
_FOLLOWER = re.compile(
    r"nccl|gloo|process ?group|distbackenderror|connection (?:closed|reset|refused|aborted)|broken ?pipe|"
    r"connection(?:reset|aborted|refused)error|socket timeout|peer",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"\b(?:error|fatal|killed|segmentation fault|core dumped|no space left|out of memory|oom|not found|denied|no such file|"
    r"aborted|panic|exception|cannot|failed)\b",
    re.IGNORECASE,
)
_SIGNAL = re.compile(r"\s*traceback\s*: (Signal \d+ \(\w+\) received by PID \d+)")
"""A line of torchrun's report about a process. The one that failed first comes last."""
_CODES = {
    126: "it cannot be executed",
    127: "no such command",
    134: "it aborted",
    137: "it was killed",
    139: "segmentation fault",
    143: "it was asked to stop",
}


def after(who: str) -> str:
    """Returns the message of tasks that are stopped because *who*, another task of their group, has ended."""
    return f"{who} ended"


def is_after(message: str) -> bool:
    return message.endswith(" ended")


class Cause(NamedTuple):
    """*first* to *last*: the lines that show the cause, counted from 0, both included; -1 if there are none.

    *follows*: it is what a program reports when another one that it works with has died.
    """

    sentence: str
    first: int
    last: int
    follows: bool = False


class _Block(NamedTuple):
    """A traceback with those chained to it. *first* to *last*: its first line to that of its last exception."""

    rank: str
    first: int
    last: int
    exception: str
    launcher: bool


def cause_of(lines: Sequence[str]) -> Cause:
    """Why the program that wrote *lines* last failed. O(lines)."""
    found = list(_blocks(lines))
    blocks = [each for each in found if not each.launcher]
    last_of_ranks = {each.rank: each for each in blocks}
    ends = sorted(last_of_ranks.values(), key=lambda each: each.last)
    fresh = [each for each in ends if len(lines) - each.last <= WENT_ON]
    own = [each for each in fresh if not _FOLLOWER.search(each.exception)]
    if fresh:
        block = own[0] if own else fresh[0]
        return Cause(block.exception[:LONGEST], block.first, block.last, follows=not own)
    return _without_traceback(lines, max((each.first for each in found if each.launcher), default=len(lines)))


def _without_traceback(lines: Sequence[str], report: int) -> Cause:
    """*report*: the first line of what the launcher wrote about its processes."""
    written = [at for at, line in enumerate(lines) if line.strip()]
    if not written:
        return Cause(NOTHING, -1, -1)
    telling = [at for at in written if _WORD.search(lines[at]) and len(lines) - at <= WENT_ON]
    own = [at for at in telling if at < report and not _LAUNCHER.search(lines[at])]
    signals = [(at, found[1]) for at in written if at >= report and (found := _SIGNAL.match(lines[at]))]
    if signals and not own:
        at, sentence = signals[-1]
        return Cause(sentence, at, at)
    at = (own or telling or written)[-1]
    return Cause(lines[at].strip()[:LONGEST], at, at, follows=bool(_FOLLOWER.search(lines[at])))


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Yields the tracebacks of each rank. The lines of ranks may be interleaved."""
    ranks: dict[str, list[tuple[int, str]]] = {}
    for at, line in enumerate(lines):
        found = _RANK.match(line)
        rank, text = (found[1], line[found.end() :]) if found else ("", line)
        ranks.setdefault(rank, []).append((at, text.rstrip()))
    for rank, own in ranks.items():
        yield from _of_rank(rank, own)


def _of_rank(rank: str, lines: Sequence[tuple[int, str]]) -> Iterator[_Block]:
    first: int | None = None
    found: _Block | None = None
    launcher = False
    for place, (at, text) in enumerate(lines):
        if text.lstrip(" |+").startswith(("Traceback (most recent call last):", "Original Traceback")):
            chained = found is not None and _chained(lines, found.last, at)
            if found is not None and not chained:
                yield found
            if not chained:
                launcher = False
            first, found = (found.first if found is not None and chained else at), None
        elif first is not None and found is None:
            launcher |= bool(_LAUNCHER.search(text))
            if text and not text[0].isspace() and _EXCEPTION.match(text):
                last, exception = _whole(lines, place)
                found = _Block(rank, first, last, exception, launcher)
    if found is not None:
        yield found


def _whole(lines: Sequence[tuple[int, str]], place: int) -> tuple[int, str]:
    """Returns the last line of the exception at *place*, and its text: after a final colon, an indented line completes it."""
    (at, text), (then, more) = lines[place], next(iter(lines[place + 1 : place + 2]), (0, ""))
    return (then, f"{text} {more.strip()}") if text.endswith(":") and more[:1].isspace() else (at, text)


def _chained(lines: Sequence[tuple[int, str]], last: int, first: int) -> bool:
    """Whether the traceback that begins at *first* is chained to the one that ended at *last*."""
    between = [text.strip() for at, text in lines if last < at <= first]
    return len(between) < 8 and any(text.startswith(_CHAINS) for text in between)


def in_words(exit_code: int, message: str = "") -> str:
    """``exit code 137: it was killed``. *message*: the backend's message about the end."""
    if exit_code == 137 and re.search(r"oom|out of memory", message, re.IGNORECASE):
        return "exit code 137: out of memory"
    meaning = _CODES.get(exit_code)
    return f"exit code {exit_code}" + (f": {meaning}" if meaning else "")
