"""Output of containers: followed into a file while a client reads it, and saved before the pod is released.

`folder/WORKFLOW/TASK/RETRY_ID` has one file per pod: `POD.part` grows while a client reads, `POD.log` is complete. Both
only grow. A server that was killed while writing continues by comparing the start of the API server's output with the
file.
"""

import contextlib
import logging
import mmap
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.local.attempt import folder_of, is_folder_name
from runrig.domain.errors import RunrigError
from runrig.domain.workflows import TaskKey

MOST_KEPT = 1 << 20
"""Bytes saved from the end of an output that was not followed."""

CAUGHT_UP_S = 2.0
KEPT_S = 10.0
TRIES = 3
UNREAD_S = 60.0
"""Seconds after which an output without readers is no longer followed."""

MOST_FOLLOWED = 64
"""Maximum number of outputs followed at the same time."""

REST_S = 10.0
"""Seconds before a dropped output can be followed again. Otherwise readers of many outputs would reread them from the
beginning each time.
"""

_AGAIN_S = 1.0
_ROTATED = "the beginning of the output is no longer on its node; the following lines may be duplicates"
_PROBLEMS = (RunrigError, ApiRefusal, OSError)
_log = logging.getLogger(__name__)


class Output(Protocol):
    """The output of a container in pieces; `close` from another thread ends it."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


Read = Callable[[str, bool], Output]
"""Reads a pod's output from the beginning, up to now or (True) to its end. Raises RunrigError and ApiRefusal, also while reading."""


class KeptLogs:
    """*folder*: for its exclusive use. Thread-safe."""

    def __init__(self, folder: Path, read: Read) -> None:
        self._folder = folder
        self._read = read
        self._lock = threading.Lock()
        self._followers: dict[str, _Follower] = {}
        self._resting: dict[str, float] = {}
        """Pods whose output was dropped → until when."""
        self._tries: Counter[str] = Counter()
        self._keeping: set[str] = set()
        self._closed = threading.Event()
        self._sweeper: threading.Thread | None = None

    def file(self, key: TaskKey, pod: str | None, *, ended: bool = False) -> Path | None:
        """Returns the file for a reader; None if there is no output yet. *pod* None: it no longer exists; only saved
        output counts.

        The first call waits until all output so far has arrived, up to `CAUGHT_UP_S`. With more than `MOST_FOLLOWED`
        readers, the file of a running pod can be `REST_S` behind.
        """
        try:
            folder = folder_of(self._folder, key)
        except ValueError:
            return None
        if pod is None:
            return _newest(folder)
        place = _Place(folder, pod)
        with contextlib.suppress(OSError):  # The disk is full, so there is no file.
            follower = self._followed(key, place, ended=ended)
            if follower is not None:
                follower.caught_up.wait(CAUGHT_UP_S)
        return next((path for path in (place.complete, place.part) if path.exists()), None)

    def keep(self, key: TaskKey, pod: str) -> bool:
        """Saves the output of an ended pod: all of it if it is being followed, else its end. Returns False if not
        complete yet.

        Takes at most `KEPT_S`. Returns True after `TRIES` failures or a refusal; the file then ends with a note on what is missing.
        """
        try:
            place = _Place(folder_of(self._folder, key), pod)
        except ValueError:
            return True
        with self._lock:
            if place.complete.exists():
                return True
            if pod in self._keeping:
                return False
            self._keeping.add(pod)
            self._let_go(pod)
        try:
            return self._kept(place)
        finally:
            with self._lock:
                self._keeping.discard(pod)

    def _kept(self, place: "_Place") -> bool:
        problem = _Keeper(self._read, place).run_for(KEPT_S)
        if problem is None:
            self._tries.pop(place.pod, None)
            return True
        self._tries[place.pod] += 1
        if not isinstance(problem, ApiRefusal) and self._tries[place.pod] < TRIES:
            return False
        del self._tries[place.pod]
        _log.warning("event=log_not_stored pod=%s error=%r", place.pod, str(problem))
        _give_up(place, problem)
        return True

    def discard(self, workflow: str) -> None:
        """Removes the output of *workflow*."""
        if not is_folder_name(workflow):
            return
        with self._lock:
            self._let_go(*[pod for pod, each in self._followers.items() if each.workflow == workflow])
        shutil.rmtree(self._folder / workflow, ignore_errors=True)

    def close(self) -> None:
        """Stops all writing."""
        self._closed.set()
        with self._lock:
            self._let_go(*self._followers)

    def _followed(self, key: TaskKey, place: "_Place", *, ended: bool) -> "_Follower | None":
        """Returns the follower; None if the output is complete, about to be, or paused."""
        with self._lock:
            if self._closed.is_set() or place.pod in self._keeping or place.complete.exists():
                return None
            follower = self._followers.get(place.pod)
            if follower is None:
                if not ended and time.monotonic() < self._resting.get(place.pod, 0.0):
                    return None
                place.make()
                self._make_room()
                follower = self._followers[place.pod] = _Follower(self._read, place, key.workflow)
                threading.Thread(target=follower.run, name=f"log-{place.pod}", daemon=True).start()
            if self._sweeper is None:
                self._sweeper = threading.Thread(target=self._sweep, name="logs-sweep", daemon=True)
                self._sweeper.start()
            follower.asked = time.monotonic()
            return follower

    def _make_room(self) -> None:
        """Drops the least recently read output to free a slot."""
        if len(self._followers) >= MOST_FOLLOWED:
            now, oldest = time.monotonic(), min(self._followers, key=lambda pod: self._followers[pod].asked)
            self._resting = {pod: until for pod, until in self._resting.items() if until > now} | {oldest: now + REST_S}
            self._let_go(oldest)

    def _let_go(self, *pods: str) -> None:
        """Keeps the lock to the end, so that a second follower cannot write before the first has stopped."""
        for pod in pods:
            if (follower := self._followers.pop(pod, None)) is not None:
                follower.release()

    def _sweep(self) -> None:
        """Drops followers without readers; some of them wait for a silent container."""
        while not self._closed.wait(UNREAD_S / 6):
            with self._lock:
                before = time.monotonic() - UNREAD_S
                self._let_go(*[pod for pod, each in self._followers.items() if each.asked < before])


class _Place(NamedTuple):
    folder: Path
    pod: str

    @property
    def part(self) -> Path:
        return self.folder / f"{self.pod}.part"

    @property
    def complete(self) -> Path:
        return self.folder / f"{self.pod}.log"

    def make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)


# ---------------------------------------------------------------- reading


class _Reader:
    """Reads the output of a pod until it is released; writes and creates nothing after that."""

    def __init__(self, read: Read, place: _Place) -> None:
        self._read = read
        self._place = place
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._output: Output | None = None

    def release(self) -> None:
        with self._lock:
            self._released.set()
            output = self._output
        if output is not None:
            output.close()

    def _said(self, *, follow: bool) -> Iterator[bytes]:
        output = self._read(self._place.pod, follow)
        with self._lock:
            self._output = output
        try:
            if not self._released.is_set():
                yield from output
        finally:
            output.close()

    def _extend(self, said: Iterator[bytes]) -> None:
        """Appends what the growing file does not have yet."""
        with self._open(self._place.part) as file:
            known, at = os.fstat(file).st_size, _begins(file)
            for chunk in said:
                there = os.pread(file, min(len(chunk), known - at), at)
                if not chunk.startswith(there):
                    self._write(file, _note(_ROTATED))
                    at = known = os.fstat(file).st_size
                    there = b""
                at += len(there)
                self._write(file, chunk[len(there) :])

    @contextlib.contextmanager
    def _open(self, path: Path, flags: int = 0) -> Iterator[int]:
        with self._lock:
            if self._released.is_set():
                raise InterruptedError("released")
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            yield file
        finally:
            os.close(file)

    def _write(self, file: int, data: bytes) -> None:
        with self._lock:
            while data and not self._released.is_set():
                data = data[os.write(file, data) :]


class _Follower(_Reader):
    """*asked*: time of the last read."""

    def __init__(self, read: Read, place: _Place, workflow: str) -> None:
        super().__init__(read, place)
        self.workflow = workflow
        self.asked = time.monotonic()
        self.caught_up = threading.Event()

    def run(self) -> None:
        """Reads repeatedly: a container may not have started, a connection may break."""
        follow = False
        while not self._released.is_set():
            try:
                self._extend(self._said(follow=follow))
                pause_s = _AGAIN_S if follow else 0.0
                follow = True
            except _PROBLEMS as problem:
                _log.debug("event=log_not_read pod=%s error=%r", self._place.pod, str(problem))
                pause_s = _AGAIN_S
            self.caught_up.set()
            self._released.wait(pause_s)


class _Keeper(_Reader):
    """Reads the output of an ended pod, which is final."""

    _problem: Exception | None = None
    _kept = False

    def run_for(self, seconds: float) -> Exception | None:
        """Returns the error; None if the output was saved."""
        thread = threading.Thread(target=self._run, name=f"keep-{self._place.pod}", daemon=True)
        thread.start()
        thread.join(seconds)
        self.release()
        if self._kept:
            return None
        return self._problem or TimeoutError(f"no response within {seconds:g} s")

    def _run(self) -> None:
        try:
            self._place.make()
            if self._place.part.exists():
                self._extend(self._said(follow=False))
                self._complete(self._place.part)
            else:
                self._keep_end()
        except _PROBLEMS as problem:
            self._problem = problem

    def _keep_end(self) -> None:
        new = self._place.folder / f"{self._place.pod}.new"
        with self._open(new, os.O_TRUNC) as file:
            self._write(file, _end_of(self._said(follow=False)))
        self._complete(new)

    def _complete(self, path: Path) -> None:
        with self._lock:
            if not self._released.is_set():
                path.replace(self._place.complete)
                self._kept = True


def _begins(file: int) -> int:
    """Returns where the node's remaining output begins in the growing file: after the last note about a gap."""
    size, note = os.fstat(file).st_size, _note(_ROTATED)
    if not size:
        return 0
    with mmap.mmap(file, size, access=mmap.ACCESS_READ) as content:
        at = content.rfind(note)
    return 0 if at < 0 else at + len(note)


def _end_of(said: Iterator[bytes]) -> bytes:
    """Returns the last `MOST_KEPT` bytes, starting with a whole line."""
    end, cut = bytearray(), False
    for chunk in said:
        end += chunk
        if len(end) > MOST_KEPT:
            cut = True
            if len(end) > 2 * MOST_KEPT:
                del end[: -MOST_KEPT - 1]
    if not cut:
        return bytes(end)
    del end[: -MOST_KEPT - 1]  # One extra byte, to see whether a line starts after it.
    return bytes(end[end.find(b"\n") + 1 :][-MOST_KEPT:])


def _give_up(place: _Place, problem: Exception) -> None:
    """Marks the partial output as complete, with a note on what is missing."""
    said = f"output is incomplete: {problem}" if place.part.exists() else f"output is not available: {problem}"
    try:
        place.make()
        with os.fdopen(os.open(place.part, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(_note(said))
        place.part.replace(place.complete)
    except OSError as error:
        _log.warning("event=log_not_stored pod=%s error=%r", place.pod, str(error))


def _note(words: str) -> bytes:
    return f"[runrig: {words}]\n".encode()


def _newest(folder: Path) -> Path | None:
    """Returns the pod of an attempt that wrote last; there are several if its gang was retracted while being bound."""
    found = []
    for path in (*folder.glob("*.log"), *folder.glob("*.part")):
        with contextlib.suppress(FileNotFoundError):
            found.append((path.stat().st_mtime_ns, str(path), path))
    return max(found)[2] if found else None
