"""Durations for people and files."""

from collections.abc import Mapping
from typing import Any

UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}


def span(seconds: float) -> str:
    """``0.3s``, ``42s``, ``3m05s``, ``2h07m``, ``3d04h``."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


LEAST_TOLD_S = 1.0
"""Starts that took less are not mentioned."""


def times_in_words(times: Mapping[str, Any], waits_s: float | None) -> str:
    """``waited 54m00s (twice), ran 7h56m (3h16m lost); 8h50m in all``, from the fields of `shown.WorkflowTimes`.

    *waits_s*: how long it has been waiting this time; None: it is not waiting.
    """
    often = {0: [], 1: [], 2: ["twice"]}.get(times["waits"], [f"{times['waits']} times"])
    often += [f"{span(waits_s)} this time"] if often and waits_s is not None else []
    parts = [f"waited {span(times['waited_s'])}" + (f" ({', '.join(often)})" if often else "")]
    if times["starting_s"] >= LEAST_TOLD_S:
        parts.append(f"started for {span(times['starting_s'])}")
    lost = f" ({span(times['lost_s'])} lost)" if times["lost_s"] else ""
    if times["running_s"] or lost:
        parts.append(f"ran {span(times['running_s'])}{lost}")
    for name, words in (("held_s", "on hold for"), ("blocked_s", "blocked by earlier work for")):
        if times[name]:
            parts.append(f"{words} {span(times[name])}")
    return f"{', '.join(parts)}; {span(times['total_s'])} in all"


def format_duration(seconds: float) -> str:
    """The shortest form that `spec.values.parse_duration` reads back as *seconds*, to the microsecond."""
    micros = round(seconds * 1_000_000)
    for unit, size in UNITS_S.items():
        whole, rest = divmod(micros, round(size * 1_000_000))
        if not rest and (whole or unit == "s"):
            return f"{whole}{unit}"
    return f"{micros}us"
