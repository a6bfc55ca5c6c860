"""Lengths of time for people and files."""

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


def format_duration(seconds: float) -> str:
    """The shortest form that `spec.values.parse_duration` reads back as *seconds*, to the microsecond."""
    micros = round(seconds * 1_000_000)
    for unit, size in UNITS_S.items():
        whole, rest = divmod(micros, round(size * 1_000_000))
        if not rest and (whole or unit == "s"):
            return f"{whole}{unit}"
    return f"{micros}us"
