"""Parses Kubernetes quantities, weights and times into exact numbers; invalid text raises ValueError with a message."""

import re
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from runrig.domain.quantities import CPU, LARGEST
from runrig.spec.fields import shortened

LONGEST = 100
"""Maximum length of a quantity, in characters."""

_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9})|([numkMGTPE]|[KMGTPE]i))?")
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_FINEST = Decimal("1e-9")
SMALLEST_WEIGHT = Fraction(1, 10**9)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def parse_amount(resource: str, text: str) -> int:
    """*text* in the unit of *resource*, rounded up: cpu in milli-cores, everything else in whole units."""
    number = _quantity(text)
    scaled = number * 1000 if resource == CPU else number
    if scaled > LARGEST:
        raise ValueError(f"{text!r} does not fit in 64 bits")
    return int(scaled.to_integral_value(ROUND_CEILING))


def parse_weight(text: str) -> Fraction:
    return Fraction(_quantity(text))


def parse_factor(text: str) -> Fraction:
    """Like `parse_weight`, but negative numbers are allowed."""
    return -parse_weight(text[1:]) if text.startswith("-") else parse_weight(text)


def parse_time(text: str) -> float:
    """Seconds since the epoch."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text!r} is not a valid time: use a format such as 2026-01-31T12:00:00Z")
    fraction = text.find(".")
    trimmed = re.sub(r"\.(\d{1,6})\d*", r".\1", text) if fraction >= 0 else text
    try:
        return datetime.fromisoformat(trimmed.upper()).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a valid time: this day or hour does not exist") from None


def _quantity(text: str) -> Decimal:
    """The exact number, in steps of at most a billionth. Raises ValueError if it is negative or exceeds 64 bits."""
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise ValueError(f"{shortened(text)!r} is not a valid quantity: use a number such as 4, 500m or 64Gi")
    sign, digits, exponent, suffix = match.groups()
    number = Decimal(digits)
    if not number:
        return number
    if sign == "-":
        raise ValueError(f"{text!r} is negative: amounts must be at least 0")
    power = int(exponent) if exponent else _POWERS.get(suffix or "", 0)
    if number.adjusted() + power > 20:
        raise ValueError(f"{text!r} does not fit in 64 bits")
    if number.adjusted() + power < -9:
        return _FINEST
    number = number.scaleb(power) * Decimal(_BINARY.get(suffix or "", 1))
    if number > LARGEST:
        raise ValueError(f"{text!r} does not fit in 64 bits")
    return number
