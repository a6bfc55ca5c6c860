"""The page of usage, of the worked example of docs/usage.md."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.service.service import Service
from runrig.web.install import install
from tests.api.client import PORT, TOKEN, URL
from tests.web.visitor import Visitor, words_of
from tests.worlds.usage import example_service


@contextmanager
def example(folder: Path) -> Iterator[tuple[Service, Visitor]]:
    with example_service(folder) as service:
        app = create_app(service, token=TOKEN, port=PORT, user="root")
        install(app, service)
        yield service, Visitor(TestClient(app, base_url=URL, follow_redirects=False))


def test_the_page_has_the_sums_of_pools_users_and_nodes(tmp_path: Path) -> None:
    with example(tmp_path) as (_, visitor):
        visitor.sign_in(TOKEN)
        for over in ("24h", "7d", "30d", "odd"):
            words = words_of(visitor.page(f"/usage?over={over}"))
            # Quota 12, in use 7.5, guaranteed 7.5, borrowed 0, lent 2.5, idle 2, waiting and lost almost
            # nothing.
            assert "vision 12 7.5 7.5 0 2.5 2 0 0" in words
            assert "speech 4 5.1 2.5 2.5 0 1.5 2.9 3.1" in words
            assert "ann 7.5 0 0 sam 5.1 2.9 3.1" in words
            assert "h100 78% 3.5 0 1.5" in words
            assert words.count("GPUs over time") == 0
        assert visitor.page("/usage?over=24h").count('<svg class="chart"') == 2


def test_users_see_their_pools_and_one_row_for_others(tmp_path: Path) -> None:
    with example(tmp_path) as (service, visitor):
        service.access.users.create("eve", [role_named("speech-user")], actor="root")
        visitor.sign_in(service.access.tokens.create("eve", "t", actor="root").text)
        page = visitor.page("/usage")
        words = words_of(page)
        assert ("vision" in page, ">ann<" in page) == (False, False)
        assert "other pools 12 7.5 7.5 0 2.5 2 0 0" in words
        assert "users of other pools 7.5 0 0 sam 5.1 2.9 3.1" in words
        assert page.count('<svg class="chart"') == 1
