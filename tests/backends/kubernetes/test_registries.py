"""Which credentials pull images, and the Secret in which a kubelet finds them."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.backends.kubernetes.objects import before_the_group
from runrig.backends.kubernetes.pods import GangPods
from runrig.backends.kubernetes.registries import auth_of, docker_config, needed, repository
from runrig.domain.credentials import CredentialUse
from runrig.domain.errors import Conflict
from tests.backends.kubernetes.gangs import gang, placed, settings, task

GOLDEN = Path(__file__).parent / "data" / "pull.golden.yaml"
DIGEST = "sha256:" + "0" * 64
NGC = {"registry": "nvcr.io", "username": "$oauthtoken", "auth": "k1"}
HUB = {"username": "ada", "auth": "k2"}
VALUES = {"ngc": NGC, "hub": HUB, "unused": {"registry": "ghcr.io", "auth": "k3"}}


def pulls(user: str) -> Mapping[str, str]:
    assert user == "ada@example.com"
    return {name: values.get("registry", "") for name, values in VALUES.items()}


def opens(user: str, name: str) -> Mapping[str, str]:
    assert user == "ada@example.com"
    return VALUES[name]


def made(*images: str, shown: bool = False, **more: Any) -> GangPods:
    tasks = [task(f"t{number}", image=image) for number, image in enumerate(images)]
    return GangPods(gang(*tasks), replace(settings(), opens=None if shown else opens, pulls=pulls), **more)


def config(pods: GangPods) -> Any:
    (secret,) = [each for each in before_the_group(pods) if each["kind"] == "Secret"]
    return json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))["auths"]


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("ubuntu", "docker.io/library/ubuntu"),
        ("ubuntu:24.04", "docker.io/library/ubuntu"),
        (f"ubuntu:24.04@{DIGEST}", "docker.io/library/ubuntu"),
        ("me/tool", "docker.io/me/tool"),
        ("me/deep/tool:1", "docker.io/me/deep/tool"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu"),
        ("index.docker.io/me/tool:1", "docker.io/me/tool"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io/nvidia/pytorch"),
        ("NVCR.io/nvidia/pytorch", "nvcr.io/nvidia/pytorch"),
        ("registry:5000/a:1", "registry:5000/a"),
        ("localhost/a", "localhost/a"),
        (f"[::1]:5000/a/b@{DIGEST}", "[::1]:5000/a/b"),
    ],
)
def test_repository_of_an_image_has_the_registry_that_docker_would_use(image: str, found: str) -> None:
    assert repository(image) == found


@pytest.mark.parametrize(
    ("registry", "images"),
    [
        ("", ["ubuntu", "me/a", "docker.io/me/a"]),
        ("docker.io", ["ubuntu", "me/a", "docker.io/me/a"]),
        ("https://index.docker.io/v1/", ["ubuntu", "me/a", "docker.io/me/a"]),
        ("docker.io/me", ["me/a", "docker.io/me/a"]),
        ("nvcr.io", ["nvcr.io/team/a:1", "nvcr.io/team2/a"]),
        ("NVCR.IO/", ["nvcr.io/team/a:1", "nvcr.io/team2/a"]),
        ("https://nvcr.io/v2/", ["nvcr.io/team/a:1", "nvcr.io/team2/a"]),
        ("nvcr.io/team", ["nvcr.io/team/a:1"]),
        ("nvcr.io:443", []),
        ("vcr.io", []),
        ("registry:5000", ["registry:5000/a"]),
        ("registry", []),
        ("registry:5000/a", ["registry:5000/a"]),
    ],
)
def test_credential_pulls_images_of_its_registry(registry: str, images: list[str]) -> None:
    every = ["ubuntu", "me/a", "docker.io/me/a", "nvcr.io/team/a:1", "nvcr.io/team2/a", "registry:5000/a"]
    assert [image for image in every if needed({"c": registry}, [image])] == images


@pytest.mark.parametrize(
    ("values", "pair"),
    [
        ({"username": "$oauthtoken", "auth": "k:1"}, b"$oauthtoken:k:1"),
        ({"auth": base64.b64encode(b"ada:k1").decode()}, b"ada:k1"),
        ({"username": "ada", "auth": base64.b64encode(b"x:y").decode()}, b"ada:" + base64.b64encode(b"x:y")),
        ({"auth": "no-base64"}, b":no-base64"),
        ({"auth": base64.b64encode(b"colonless").decode()}, b":" + base64.b64encode(b"colonless")),
        ({"username": "ada", "auth": "Grüße"}, "ada:Grüße".encode()),
    ],
)
def test_auth_is_a_password_or_the_value_in_dockers_own_file(values: Mapping[str, str], pair: bytes) -> None:
    assert base64.b64decode(auth_of(values)) == pair


def test_the_latest_of_two_credentials_for_one_registry_is_used() -> None:
    found = json.loads(docker_config([("docker.io", "a"), ("nvcr.io/team", "b"), ("https://index.docker.io/v1", "c")]))
    assert found == {"auths": {"https://index.docker.io/v1/": {"auth": "c"}, "nvcr.io/team": {"auth": "b"}}}


def test_gang_has_one_secret_with_the_registries_of_its_images_and_its_pods_name_it() -> None:
    """Exactly the objects of the golden file."""
    pods = made("nvcr.io/team/a:1", "ubuntu:24.04")
    objects = [*before_the_group(pods), placed(pods, "t0")]
    assert objects == list(yaml.safe_load_all(GOLDEN.read_text()))
    assert config(pods) == {
        "https://index.docker.io/v1/": {"auth": base64.b64encode(b"ada:k2").decode()},
        "nvcr.io": {"auth": base64.b64encode(b"$oauthtoken:k1").decode()},
    }


def test_only_credentials_that_the_images_need_leave_the_server() -> None:
    assert list(config(made("nvcr.io/a", "nvcr.io/b"))) == ["nvcr.io"]
    elsewhere = made("registry:5000/a")
    assert [each["kind"] for each in before_the_group(elsewhere)] == []
    assert "imagePullSecrets" not in placed(elsewhere, "t0")["spec"]


def test_rendered_secret_has_registries_and_no_values() -> None:
    (secret,) = [each for each in before_the_group(made("nvcr.io/a", "nvcr.io/b", shown=True)) if "type" in each]
    assert secret["stringData"] == {".dockerconfigjson": '{"auths": {"nvcr.io": {"auth": "(hidden)"}}}'}
    assert "data" not in secret


def test_unreadable_credential_prevents_a_gang_from_starting_but_not_from_continuing() -> None:
    def lost(user: str, name: str) -> Mapping[str, str]:
        raise Conflict(f"the values of credential {name!r} of {user} were left out of a backup")

    closed = replace(settings(), opens=lost, pulls=pulls)
    images = gang(task(image="nvcr.io/a"))
    with pytest.raises(ValueError, match="the values of credential 'ngc' of ada@example"):
        before_the_group(GangPods(images, closed))
    going_on = GangPods(images, closed, begun=lambda: True)
    assert before_the_group(going_on) == ()
    assert placed(going_on, "t")["spec"]["imagePullSecrets"] == [{"name": f"{images.uuid}-pull"}]


def test_credentials_named_by_a_task_have_their_own_secrets() -> None:
    uses = (CredentialUse("ngc", "/keys"),)
    both = replace(settings(), opens=opens, pulls=pulls)
    pods = GangPods(gang(task(image="nvcr.io/a", credentials=uses)), both)
    assert [(each["metadata"]["name"][37:], each["type"]) for each in before_the_group(pods)] == [
        ("credential-0", "Opaque"),
        ("pull", "kubernetes.io/dockerconfigjson"),
    ]
