"""Every route of our own door has a call of the client, or is left out for a reason."""

import ast
import re
from collections.abc import Iterator

from docs.generate import CLIENT, OURS, ROOT, routes

from runrig.client import models
from runrig.client.calls import cluster
from runrig.client.ways import Calls

FOLDER = ROOT / "src/runrig/client"
LEFT_OUT = {
    "/sign-in": "people do that once, with `runrig login`",
    "/sign-in/code": "the same",
    "/sign-in/device": "the same",
    "/sign-in/device/token": "the same",
    "/sign-in/renewal": "the same",
    "/browser-codes": "people do that with `runrig open`",
    "/workflows/{}/tasks/{}:exec": "a terminal is a matter of the command line",
    "/workflows/{}/tasks/{}:port-forward": "the same",
    "/workflows/{}/tasks/{}:rsync": "the same",
    "/code": "files are a matter of the command line",
    "/code/{}": "the same",
    "/workflows/{}/code": "the same",
    "/workflows/{}/attach": "only `run --attached` repeats it",
    "/pod-code": "only pods have a token for it",
    "/clock/accept": "an admin looks at the machine first",
    "/credentials:reseal": "an admin changes the key file first",
}


def called() -> Iterator[str]:
    """The addresses in the calls: ``path("pools", name)`` is /pools/{}, ``path("workflows") + ":batch"`` /workflows:batch."""
    for file in (FOLDER / "clients.py", FOLDER / "paths.py", *sorted((FOLDER / "calls").glob("*.py"))):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.BinOp(left=ast.Call(func=ast.Name(id="path")) as first, right=ast.Constant(value=str(rest))):
                    yield _address(first) + rest
                case ast.Call(func=ast.Name(id="path")):
                    yield _address(node)
                    if any(isinstance(each, ast.Starred) for each in node.args):
                        yield _address(node).removesuffix("/{}")


def _address(node: ast.Call) -> str:
    return "".join(f"/{each.value!s}" if isinstance(each, ast.Constant) else "/{}" for each in node.args)


def test_every_route_has_a_call() -> None:
    there = {re.sub(r"{[^}]*}", "{}", path.removeprefix(OURS[:-1])) for _, path, _ in routes() if path.startswith(OURS)}
    assert sorted(there - set(called()) - set(LEFT_OUT)) == []
    assert sorted((set(called()) | set(LEFT_OUT)) - there) == []


def test_every_call_is_documented() -> None:
    kinds = {kind for kind in Calls.__subclasses__() if kind.__module__.startswith(cluster.__package__ or "")}
    assert kinds - set(CLIENT.values()) == set()


def test_every_model_that_a_call_names_is_there() -> None:
    named = {
        name
        for file in (FOLDER / "clients.py", *(FOLDER / "calls").glob("*.py"))
        for name in re.findall(r"\bmodels\.(\w+)", file.read_text(encoding="utf-8"))
    }
    assert [name for name in sorted(named) if not hasattr(models, name)] == []
