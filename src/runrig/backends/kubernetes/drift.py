"""Whether live objects are as desired, and concurrent calls."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from lightkube.utils.quantity import parse_quantity

from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.names import Object
from runrig.domain.errors import RunrigError, Unavailable

_WORKERS = 8
_AMOUNTS = frozenset({"requests", "limits", "overhead", "sizeLimit"})
"""Quantities, where `1000m` and `1` are equal."""
_MISSING = object()


# ---------------------------------------------------------------- drift


def matches(wanted: Object, there: Object) -> bool:
    """Whether *there* lacks and contradicts nothing of *wanted*.

    Ignores additional fields, which the API server fills in. But lists in the `spec` of custom resources must match
    exactly: one more level is another topology. Missing, empty and False are equal.
    """
    group = wanted["apiVersion"].rpartition("/")[0]
    filled_up = "." not in group or group.endswith(".k8s.io")
    return all(
        _alike(value, there.get(key, _MISSING), filled_up or key != "spec", (key,)) for key, value in wanted.items()
    )


def _alike(wanted: Any, there: Any, filled_up: bool, names: tuple[Any, ...]) -> bool:
    """*names*: its own key, and that of what it is in."""
    if _nothing(wanted) and (there is _MISSING or _nothing(there)):
        return True
    if isinstance(wanted, list) and isinstance(there, list):
        if not filled_up and len(wanted) != len(there):
            return False
        ours, theirs = _keyed(wanted), _keyed(there)
        if ours is None or theirs is None:
            ours, theirs = (dict(enumerate(each)) for each in (wanted, there))
        wanted, there = ours, theirs
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        return all(_alike(value, there.get(key, _MISSING), filled_up, (key, names[0])) for key, value in wanted.items())
    return _same(wanted, there) or (not _AMOUNTS.isdisjoint(names) and _same_amount(wanted, there))


def _keyed(items: list[Any]) -> dict[Any, Any] | None:
    """Returns *items* by name; None unless each has a unique name."""
    if not all(isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in items):
        return None
    keyed = {item["name"]: item for item in items}
    return keyed if len(keyed) == len(items) else None


def _nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | Mapping) and not value)


def _same(wanted: Any, there: Any) -> bool:
    """Compares value and type: in Python 1 equals True."""
    return bool(wanted == there) and isinstance(wanted, bool) == isinstance(there, bool)


def _same_amount(wanted: Any, there: Any) -> bool:
    try:
        return bool(_amount(wanted) == _amount(there))
    except ValueError:
        return False


def _amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(value)
    return parse_quantity(str(value))


# ---------------------------------------------------------------- many calls


class Crew:
    """Threads that live as long as the backend."""

    def __init__(self, workers: int = _WORKERS) -> None:
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="kubernetes")

    def close(self) -> None:
        """Waits for running calls."""
        self._pool.shutdown()

    def run_all(self, calls: Sequence[Callable[[], object]]) -> tuple[ApiRefusal, ...]:
        """Makes all calls, in any order, even if some fail. Returns the refusals in the order of the calls.

        Raises one Unavailable if the API server did not answer some of them. Skips the rest after as many unanswered
        calls as there are threads, with no success in between.
        """
        shift = _Shift(self._workers)
        wait([self._pool.submit(shift.do, number, call) for number, call in enumerate(calls)])
        return shift.end(len(calls))


class _Shift:
    """One `run_all`."""

    def __init__(self, patience: int) -> None:
        self._lock = threading.Lock()
        self._patience = patience
        self._in_a_row = 0
        self._left = 0
        self._failed: dict[int, RunrigError | ApiRefusal] = {}
        self._bugs: dict[int, BaseException] = {}

    def do(self, number: int, call: Callable[[], object]) -> None:
        with self._lock:
            if self._in_a_row >= self._patience:
                self._left += 1
                return
        try:
            call()
        except (RunrigError, ApiRefusal) as error:
            with self._lock:
                self._failed[number] = error
                self._in_a_row += isinstance(error, Unavailable)
        except BaseException as error:  # noqa: BLE001  raised by `end`
            with self._lock:
                self._bugs[number] = error
        else:
            with self._lock:
                self._in_a_row = 0

    def end(self, count: int) -> tuple[ApiRefusal, ...]:
        """Returns the refusals, or raises. A bug takes precedence over errors of the API server."""
        if self._bugs:
            raise self._bugs[min(self._bugs)]
        in_order = [self._failed[number] for number in sorted(self._failed)]
        if not any(isinstance(each, RunrigError) for each in in_order):
            return tuple(each for each in in_order if isinstance(each, ApiRefusal))
        first = next(each for each in in_order if isinstance(each, RunrigError))
        left = f", {self._left} not tried" if self._left else ""
        asked = [each.details.get("retry_after_s") for each in self._failed.values() if isinstance(each, RunrigError)]
        seconds = [each for each in asked if isinstance(each, int | float)]
        details = {"retry_after_s": max(seconds)} if seconds else {}
        failed = "" if count == 1 else f"{len(self._failed)} of {count} calls failed{left}; the first: "
        raise Unavailable(failed + first.message, details)
