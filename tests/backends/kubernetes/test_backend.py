"""What the backend makes of pods without asking anybody, while other threads and the cluster go on."""

import time
from collections.abc import Iterator, Mapping, ValuesView
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runrig.backends.kubernetes import backend as module
from runrig.backends.kubernetes.backend import KubernetesBackend
from runrig.backends.kubernetes.cluster import Cluster, Timeouts
from runrig.backends.kubernetes.namespace_claim import NamespaceClaim
from runrig.backends.kubernetes.status import made_at
from runrig.backends.kubernetes.wanted import Wanted
from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import NotFound
from runrig.domain.observed import Phase
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired, Launch, no_pulls
from tests.backends.kubernetes.gangs import gang, launch, pods, settings, task

UNBOUND = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[KubernetesBackend]:
    """Its API server cannot do anything now."""
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(503)), base_url="http://test")
    cluster = Cluster(http, "http://test", Timeouts())
    claim = NamespaceClaim(cluster, "jobs", "mine", 1, lambda: True)
    made = KubernetesBackend(cluster, tmp_path, namespace="jobs", claim=claim, bind_timeout_s=0.0)
    yield made
    made.close()


def pod(**status: Any) -> dict[str, Any]:
    """As the API server would answer with it."""
    made = pods().pod(launch(gang(), "t"))
    made["metadata"] |= {"uid": "u1", "resourceVersion": "1", "creationTimestamp": "2026-03-01T12:00:00Z"}
    return made | {"status": {"phase": "Pending", **status}}


def wanted(run: dict[TaskKey, Launch]) -> Wanted:
    return Wanted(Desired(run=run, gangs={"wf-1/g": gang()}), settings())


class Overtaken(dict[TaskKey, Launch]):
    """A reader of the desired state is overtaken by the next `sync`, which is empty."""

    backend: KubernetesBackend

    def values(self) -> ValuesView[Launch]:  # type: ignore[override] # the type of dict.values has no name
        self.backend._wanted = Wanted(Desired(), settings())
        return super().values()


def test_an_observation_is_consistent_while_the_desired_state_changes(backend: KubernetesBackend) -> None:
    first = launch(gang(), "t")
    run = Overtaken({first.key: first})
    run.backend, backend._wanted = backend, wanted(run)
    backend._view.note(pod(conditions=UNBOUND))
    assert backend.says("wf-1") == ("t has not been placed: full",)
    assert backend.says("wf-1") == ()


def test_pod_seen_after_the_facts_waits_for_the_next_observation(backend: KubernetesBackend) -> None:
    first = launch(gang(), "t")
    backend._wanted = wanted({first.key: first})
    facts = backend._facts(0.0)
    backend._view.note(pod(conditions=UNBOUND))
    assert backend._refused(facts) == {}
    assert backend._refused(backend._facts(0.0)) == {"wf-1/g": "full"}


def test_deleted_pod_of_a_silent_node_is_dead_by_the_clock_that_the_backend_was_given(
    backend: KubernetesBackend,
) -> None:
    deleted = pod(phase="Running")
    deleted["spec"]["nodeName"] = "n1"
    deleted["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    backend._view.note(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u2", "resourceVersion": "1"}}
    )
    since = made_at(deleted)
    for seconds, alive in ((59, True), (60, False)):
        backend._now = lambda seconds=seconds: since + seconds  # type: ignore[misc]
        assert backend._alive(deleted) == alive


def test_missing_output_is_requested_again_soon(backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", 0.2)
    backend._carried_out = (backend._view.generation, time.monotonic() + 30)
    ended = pod(phase="Succeeded")
    ended["spec"]["nodeName"] = "n1"
    began = time.monotonic()
    backend._let_go(ended)
    backend.wait(30)
    assert backend._going == set()
    backend.wait(30)
    assert 0.2 <= time.monotonic() - began < 25
    assert time.monotonic() >= backend._due


SECRET = "s3cr3t-canary"


def opens(user: str, name: str) -> Mapping[str, str]:
    if (user, name) != ("ada@example.com", "wandb"):
        raise NotFound(f"{user} has no credential {name!r}")
    return {"api_key": SECRET}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ((CredentialUse("wandb", variables={"W": "api_key"}),), f"exit code 1: *** {'x' * 480} ***"),
        ((CredentialUse("old", "/etc/old"),), ""),
        ((), f"exit code 1: {SECRET} {'x' * 480} s3cr…"),
    ],
    ids=["it was handed one", "nobody knows it any more", "it was handed none"],
)
def test_termination_message_contains_no_secret_of_its_task(
    backend: KubernetesBackend, use: tuple[CredentialUse, ...], message: str
) -> None:
    """They are cut, but only after they were masked."""
    backend.use_credentials(opens, no_pulls)
    whole = gang(task(credentials=use))
    first = launch(whole, "t", credentials=use, user=whole.user)
    backend._wanted = Wanted(Desired(run={first.key: first}, gangs={"wf-1/g": whole}), settings())
    words = f"{SECRET} {'x' * 480} {SECRET}"
    ended = {"exitCode": 1, "reason": "Error", "message": words}
    seen = pod(phase="Failed", containerStatuses=[{"name": "main", "state": {"terminated": ended}}])
    seen["spec"]["nodeName"] = "n1"
    backend._view.note(seen)
    fact = backend._facts(0.0)[first.key]
    assert (fact.phase, fact.exit_code, fact.message) == (Phase.ENDED, 1, message)
    assert words in repr(seen), "what the watch told is left as it is"
