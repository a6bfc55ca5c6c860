"""Integrals over time of whole numbers that change only at some moments."""

from collections.abc import Iterator

from runrig.domain.usage import DAY_S, HOUR_S, KEEP_DAYS_S, MICROSECONDS, Hour, Key, Sums


class Integrals:
    """The sums of the hour that contains *at*, in microseconds, with *sums* so far. Time never goes back.

    *length_s*: the length of an hour, for shorter ones.
    """

    def __init__(self, sums: Sums, at: int, length_s: int = HOUR_S) -> None:
        self._length = length_s * MICROSECONDS
        self._begin = at - at % self._length
        # Value now, since when, and the sum of the hour up to then.
        self._of: dict[Key, list[int]] = {key: [0, at, amount] for key, amount in sums.items()}

    def change(self, key: Key, by: int, at: int) -> None:
        """Adds *by* to the value of *key*."""
        found = self._of.get(key)
        if found is None:
            self._of[key] = [by, at, 0]
        else:
            found[2] += found[0] * (at - found[1])
            found[0] += by
            found[1] = at

    def put(self, key: Key, value: int, at: int) -> None:
        found = self._of.get(key)
        if value != (0 if found is None else found[0]):
            self.change(key, value - (0 if found is None else found[0]), at)

    def add(self, key: Key, amount: int, at: int) -> None:
        """Adds *amount* to the sum of the hour."""
        self._of.setdefault(key, [0, at, 0])[2] += amount

    def values(self) -> Iterator[tuple[Key, int]]:
        return ((key, value) for key, (value, _, _) in self._of.items() if value)

    def skip(self, at: int) -> None:
        """Moves on to the hour that contains *at*, and forgets all sums before it."""
        begin = at - at % self._length
        if begin > self._begin:
            self._of = {key: [value, begin, 0] for key, value in self.values()}
            self._begin = begin

    def sums(self, at: int) -> Sums:
        """The sums of the hour up to *at*."""
        found = {key: total + value * (at - since) for key, (value, since, total) in self._of.items()}
        return {key: amount for key, amount in found.items() if amount}

    def close(self, at: int) -> Iterator[Hour]:
        """Moves on to the hour that contains *at*, and yields all hours before it that have sums. Those in which nothing changed share one
        mapping, and are left out if their day would be deleted: a clock can jump by decades.
        """
        first, end, last = self._begin, self._begin + self._length, at - at % self._length
        if at < end:
            return
        if sums := self.sums(end):
            yield Hour(first // MICROSECONDS, sums)
        self._of = {key: [value, last, 0] for key, value in self.values()}
        self._begin = last
        same = {key: value * self._length for key, value in self.values()}
        kept = at - at % (DAY_S * MICROSECONDS) - KEEP_DAYS_S * MICROSECONDS
        for begin in range(max(end, kept), last, self._length) if same else ():
            yield Hour(begin // MICROSECONDS, same)

    def until(self, at: int, since: int = 0) -> list[Hour]:
        """The open hours from the one that contains *since* up to *at*, if no value changes before. Changes nothing."""
        beyond = Integrals({}, self._begin, self._length // MICROSECONDS)
        beyond._of = {key: list(found) for key, found in self._of.items()}
        beyond.skip(since)
        return [*beyond.close(at), Hour(beyond._begin // MICROSECONDS, beyond.sums(at))]
