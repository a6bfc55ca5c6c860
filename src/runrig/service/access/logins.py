"""Limits failed logins, from one address and in total.

A token has 256 random bits and cannot be guessed. The limit is on the work and the log lines that attempts cost, so a
valid token is accepted even if its address has too many failures.
"""

import ipaddress
import threading
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil

MOST_SOURCES = 10_000
"""Maximum sources remembered. Attacks from more sources hit the limit for all."""


@dataclass(frozen=True, slots=True)
class Limit:
    """*at_once* failures, then one every *every_s* seconds."""

    at_once: int
    every_s: float


ONE_SOURCE = Limit(10, 6.0)
ALL_SOURCES = Limit(200, 0.3)


class _Bucket:
    """The remaining attempts within a limit."""

    __slots__ = ("at", "left")

    def __init__(self, limit: Limit, now: float) -> None:
        self.left = float(limit.at_once)
        self.at = now

    def refill(self, limit: Limit, now: float) -> None:
        self.left = min(float(limit.at_once), self.left + max(0.0, now - self.at) / limit.every_s)
        self.at = now

    def missing_s(self, limit: Limit) -> float:
        """Returns the seconds until another failure is allowed; 0 if it is allowed now."""
        return max(0.0, (1.0 - self.left) * limit.every_s)


class FailedLogins:
    """Thread-safe, with bounded memory."""

    def __init__(self, one: Limit = ONE_SOURCE) -> None:
        self._one, self._all = one, ALL_SOURCES
        self._lock = threading.Lock()
        self._total: _Bucket | None = None
        self._by_source: OrderedDict[str, _Bucket] = OrderedDict()

    def count(self, source: str, now: float) -> int | None:
        """Counts a failure from the address *source*. Returns None within the limits, else the seconds until the next
        attempt is accepted.
        """
        with self._lock:
            total = self._total = self._total or _Bucket(self._all, now)
            bucket = self._bucket(network_of(source), now)
            total.refill(self._all, now)
            bucket.refill(self._one, now)
            wait_s = max(bucket.missing_s(self._one), total.missing_s(self._all))
            if wait_s > 0:
                return max(1, ceil(wait_s))
            bucket.left -= 1
            total.left -= 1
            return None

    def wait_s(self, source: str, now: float) -> int | None:
        """Returns the seconds until another failure of *source* is allowed; None if it is allowed now. Counts nothing."""
        with self._lock:
            total, bucket = self._total, self._by_source.get(network_of(source))
            missing_s = 0.0
            for each, limit in ((total, self._all), (bucket, self._one)):
                if each is not None:
                    each.refill(limit, now)
                    missing_s = max(missing_s, each.missing_s(limit))
            return max(1, ceil(missing_s)) if missing_s > 0 else None

    def _bucket(self, network: str, now: float) -> _Bucket:
        bucket = self._by_source.setdefault(network, _Bucket(self._one, now))
        self._by_source.move_to_end(network)
        if len(self._by_source) > MOST_SOURCES:
            self._by_source.popitem(last=False)
        return bucket


def network_of(source: str) -> str:
    """Returns *source*, or for IPv6 its /64, which belongs to one customer."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source[:64]
    if address.version == 4:
        return source
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
