"""Tokens with which pods fetch their code: the API server issues each for one pod, and names that pod."""

from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.code import AUDIENCE
from runrig.domain.errors import NotLoggedIn, Unavailable

LONGEST = 8192
"""Characters of a token that is passed on."""
_NAME, _UID = (f"authentication.kubernetes.io/pod-{part}" for part in ("name", "uid"))


def pod_of(cluster: Cluster, namespace: str, token: str) -> tuple[str, str]:
    """Returns (name, uid) of the pod of *namespace* that *token* was issued for.

    Raises NotLoggedIn for any other token and after the pod is deleted; Unavailable if the API server cannot be asked.
    """
    if len(token) > LONGEST or token.count(".") != 2:
        raise NotLoggedIn
    try:
        said = cluster.review(token, AUDIENCE)
    except ApiRefusal as refusal:
        raise Unavailable(str(refusal)) from None
    user = said.get("user", {})
    extra = user.get("extra", {})
    ours = str(user.get("username", "")).startswith(f"system:serviceaccount:{namespace}:")
    meant = AUDIENCE in said.get("audiences", ())
    if not (
        said.get("authenticated") and ours and meant and len(extra.get(_NAME, ())) == len(extra.get(_UID, ())) == 1
    ):
        raise NotLoggedIn
    return extra[_NAME][0], extra[_UID][0]
