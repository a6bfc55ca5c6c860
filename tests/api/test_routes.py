"""Which route takes a request: the one that the framework would find without our shorter look."""

from fastapi.routing import APIRoute

from runrig.api.app import described
from runrig.http.routing import Route


def test_fast_path_lookup_finds_the_same_routes() -> None:
    routes = [route for route in described().routes if isinstance(route, Route)]
    paths = {route.path.replace("{", "").replace("}", "") for route in routes}
    paths |= {path[:-1] for path in paths} | {path + "/" for path in paths} | {path + "x" for path in paths}
    assert len(routes) > 70
    for route in routes:
        for path in sorted(paths):
            scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
            assert route.matches(scope) == APIRoute.matches(route, scope), (route.path, path)
