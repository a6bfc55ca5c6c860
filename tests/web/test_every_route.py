"""What holds for every route, also for those that are added later: of headers, of names, and of a cookie alone."""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runrig.domain.gangs import Priority
from runrig.web import rendering
from runrig.web.install import ROUTES
from tests.api.client import URL
from tests.web.visitor import Site, site

STREAMS = ("/page/live", "/page/output/{id}")
"""They do not end while work goes on."""
OPEN = ("/login", "/static/{tag}/{name}")


def routes(method: str) -> Iterator[str]:
    for route in ROUTES:
        if isinstance(route, APIRoute) and method in (route.methods or ()):
            yield route.path


def filled(path: str, pool: str, workflow: str) -> str:
    """*path* with what is there."""
    path = path.replace("{id}", workflow).replace("{workflow}", workflow).replace("{gang}", f"{workflow}/main-group")
    return re.sub(r"\{\w+(:path)?\}", "n0" if "/node" in path else pool, path)


def test_every_page_has_the_policy(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", gpus=2)
        it.desk.service.settle()
        visitor, pages = it.visitor(), 0
        for path in set(routes("GET")) - set(STREAMS) - {OPEN[1]}:
            answer = visitor.get(filled(path, "pool1", "a-1"))
            head = visitor.http.head(filled(path, "pool1", "a-1"), headers={"Accept": "text/html"})
            assert (head.status_code, head.content) == (answer.status_code, b""), path
            if answer.headers.get("content-type", "").startswith("text/html"):
                assert answer.headers["content-security-policy"] == rendering.POLICY, path
                assert answer.headers["x-content-type-options"] == "nosniff", path
                pages += 1
            else:
                assert "default-src 'none'" in answer.headers["content-security-policy"], path
        assert pages >= 9


def test_cookie_alone_changes_nothing_on_the_page(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", gpus=2)
        it.desk.service.settle()
        visitor, revision, asked = it.visitor(), it.desk.revision, 0
        declared = [route for route in it.app.routes if isinstance(route, APIRoute)]
        every = {(method, route.path) for route in declared for method in route.methods or ()}
        every |= {(method, path) for method in ("POST", "PUT", "PATCH", "DELETE") for path in routes(method)}
        for method, path in sorted(every):
            if method in ("GET", "HEAD", "OPTIONS"):
                continue
            for origin in ({"Origin": URL}, {}):
                body = "shown=&csrf=&next=/" if not path.startswith("/api/") else "{}"
                kind = "application/x-www-form-urlencoded" if not path.startswith("/api/") else "application/json"
                sent = {"Content-Type": kind, "Accept": "text/html"} | origin
                answer = visitor.http.request(method, filled(path, "pool1", "a-1"), content=body, headers=sent)
                to_login = answer.headers.get("location", "").startswith("/login?next=")
                assert answer.status_code >= 400 or to_login, (method, path, answer.text[:200])
                asked += 1
        assert asked > 20
        assert it.desk.revision == revision
        assert visitor.get("/").status_code == 200, "and nobody is signed out"


NAMES = ("mine", "quokka", "zebrafish")
"""No word of a page has any of them."""


@settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(Priority), st.integers(1, 2)), min_size=1, max_size=8),
)
def test_pages_contain_no_hidden_names(seen: str, work: list[tuple[str, Priority, int]]) -> None:
    pools = ", ".join(f"{{name: {name}, quota: 2, description: all of {name}}}" for name in NAMES)
    with TemporaryDirectory() as folder, site(Path(folder), gpus=6, cluster=f"pools: [{pools}]") as it:
        it.desk.submit(f"{seen}-own", seen, gpus=1)
        for pool, priority, gpus in work:
            it.desk.submit(f"{pool}-work", pool, priority, gpus=gpus)
            it.desk.service.settle()
        hidden = [name for name in NAMES if name != seen]
        told = list(answers(it, seen))
        assert all(len(answer) > 10 for path, answer in told if "/output.txt" not in path)
        assert [(path, name) for path, text in told for name in hidden if name in text] == []


QUERIES = ("would=all", "size=1x1&table=1", "gang=quok-work-1", "by=load")


def answers(it: Site, pool: str) -> Iterator[tuple[str, str]]:
    access = it.desk.service.access.users
    name = f"eve{len(access.all())}"
    visitor = it.person(name, f"{pool}-user")
    left = {*QUERIES}
    for path, taken in sorted(taking().items()):
        queries = [each for each in QUERIES if each.partition("=")[0] in taken]
        left.difference_update(queries)
        for query in ("", *(f"?{each}" for each in queries)):
            asked = filled(path, pool, f"{pool}-own-1") + query
            yield asked, visitor.get(asked).text
    assert not left, "no page takes them"


def taking() -> dict[str, set[str]]:
    """Each page, with the names that its address may have behind the question mark."""
    pages = [route for route in ROUTES if isinstance(route, APIRoute)]
    left_out = {*STREAMS, *OPEN}
    return {
        page.path: {field.alias for field in page.dependant.query_params}
        for page in pages
        if "GET" in (page.methods or ()) and page.path not in left_out
    }


ODD = ("%2F", "a%2fb", "%2e%2e%2fb", "%5C", "%00", "%FF", "%E2%80%AE", "a%252Fb", "x" * 4_000)
"""Names in an address that are none: with slashes, control characters, in no UTF-8, very long."""


def test_invalid_name_is_answered_as_a_page_to_browsers_and_as_json_to_programs(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor, asked = it.visitor(), 0
        for path in sorted({path for path in routes("GET") if "{" in path} - {OPEN[1]}):
            for name in ODD:
                odd = re.sub(r"\{\w+(:path)?\}", name, path)
                shown = visitor.get(odd)
                assert 400 <= shown.status_code < 500, odd
                assert shown.headers["content-type"] == "text/html; charset=utf-8", odd
                assert '<a href="/">Back to the overview</a>' in shown.text, odd
                assert shown.headers["content-security-policy"] == rendering.POLICY, odd
                data = visitor.get(odd, Accept="*/*")
                assert (data.status_code, data.headers["content-type"]) == (shown.status_code, "application/json"), odd
                asked += 1
        assert asked > 80


def test_errors_before_a_route_are_pages_too(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        for method, path, headers, status in (
            ("GET", "/workflow/a", {"Host": "elsewhere.example"}, 403),
            ("GET", "/submit", {"Content-Length": "9000000"}, 413),
            ("GET", "/workflow/a%2Fb", {}, 404),
        ):
            shown = visitor.http.request(method, path, headers={"Accept": "text/html", "Origin": URL} | headers)
            assert (shown.status_code, shown.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
