"""Cluster events about runrig's pods and pod groups, kept as long as their output, because the API server drops them.

An event identifies its object by kind and name. runrig never reuses a name, so it identifies a deleted object too.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from runrig.backends.kubernetes import kinds, names
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.cluster_view import ClusterView
from runrig.backends.kubernetes.eventfile import EventFile
from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.watching import Watch
from runrig.backends.local.attempt import is_folder_name
from runrig.domain.observed import ClusterEvent
from runrig.domain.workflows import TaskKey

NAME = ".events"
"""File name in the workflow's folder; no task can have this name."""

REMEMBERED_S = 600.0
"""Seconds during which events of a deleted object still count."""

_EVERY_S = 1.0
_LONGEST = 1000
_TIMES = ("lastTimestamp", "eventTime", "firstTimestamp")

_log = logging.getLogger(__name__)


class Subject(NamedTuple):
    """The subject of an event. *key* None: the whole gang."""

    workflow: str
    group: str
    key: TaskKey | None = None


class KeptEvents:
    """*folder*: contains a folder per workflow. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._files: dict[str, EventFile] = {}
        self._failing: set[str] = set()
        self._handled: dict[str, tuple[str, str]] = {}
        """Known events: uid → version and workflow."""
        self._subjects: dict[tuple[str, str], Subject | None] = {}
        """None: its workflow was discarded."""
        self._gone: dict[tuple[str, str], float] = {}
        self.waits = False
        """There are events of unknown objects, which may become known."""

    def meet(self, pods: Iterable[Object], groups: Iterable[Object], now: float) -> None:
        """Registers runrig's objects, so that their events are recognised."""
        there = {(kinds.POD.name, pod["metadata"]["name"]): pod for pod in pods}
        there |= {(kinds.POD_GROUP.name, group["metadata"]["name"]): group for group in groups}
        with self._lock:
            for place, each in there.items():
                if place not in self._subjects and (subject := subject_of(each, place[0])):
                    self._subjects[place] = subject
            self._gone = {place: self._gone.get(place, now) for place in self._subjects.keys() - there.keys()}
            for place, since in self._gone.items():
                if now - since > REMEMBERED_S:
                    del self._subjects[place]

    def take(self, events: Iterable[Object], pods: Iterable[Object], groups: Iterable[Object], now: float) -> None:
        """Processes all objects at *now*, in monotonic seconds; *pods* and *groups* are runrig's."""
        with self._lock:
            self.meet(pods, groups, now)
            handled, self.waits = {}, False
            for event in events:
                uid, version = event["metadata"]["uid"], event["metadata"]["resourceVersion"]
                known = self._handled.get(uid)
                if known is None or known[0] != version:
                    subject = self._subject_of(event)
                    if subject is None:
                        self.waits = True
                        continue
                    known = version, subject.workflow
                    self._file(subject.workflow).note(uid, noted(event, subject))
                handled[uid] = known
            self._handled = handled
            live = {workflow for _, workflow in handled.values()}
            self._files = {name: file for name, file in self._files.items() if name in live or not file.written}

    def write(self, now: float) -> None:
        """Writes what is due; see `EventFile.write`."""
        with self._lock:
            for workflow, file in self._files.items():
                try:
                    file.write(now)
                    self._failing.discard(workflow)
                except OSError as error:
                    if workflow not in self._failing:
                        _log.warning("event=events_not_stored workflow=%s error=%r", workflow, str(error))
                    self._failing.add(workflow)

    def of(self, workflow: str) -> tuple[ClusterEvent, ...]:
        """Returns events of *workflow*, oldest first."""
        if not is_folder_name(workflow):
            return ()
        with self._lock:
            return (self._files.get(workflow) or EventFile(self._folder / workflow / NAME)).all()

    def discard(self, workflow: str) -> None:
        """Discards *workflow*: nothing more is written about it."""
        with self._lock:
            self._files.pop(workflow, None)
            for place, subject in self._subjects.items():
                if subject is not None and subject.workflow == workflow:
                    self._subjects[place] = None

    # ------------------------------------------------------------ under the lock

    def _subject_of(self, event: Object) -> Subject | None:
        about = event["involvedObject"]
        return self._subjects.get((about.get("kind", ""), about.get("name", "")))

    def _file(self, workflow: str) -> EventFile:
        if workflow not in self._files:
            self._files[workflow] = EventFile(self._folder / workflow / NAME)
        return self._files[workflow]


def subject_of(each: Object, kind: str) -> Subject | None:
    """Returns the subject of a pod or pod group; None if its labels were damaged."""
    workflow, _, group = names.annotation(each, names.GANG_ID).partition("/")
    key = names.key_of(each) if kind == kinds.POD.name else None
    if kind == kinds.POD.name:
        workflow = key.workflow if key else ""
    return Subject(workflow, group, key) if is_folder_name(workflow) else None


def noted(event: Object, subject: Subject) -> ClusterEvent:
    """Converts either kind of Event: with first and last time and a count, or with one time and a series for repetitions."""
    series = event.get("series") or {}
    source = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    return ClusterEvent(
        time=_time_of(event),
        key=subject.key,
        group=subject.group,
        source=_line(source) or "unknown",
        reason=_line(event.get("reason")),
        text=_line(event.get("message")),
        count=max(1, int(series.get("count") or event.get("count") or 1)),
        version=int(event["metadata"]["resourceVersion"]),
    )


def _time_of(event: Object) -> float:
    """Returns the time of the last occurrence; the API server's own if the reporter gave no valid one."""
    told = [(event.get("series") or {}).get("lastObservedTime"), *(event.get(name) for name in _TIMES)]
    for text in (*told, event["metadata"].get("creationTimestamp")):
        with contextlib.suppress(TypeError, ValueError):
            if (seconds := datetime.fromisoformat(text).timestamp()) > 0:
                return seconds
    return 0.0


def _line(text: str | None) -> str:
    """Returns *text* on one line, truncated."""
    line = " ".join((text or "").split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


class ClusterEvents:
    """Events of a namespace from a watch. *view* has their objects."""

    def __init__(self, cluster: Cluster, namespace: str, view: ClusterView, folder: Path) -> None:
        self._view = view
        self._kept = KeptEvents(folder)
        self._watch = Watch(cluster, kinds.EVENT, namespace=namespace, changed=lambda: None)
        self._taken = (-1, -1)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Does not wait, because without permission to list events there are none."""
        if self._thread.ident is None:
            self._watch.start()
            self._thread.start()

    def of(self, workflow: str) -> tuple[ClusterEvent, ...]:
        """Returns events of *workflow*, oldest first. An event shown once stays, except its latest repetitions."""
        self.keep()
        return self._kept.of(workflow)

    def keep(self) -> None:
        """Writes all events shown so far, except repetitions."""
        self._take()
        self._kept.write(time.monotonic())

    def discard(self, workflow: str) -> None:
        self._kept.discard(workflow)

    def close(self) -> None:
        self._closed.set()
        self._watch.stop()
        self._take()
        self._kept.write(math.inf)

    def _run(self) -> None:
        while not self._closed.wait(_EVERY_S):
            try:
                self.keep()
            except Exception:  # noqa: BLE001 - otherwise the thread would fail silently
                _log.exception("event=events_not_stored")

    def _take(self) -> None:
        state = self._watch.generation, self._view.generation
        if state == self._taken:
            return
        if state[0] != self._taken[0] or self._kept.waits:
            events = self._watch.objects().values()
            self._kept.take(events, *self._ours(), time.monotonic())
        else:
            self._kept.meet(*self._ours(), time.monotonic())
        self._taken = state

    def _ours(self) -> tuple[Iterable[Object], Iterable[Object]]:
        return self._view.ours.values(), self._view.all_of(kinds.POD_GROUP.name)
