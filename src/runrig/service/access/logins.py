"""Limits failed logins, from one address and in total.

A token has 256 random bits and cannot be guessed. The limit is on the work and the log lines that attempts cost, so a
valid token is accepted even if its address has too many failures.
"""

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Iterable
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
    """The remaining attempts within *limit*."""

    __slots__ = ("at", "left", "limit")

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.left = float(limit.at_once)
        self.at = float("-inf")

    def missing_s(self, now: float) -> float:
        """Returns the seconds until another failure is allowed; 0 if it is allowed now."""
        self.left = min(float(self.limit.at_once), self.left + max(0.0, now - self.at) / self.limit.every_s)
        self.at = now
        return max(0.0, (1.0 - self.left) * self.limit.every_s)


class FailedLogins:
    """Thread-safe, with bounded memory."""

    def __init__(self, one: Limit = ONE_SOURCE) -> None:
        self._one = one
        self._lock = threading.Lock()
        self._total = _Bucket(ALL_SOURCES)
        self._by_source: OrderedDict[str, _Bucket] = OrderedDict()

    def count(self, source: str, now: float) -> int | None:
        """Counts a failure from the address *source*, within the limits. Returns as `wait_s`."""
        network = network_of(source)
        with self._lock:
            bucket = self._by_source.setdefault(network, _Bucket(self._one))
            self._by_source.move_to_end(network)
            if len(self._by_source) > MOST_SOURCES:
                self._by_source.popitem(last=False)
            wait_s = _wait_s((bucket, self._total), now)
            if wait_s is None:
                bucket.left -= 1
                self._total.left -= 1
            return wait_s

    def wait_s(self, source: str, now: float) -> int | None:
        """Returns the seconds until another failure of *source* is allowed; None if it is allowed now. Counts nothing."""
        with self._lock:
            bucket = self._by_source.get(network_of(source))
            return _wait_s((self._total, bucket or self._total), now)


def _wait_s(buckets: Iterable[_Bucket], now: float) -> int | None:
    missing_s = max(each.missing_s(now) for each in buckets)
    return max(1, ceil(missing_s)) if missing_s > 0 else None


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
