"""The objects of one kind, kept current by a watch: list, then follow, and resume after a break.

The cache is always the state of one moment: a list replaces it completely, and older versions never overwrite newer
ones.
"""

import logging
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from runrig.backends.kubernetes.answers import ApiRefusal, Batch, Stream
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.kinds import ObjectKind
from runrig.backends.kubernetes.names import Object
from runrig.domain.errors import RunrigError

Place = tuple[str, str]
"""(namespace, name); namespace "" for cluster-wide kinds."""

_FIRST_S, _LONGEST_S = 0.1, 10.0
_PATIENCE_S = 0.5

_log = logging.getLogger(__name__)


class Watch:
    """*changed* is called from the watch's thread after each batch of changes, and repeatedly while contact is lost."""

    def __init__(
        self,
        cluster: Cluster,
        kind: ObjectKind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        changed: Callable[[], None],
    ) -> None:
        self.generation = 0
        self.trouble: str | None = None
        """Why contact was lost; None while connected."""
        self._lost_at: float | None = None
        self._told: object = None
        self._cluster, self._kind, self._changed = cluster, kind, changed
        self._scope: dict[str, Any] = {"namespace": namespace, "labels": labels}
        self._lock = threading.Lock()
        self._objects: dict[Place, Object] = {}
        self._snapshot: Mapping[Place, Object] | None = None
        self._version = ""  # empty: list again
        self._put: dict[Place, Object] | None = None  # Added by runrig while a list is in progress.
        self._tries = 0
        self._synced, self._stopped = threading.Event(), threading.Event()
        self._stream: Stream[Batch] | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a running request: the thread ends by itself and changes nothing more."""
        self._stopped.set()
        if stream := self._stream:
            stream.close()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_S)

    def wait_synced(self, timeout_s: float) -> bool:
        """Returns True once the first list has arrived; False if not within *timeout_s* (see `trouble`)."""
        return self._synced.wait(timeout_s)

    @property
    def lost_s(self) -> float:
        """Returns seconds since contact was lost; 0 while connected."""
        at = self._lost_at
        return 0.0 if at is None else time.monotonic() - at

    def objects(self) -> Mapping[Place, Object]:
        """Returns all objects at one moment. Do not modify the result."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = MappingProxyType(dict(self._objects))
            return self._snapshot

    def put(self, each: Object) -> None:
        """Adds the API server's answer to runrig's own change, so that the next round sees it.

        Only if the watch has not passed it yet, so that deleted objects do not come back.
        """
        with self._lock:
            if self._put is not None:
                self._put[_place(each)] = each
            if not self._version or _newer(each, self._version):
                self._set(each)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
            except ApiRefusal as refusal:
                if refusal.status == 410:
                    _log.info("event=watch_restarted kind=%s why=%r", self._kind.plural, refusal.message)
                    self._version = ""
                    self._pause(None)
                else:
                    self._lost(refusal, str(refusal))
            except RunrigError as error:
                self._lost(error, error.message, error.details.get("retry_after_s"))
            except Exception as error:  # noqa: BLE001  without this thread the cache would be stale for good
                if not self._stopped.is_set():
                    _log.exception("event=watch_failed kind=%s", self._kind.plural)
                self._version = ""
                self._lost(error, repr(error))

    def _list(self) -> None:
        with self._lock:
            self._put = {}
        found = self._cluster.list(self._kind, **self._scope)
        listed = {_place(each): each for each in found.objects}
        with self._lock:
            if self._stopped.is_set():
                return
            put = {place: each for place, each in self._put.items() if _newer(each, found.resource_version)}
            self._objects, self._version, self._put = listed | put, found.resource_version, None
            self._grown()
        self._heard()
        self._synced.set()
        self._changed()

    def _follow(self) -> None:
        """Follows the watch until the server ends it, after some minutes."""
        with self._cluster.watch(self._kind, **self._scope, resource_version=self._version) as self._stream:
            if self._stopped.is_set():  # Since the request: `stop` has not seen this stream.
                return
            self._heard()
            opened = time.monotonic()
            for batch in self._stream:
                self._heard()
                self._tries = 0
                if self._take(batch):
                    self._changed()
            if time.monotonic() - opened > _LONGEST_S:
                self._tries = 0  # nothing has happened
        self._pause(None)

    def _take(self, batch: Batch) -> bool:
        """Whether anything changed."""
        before = self.generation
        with self._lock:
            if self._stopped.is_set():
                return False
            for kind, each in batch:
                known = self._objects.get(_place(each)) if kind != "BOOKMARK" else None
                if kind == "DELETED" and known is not None and not _newer(known, _version(each)):
                    del self._objects[_place(each)]
                    self._grown()
                elif kind in ("ADDED", "MODIFIED"):
                    self._set(each)
                self._version = _version(each)
        return self.generation != before

    def _set(self, each: Object) -> None:
        known = self._objects.get(_place(each))
        if known is None or _newer(each, _version(known)):
            self._objects[_place(each)] = each
            self._grown()

    def _grown(self) -> None:
        self._snapshot = None
        self.generation += 1

    def _heard(self) -> None:
        if self.trouble is not None:
            _log.info("event=watch_resumed kind=%s", self._kind.plural)
            self.trouble = self._lost_at = self._told = None

    def _lost(self, error: Exception, why: str, retry_after_s: object = None) -> None:
        """Logs a loss of contact once per cause: a server that came back may refuse."""
        if self._stopped.is_set():
            return
        cause = type(error), error.status if isinstance(error, ApiRefusal) else None
        if cause != self._told:
            _log.warning("event=watch_lost kind=%s error=%r", self._kind.plural, why)
        self.trouble, self._told = why, cause
        self._lost_at = self._lost_at or time.monotonic()
        if self.lost_s > _LONGEST_S:
            self._changed()  # Wakes the waiting side, which reports how long contact has been lost.
        self._pause(retry_after_s)

    def _pause(self, told_s: object) -> None:
        """Waits longer after each failure, with jitter, since all watches are cut off together."""
        longest = min(_LONGEST_S, _FIRST_S * 2 ** min(self._tries, 10))
        share = zlib.crc32(f"{self._kind.plural} {self._tries}".encode()) / 2**32
        told = told_s if isinstance(told_s, float) else 0.0
        self._tries += 1
        self._stopped.wait(max(longest * (1 + share) / 2, told))


def _place(each: Object) -> Place:
    return each["metadata"].get("namespace", ""), each["metadata"]["name"]


def _version(each: Object) -> str:
    return str(each["metadata"]["resourceVersion"])


def _newer(each: Object, version: str) -> bool:
    """Whether *each* is newer than *version*: versions are integers that increase across all objects of a kind."""
    return int(_version(each)) > int(version)
