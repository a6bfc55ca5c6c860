"""Which runrig owns a namespace. Two would delete each other's pods as orphans, and so would one with a new database.

A config map holds the claim. The first server creates it, and it outlives the server. It also counts the leaders,
because epochs restart when a database is restored elsewhere while earlier pods still exist.
"""

import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from runrig.backends.kubernetes import kinds, names
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.cluster import Cluster
from runrig.domain.errors import Unavailable

CHECKED_S = 5.0
"""Seconds between checks whether the namespace was reassigned by hand."""
_WITH_EPOCHS = (kinds.POD, kinds.POD_GROUP, kinds.SECRET, kinds.SERVICE)


class NamespaceClaim:
    """*identity*: of the database, so that standbys and restored backups share it. *epoch*: of this server's
    leadership.

    *leads*: asks the database whether it still leads. *term*: marks objects of this leader, higher than any earlier
    leader's; 0 until the claim is held.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, identity: str, epoch: int | None, leads: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._identity = identity
        self._epoch = str(epoch or 0)
        self._leads = leads
        self._good_until = 0.0
        self.term = 0

    def hold(self) -> None:
        """Returns if runrig owns the namespace. Claims it if it has no owner, and creates it if it does not exist.

        Raises Unavailable if it has another owner or a later leader. The result is cached for `CHECKED_S`.
        """
        if time.monotonic() < self._good_until:
            return
        try:
            self._hold()
        except ApiRefusal as error:
            raise Unavailable(f"namespace {self._namespace} cannot be claimed: {error}") from error
        self._good_until = time.monotonic() + CHECKED_S

    def _hold(self) -> None:
        found = self._cluster.get(self._config_map({}))
        said = (found or {}).get("data") or {}
        if found is not None:
            self._check_identity(said)
        term = names.number(said.get("term"))
        if self.term and term > self.term:
            raise Unavailable(
                f"another server with the same database has become the leader in namespace {self._namespace} (term {term}; this server "
                f"had {self.term}), so this server changes nothing there"
            )
        if term and not self.term and said.get("epoch") == self._epoch:
            self.term = term
        if term and term == self.term:
            return
        # Checked between reading and writing: a later leader reads this write, or causes a conflict.
        if not self._leads():
            raise Unavailable("this server is no longer the leader, so it does not claim the namespace")
        wanted = self.term or 1 + (term or self._highest())
        self._write(found, {"epoch": self._epoch, "term": str(wanted)})
        self.term = wanted

    def _check_identity(self, said: Mapping[str, str]) -> None:
        if said.get("identity") != self._identity:
            raise Unavailable(
                f"namespace {self._namespace} belongs to another runrig with its own database (claimed at "
                f"{said.get('claimed_at', 'an unknown time')} by {said.get('claimed_by', 'an unknown server')}). "
                "Use another backend.namespace. If that runrig no longer exists, run "
                f"kubectl delete configmap {names.CLAIM} --namespace {self._namespace}"
            )

    def _highest(self) -> int:
        """Returns the highest term of runrig's objects there, for namespaces older than the config map; 0 if there is none."""
        kinds = (self._cluster.list(kind, namespace=self._namespace, labels=names.MANAGED) for kind in _WITH_EPOCHS)
        return max((names.epoch_of(each) for found in kinds for each in found.objects), default=0)

    def _write(self, found: names.Object | None, term: Mapping[str, str]) -> None:
        if found is not None:
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            self._cluster.patch(self._config_map({}), {"metadata": version, "data": dict(term)})
            return
        self._make_namespace()
        claimed_at = datetime.now(UTC).isoformat(timespec="seconds")
        said = {"identity": self._identity, "claimed_at": claimed_at, "claimed_by": socket.gethostname(), **term}
        if self._cluster.create(self._config_map(said)) is None:
            raise Unavailable(f"another server has just claimed namespace {self._namespace}")

    def _make_namespace(self) -> None:
        wanted = kinds.NAMESPACE.made({"name": self._namespace})
        if self._cluster.get(wanted) is None:
            self._cluster.create(wanted)

    def _config_map(self, data: Mapping[str, str]) -> names.Object:
        metadata = {"name": names.CLAIM, "namespace": self._namespace, "labels": dict(names.MANAGED)}
        return kinds.CONFIG_MAP.made(metadata, data=dict(data))
