"""With a good token of somebody: no further than the role goes, on a real `runrig serve`."""

from collections.abc import Iterator

import pytest

from tests.attack.target import CANARY, Target, serve
from tests.attack.test_tokens import operations

SECRET_NAMES = [b"treasure", b"team2", b"zebra", CANARY.encode()]
"""What nobody of team may read in an answer."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serve(tmp_path_factory.mktemp("roles")) as target:
        yield target


@pytest.mark.parametrize("user", ["ann", "tim", "nobody"])
def test_no_response_names_a_hidden_object(target: Target, user: str) -> None:
    """Every route that there is, asked about the own pool and with every switch that could widen it."""
    for method, path in operations(target):
        if method != "GET" or path.endswith("/stream"):  # which never ends
            continue
        own = path.replace("treasure-1", "nothing-1").replace("team2", "team")
        for query in ("", "?all_users=true&all_pools=true&verbose=true&archived=true&limit=100"):
            answer = target.ask("GET", own + query, user=user)
            assert answer.status in (200, 400, 401, 403, 404, 422), (own, answer)
            named = [name for name in SECRET_NAMES if name in answer.body]
            assert named == [], (user, own + query, answer)
