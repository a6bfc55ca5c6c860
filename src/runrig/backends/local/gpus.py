"""The NVIDIA GPUs of this machine and how busy they are, as NVML reports them."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from statistics import fmean
from typing import Any

from runrig.domain.gpu_use import IDLE_BELOW_PERCENT, GpuMinute, GpuUse

_EVERY_S = 5.0
_SILENT_S = 30.0
"""After these seconds without an answer, the last one is out of date."""
_MINUTE_S = 60
_MINUTES = 24 * 60

_log = logging.getLogger(__name__)


def nvml_gpus() -> tuple[str, ...]:
    """Returns UUIDs of the NVIDIA GPUs by PCI address; empty without a GPU or its driver."""
    import pynvml  # Slow, and only this backend needs it.

    try:
        with _nvml():
            handles = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount()))
            return tuple(str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles)
    except pynvml.NVMLError_LibraryNotFound:
        return ()
    except pynvml.NVMLError as error:
        _log.warning("event=nvml_failed error=%r", str(error))
        return ()


@cache
def why_no_gpus() -> str:
    """Returns why `nvml_gpus` found none. Asked once."""
    import pynvml

    try:
        with _nvml():
            return "NVML reports none on this machine"
    except pynvml.NVMLError as error:
        return f"NVML reports {str(error)!r}"


@contextlib.contextmanager
def _nvml() -> Iterator[None]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


_Means = tuple[int | None, int | None]
"""How busy a GPU was, in percent, and how many bytes of its memory were in use."""


class GpuWatch:
    """Reads the use of GPUs every few seconds, in a thread of its own, because a broken driver can block it forever."""

    def __init__(
        self,
        uuids: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._uuids = uuids
        self._clock = clock
        self._time_of_day = time_of_day
        self._now: tuple[tuple[GpuUse, ...], ...] = ()
        self._minute = 0
        self._past: deque[tuple[int, tuple[_Means, ...]]] = deque(maxlen=_MINUTES)
        self._idle_since: dict[int, float] = {}
        self._read: tuple[GpuUse, ...] | str = "NVML has not answered yet"
        self._read_at = clock()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="gpu-watch", daemon=True).start()

    def use(self) -> tuple[GpuUse, ...] | str:
        """Returns the use of each GPU, by index, or why it is unknown. Does not wait."""
        silent_s = self._clock() - self._read_at
        return self._read if silent_s < _SILENT_S else f"NVML has not answered for {silent_s:.0f} s"

    def minutes(self, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:
        """See `Backend.gpu_minutes`. The current minute so far is the last one."""
        found = []
        now = [(self._minute, means)] if (means := _means(self._now)) else []
        for minute, means in (*self._past, *now):
            if since <= minute < until:
                busy = _mean(means[gpu][0] for gpu in gpus if gpu < len(means))
                memory = _mean(means[gpu][1] for gpu in gpus if gpu < len(means))
                found.append(GpuMinute(datetime.fromtimestamp(minute, UTC), busy, memory))
        return tuple(found)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        import pynvml

        while not self._closed.is_set():
            try:
                with _nvml():  # Kept open: without another user, opening it can take a second.
                    while True:
                        self._take(tuple(self._of(*gpu) for gpu in enumerate(self._uuids)))
                        if self._closed.wait(_EVERY_S):
                            return
            except pynvml.NVMLError as error:
                self._take(f"NVML reports {str(error)!r}")
                self._closed.wait(_EVERY_S)

    def _take(self, read: tuple[GpuUse, ...] | str) -> None:
        self._read, self._read_at = read, self._clock()
        minute = int(self._time_of_day() // _MINUTE_S) * _MINUTE_S
        if minute != self._minute:
            if self._now:
                self._past.append((self._minute, _means(self._now)))
            self._minute, self._now = minute, ()
        if not isinstance(read, str):
            self._now = (*self._now, read)

    def _of(self, index: int, uuid: str) -> GpuUse:
        import pynvml

        gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        rates = _unless_unsupported(pynvml.nvmlDeviceGetUtilizationRates, gpu)
        memory = _unless_unsupported(_memory, gpu)
        milliwatts = _unless_unsupported(pynvml.nvmlDeviceGetPowerUsage, gpu)
        busy = None if rates is None else int(rates.gpu)
        return GpuUse(
            index,
            busy,
            None if memory is None else int(memory.used),
            None if memory is None else int(memory.total),
            None if milliwatts is None else milliwatts / 1000,
            self._idle_s(index, busy),
        )

    def _idle_s(self, index: int, busy: int | None) -> float | None:
        if busy is None or busy >= IDLE_BELOW_PERCENT:
            self._idle_since.pop(index, None)
            return None
        now = self._clock()
        return now - self._idle_since.setdefault(index, now)


def _means(reads: Sequence[Sequence[GpuUse]]) -> tuple[_Means, ...]:
    """Returns those of each GPU; empty without *reads*."""
    return tuple(
        (_mean(use.busy_percent for use in gpu), _mean(use.memory_used for use in gpu))
        for gpu in zip(*reads, strict=True)
    )


def _mean(values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return round(fmean(known)) if known else None


def _memory(gpu: Any) -> Any:
    """Returns its memory as nvidia-smi shows it: what the driver keeps for itself is not in use. Drivers before 510 count it."""
    import pynvml

    try:
        return pynvml.nvmlDeviceGetMemoryInfo(gpu, pynvml.nvmlMemory_v2)
    except pynvml.NVMLError_FunctionNotFound:
        return pynvml.nvmlDeviceGetMemoryInfo(gpu)


def _unless_unsupported(ask: Callable[[Any], Any], gpu: Any) -> Any:
    """Returns None where the GPU cannot tell, as one that is split (MIG)."""
    import pynvml

    try:
        return ask(gpu)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission):
        return None
