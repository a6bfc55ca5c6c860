"""What a person reads of a no of the API server."""

import pytest

from runrig.backends.kubernetes.answers import ApiRefusal

RIGHT = 'secrets is forbidden: User "me" cannot create resource "secrets" in API group "" in the namespace "lab"'
QUOTA = 'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'


@pytest.mark.parametrize(
    ("status", "message", "way_out"),
    [
        (403, RIGHT, ". Grant runrig the permissions in docs/kubernetes.md (deploy/kubernetes/rbac.yaml)"),
        (403, QUOTA, ""),
        (403, 'admission webhook "w" denied the request: you cannot do that', ""),
        (422, "Pod is invalid", ""),
    ],
)
def test_way_out_is_shown_only_for_missing_permissions(status: int, message: str, way_out: str) -> None:
    assert (
        str(ApiRefusal(status, "Word", message))
        == f"the API server refused the request ({status} Word): {message}{way_out}"
    )
