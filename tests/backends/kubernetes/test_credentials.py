"""Credentials of tasks as objects of Kubernetes: Secrets, variables that refer to them, and folders."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runrig.backends.kubernetes.objects import before_the_group, gang_objects
from runrig.backends.kubernetes.pods import GangPods
from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import NotFound
from runrig.domain.workflows import TaskSpec
from tests.backends.kubernetes.gangs import UUID, gang, settings, task

VALUES = {"wandb": {"api_key": "s3cr3t", "team": "vision"}, "bucket": {"access_key": "k2"}}
FIRST = task(
    "a", credentials=(CredentialUse("wandb", variables={"WANDB": "api_key"}), CredentialUse("bucket", "/etc/s3"))
)
SECOND = task("b", credentials=(CredentialUse("wandb", "/keys"),), environment={"X": "1"})


def opens(user: str, name: str) -> Mapping[str, str]:
    assert user == "ada@example.com"
    if name not in VALUES:
        raise NotFound(f"{user} has no credential {name!r}: there are none")
    return VALUES[name]


def made(*tasks: TaskSpec, begun: bool = False, shown: bool = False) -> GangPods:
    return GangPods(gang(*tasks), replace(settings(), opens=None if shown else opens), begun=lambda: begun)


def secrets(pods: GangPods) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in gang_objects(pods) if each["kind"] == "Secret"}


def test_each_credential_of_a_gang_is_one_secret() -> None:
    found = secrets(made(FIRST, SECOND))
    assert list(found) == [f"{UUID}-credential-0", f"{UUID}-credential-1"]
    opened = [{key: base64.b64decode(value).decode() for key, value in each["data"].items()} for each in found.values()]
    assert opened == [VALUES["bucket"], VALUES["wandb"]]
    assert {each["type"] for each in found.values()} == {"Opaque"}
    assert "immutable" not in found[f"{UUID}-credential-0"]


def test_pods_refer_to_secrets_and_contain_no_values() -> None:
    pods = list(made(FIRST, SECOND).unplaced())
    assert "s3cr3t" not in repr(pods)
    (first,), (second,) = (pod["spec"]["containers"] for pod in pods)
    wandb, bucket = f"{UUID}-credential-1", f"{UUID}-credential-0"
    assert first["env"][-1] == {"name": "WANDB", "valueFrom": {"secretKeyRef": {"name": wandb, "key": "api_key"}}}
    assert first["volumeMounts"][-1] == {"name": "credential-1", "mountPath": "/etc/s3", "readOnly": True}
    assert pods[0]["spec"]["volumes"][-1] == {
        "name": "credential-1",
        "secret": {"secretName": bucket, "defaultMode": 0o444},
    }
    assert second["volumeMounts"][-1]["mountPath"] == "/keys"
    assert pods[1]["spec"]["volumes"][-1]["secret"]["secretName"] == wandb
    assert [each["name"] for each in second["env"]].count("X") == 1


def test_variable_set_at_submission_takes_precedence() -> None:
    (pod,) = made(replace(FIRST, environment={"WANDB": "mine"})).unplaced()
    env = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == "WANDB"]
    assert env == [{"name": "WANDB", "value": "mine"}]


def test_rendered_credentials_have_no_values() -> None:
    found = secrets(made(FIRST, SECOND, shown=True))
    assert [each.get("stringData") for each in found.values()] == [{}, {"api_key": "(hidden)"}]
    assert [each for each in found.values() if "data" in each] == []


def test_missing_credential_prevents_a_gang_from_starting_but_not_from_continuing() -> None:
    gone = task("a", credentials=(CredentialUse("old", "/etc/old"), CredentialUse("bucket", "/etc/s3")))
    with pytest.raises(ValueError, match=r"ada@example\.com has no credential 'old'"):
        before_the_group(made(gone))
    assert list(secrets(made(gone, begun=True))) == [f"{UUID}-credential-0"]
