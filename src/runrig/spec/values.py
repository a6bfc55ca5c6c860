"""Values written as text: durations, sizes, exit codes. Each function raises ValueError with a message."""

import re
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

from runrig.domain.quantities import LARGEST
from runrig.domain.spans import UNITS_S, format_duration

LONGEST_DURATION_S = 3650 * 86400.0

_NEGATIVE = re.compile("-[P0-9.]")
_DURATION = re.compile(r"([0-9]{1,18})(d|h|m|s|ms|us)")
_SECONDS = re.compile(r"[0-9]{1,18}(\.[0-9]+)?")
_ISO = re.compile(
    r"P(?=.)(?:(?P<w>[0-9]{1,6})W)?(?:(?P<d>[0-9]{1,6})D)?"
    r"(?:T(?=.)(?:(?P<h>[0-9]{1,9})H)?(?:(?P<m>[0-9]{1,9})M)?(?:(?P<s>[0-9]{1,12}(?:\.[0-9]{1,9})?)S)?)?"
)
_ISO_UNITS_S = {"w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def parse_duration(text: str) -> float:
    """Returns seconds for ``90s``, ``2h``, ``500ms``, ``PT1H30M``, or a number of seconds."""
    if _NEGATIVE.match(text):
        raise ValueError(f"{text!r} is negative: durations start at 0")
    if match := _DURATION.fullmatch(text):
        seconds = int(match[1]) * UNITS_S[match[2]]
    elif _SECONDS.fullmatch(text):
        seconds = float(text)
    elif match := _ISO.fullmatch(text):
        seconds = sum(float(value) * _ISO_UNITS_S[unit] for unit, value in match.groupdict().items() if value)
    else:
        raise ValueError(
            f"{text!r} is not a duration. Use one number with a unit of d, h, m, s, ms, us (90m, not 1h30m), or PT1H30M."
        )
    if seconds > LONGEST_DURATION_S:
        raise ValueError(f"{text!r} is too long (maximum {format_duration(LONGEST_DURATION_S)})")
    return seconds


def parse_until(text: str, now: float) -> float:
    """Returns seconds since the epoch for ``2026-01-31T14:00``, in UTC unless it has a zone, or for ``2h`` after *now*."""
    try:
        if text.isdecimal():  # A year, or seconds?
            raise ValueError
        if "-" not in text[1:]:
            return round(now + parse_duration(text), 6)
        at = datetime.fromisoformat(text.upper())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r:.80} is not a time. Use a duration from now, such as 90m or 2h, at most "
            f"{format_duration(LONGEST_DURATION_S)}, or a time such as 2026-01-31T14:00."
        ) from None


_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(?:([KMGT])(?:i|iB)?|B|(m))?")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int:
    """Returns bytes, rounded up, for ``4Gi``, ``1.5TiB``, ``512M``. G means Gi, as in osmo; a bare number means bytes."""
    if _NEGATIVE.match(text):
        raise ValueError(f"{text!r} is negative: sizes start at 0")
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size. Use a number and a unit, such as 512Mi, 64Gi or 1.5Ti.")
    number = Decimal(match[1]) * 1024 ** _POWERS.get(match[2], 0) / (1000 if match[3] else 1)
    amount = int(number.to_integral_value(ROUND_CEILING))
    if amount > LARGEST:
        raise ValueError(f"{text!r} does not fit in 64 bits: sizes must be at most {LARGEST} bytes")
    return amount


LAST_EXIT_CODE = 4000
_CODES = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def parse_exit_codes(text: str) -> tuple[tuple[int, int], ...]:
    """Returns the ranges (first, last) in ``1,3-5,137``."""
    ranges = []
    for part in text.split(","):
        match = _CODES.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a list of exit codes. Use for example 1,3-5,137.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"the range {part.strip()} is reversed. Use {last}-{first}")
        if last > LAST_EXIT_CODE:
            raise ValueError(f"invalid exit code {last}: the maximum is {LAST_EXIT_CODE}")
        ranges.append((first, last))
    return tuple(ranges)
