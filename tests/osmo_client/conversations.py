"""What the unmodified client of OSMO 6.4.0 asks of a server, command by command, and what it must find in the answers.

`conversations/` was recorded from the client itself: its command line, and each request with the status that it got.  `shapes.yaml` has
the fields that it reads of each answer, by their types.  What differs from run to run stands in braces, such as ``{node}``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
FILES, CLUSTER = HERE / "files", HERE / "cluster.yaml"
PARTS = {
    "login": (),
    "workflows": ("2-submit", "3-watch", "8-sessions"),
    "pools": ("4-pools",),
    "access": ("5-access",),
    "configs": ("6-configs",),
    "apps": ("7-apps",),
}
"""What builds on each other; everything builds on the login."""
LOGIN = "1-login"
HEADERS = {"User-Agent": "osmo-cli/6.4.0", "Content-Type": "application/json", "x-osmo-client-version": "6.4.0"}

_NAME = re.compile(r"(?<!\{)\{([a-z][a-z_0-9]*)\}(?!\})")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?")


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    json: bool


Send = Callable[[str, str, Any, Mapping[str, str]], Answer]
"""(method, path with query, JSON body or None, headers) → answer."""


@dataclass(frozen=True)
class Ask:
    """*user*: whom a header names, in place of a token.  *says*: in the message of a refusal.  *holds*: values that have to be in the
    answer.  *keep*: name → where its value stands."""

    method: str
    path: str
    body: Any
    status: int
    says: str
    holds: Any
    keep: Mapping[str, str]
    user: str | None


@dataclass(frozen=True)
class Step:
    """One command.  *after*: workflow → the status that it has before.  *on_server*: it needs tasks that are processes.  *exit*: its
    exit code.  *by_client*: the client can do it on any machine."""

    run: str
    asks: tuple[Ask, ...]
    after: Mapping[str, str]
    on_server: bool
    exit: int
    by_client: bool


def steps(name: str) -> Iterator[Step]:
    """Yields the commands of a file of `conversations/`."""
    for step in yaml.safe_load((HERE / "conversations" / f"{name}.yaml").read_text()):
        asks = tuple(_ask(**each) for each in step.get("asks", ()))
        on_server, by_client = step.get("only") == "server", step.get("client", True)
        yield Step(step["run"], asks, step.get("after", {}), on_server, step.get("exit", 0), by_client)


def _ask(ask: str, body: Any = None, status: int = 200, says: str = "", keep: Any = None, **more: Any) -> Ask:
    method, _, path = ask.partition(" ")
    return Ask(method, path, body, status, says, more.get("is"), keep or {}, more.get("user"))


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """*value* with what stands in braces in it."""
    if isinstance(value, Mapping):
        return {key: filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    if not isinstance(value, str):
        return value
    whole = _NAME.fullmatch(value)
    return names[whole[1]] if whole else _NAME.sub(lambda match: str(names[match[1]]), value)


# ---------------------------------------------------------------- replay


@dataclass
class Replay:
    """Sends what the client sends, and looks for what it needs.

    *settle*: makes the server do what is to be done.  *reached*: waits until a workflow has a status.  *now*: by the server's clock.
    """

    send: Send
    token: str
    settle: Callable[[], None]
    reached: Callable[[str, str], None]
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        later = (self.now + timedelta(days=31)).strftime("%Y-%m-%d")
        at = self.now.strftime("%Y-%m-%d+%H%%3A%M%%3A%S")
        self.names |= {"token": self.token, "now": at, "in_31_days": later}

    def play(self, name: str, *, with_processes: bool) -> None:
        """*with_processes*: tasks are processes, which print, fail and can be entered."""
        for step in steps(name):
            if with_processes or not step.on_server:
                for workflow, status in step.after.items():
                    self.reached(workflow, status)
                for ask in step.asks:
                    self._play(ask, step.run)
                    self.settle()

    def _play(self, ask: Ask, command: str) -> None:
        headers = dict(HEADERS)
        if ask.user is not None:
            headers["x-osmo-user"] = ask.user
        elif "jwt" in self.names:
            headers["Authorization"] = f"Bearer {self.names['jwt']}"
        answer = self.send(ask.method, filled(ask.path, self.names), filled(ask.body, self.names), headers)
        where = f"`osmo {command}`: {ask.method} {ask.path}"
        assert answer.status == ask.status, f"{where}: {answer.status} {answer.text}"
        if ask.status != 200:
            self._check_refusal(ask, answer, where)
            return
        shape = shape_of(ask.method, ask.path)
        if shape == "lines":
            assert not answer.json, f"{where}: JSON, where the client prints text"
            return
        found = json.loads(answer.text)
        fits(found, shape, where)
        holds(found, ask.holds, where)
        for name, place in ask.keep.items():
            self.names[name] = dug(found, place)

    @staticmethod
    def _check_refusal(ask: Ask, answer: Answer, where: str) -> None:
        assert 400 <= answer.status < 500, f"{where}: the client prints headers and body of {answer.status}"
        found = json.loads(answer.text)
        fits(found, {"message": "str", "error_code": "str"}, where)
        assert ask.says in found["message"], f"{where}: {found['message']}"


def dug(value: Any, place: str) -> Any:
    for part in place.split("."):
        value = value[int(part) if part.isdigit() else part]
    return value


# ---------------------------------------------------------------- what the client requires

_SHAPES: Mapping[str, Any] = yaml.safe_load((HERE / "shapes.yaml").read_text())
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "time": lambda value: isinstance(value, str) and _TIME.fullmatch(value) is not None,
    "any": lambda value: True,
}


def shape_of(method: str, path: str) -> Any:
    """What the client reads of the answer: the entry whose path fits; ``*`` there is any part of a path."""
    asked = re.sub("^/+", "/", path.partition("?")[0]).split("/")
    for entry, shape in _SHAPES.items():
        wanted_method, _, wanted = entry.partition(" ")
        parts = wanted.split("/")
        alike = wanted_method == method and len(parts) == len(asked)
        if alike and all(part in ("*", given) for part, given in zip(parts, asked, strict=True)):
            return shape
    raise AssertionError(f"shapes.yaml does not say what the client reads of {method} {path}")


def fits(found: Any, shape: Any, where: str) -> None:
    """Each field of *shape* is in *found* with its type.

    ``str_or_null`` is text or null, a list has the shape of its items, ``{"*": shape}`` is a map with any keys, null is null, ``either``
    has shapes that differ in their fields.
    """
    if isinstance(shape, Mapping) and set(shape) == {"either"}:
        (shape,) = [each for each in shape["either"] if each.keys() <= found.keys()] or shape["either"][:1]
    if isinstance(shape, Mapping):
        assert isinstance(found, dict), f"{where}: {found!r:.200} is not an object"
        if set(shape) == {"*"}:
            shape = dict.fromkeys(found, shape["*"])
        for name, each in shape.items():
            assert name in found, f"{where}: there is no {name} in {found!r:.300}"
            fits(found[name], each, f"{where}: {name}")
    elif isinstance(shape, list):
        assert isinstance(found, list), f"{where}: {found!r:.200} is not a list"
        for each in found:
            fits(each, shape[0], where)
    elif shape is None:
        assert found is None, f"{where}: {found!r:.200} is not null"
    elif found is None:
        assert shape == "any" or shape.endswith("_or_null"), f"{where}: null is not {shape}"
    else:
        assert _TYPES[shape.removesuffix("_or_null")](found), f"{where}: {found!r:.200} is not {shape}"


def holds(found: Any, wanted: Any, where: str) -> None:
    """What *wanted* says is in *found*; objects may have more fields."""
    if isinstance(wanted, Mapping):
        for name, each in wanted.items():
            holds(found[name], each, f"{where}: {name}")
    elif wanted is not None:
        assert found == wanted, where
