"""Two ways to run calls that are written once: `Client` blocks, `AsyncClient` is awaited.

Calls are coroutines. `call` and `stream` return them as they are for `AsyncClient`, and run them to the end for
`Client`.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from uuid import uuid4

from runrig.client.caller import ANSWER_S, Answer, Caller, Query, Request
from runrig.client.network import BlockingNetwork, done, each
from runrig.domain.errors import ServerFault

if TYPE_CHECKING:
    from pydantic import BaseModel

    from runrig.domain.value import Shown

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound="BaseModel | Shown")


class Blocking:
    """The way of a `Client`."""


class Awaiting:
    """The way of an `AsyncClient`."""


W = TypeVar("W")


class Calls(Generic[W]):
    """Calls to one server. Its network decides in which way they run."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.blocks = isinstance(caller.network, BlockingNetwork)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Query | None = None,
        timeout_s: float = ANSWER_S,
        key: str | None = None,
        if_match: str | None = None,
    ) -> Answer:
        """*if_match*: an edit fails unless the object still has this etag. The others are those of `Request`. Raises the server's error or
        NoAnswer.
        """
        headers = {} if if_match is None else {"If-Match": if_match}
        return await self._caller.answer(Request(method, path, query, body, timeout_s, key, headers))

    async def _ask(self, model: type[M], method: str, path: str, body: Any = None, **more: Any) -> M:
        """Returns the answer to `_send`. Raises ServerFault if it is not a valid *model*."""
        answer = await self._send(method, path, body, **more)
        read = self._read(model, answer.json)
        if answer.etag is not None and "etag" in getattr(model, "UNTOLD", ()):
            return replace(read, etag=answer.etag)  # type: ignore[type-var]  # a `Shown`
        return read

    async def _create(self, model: type[M], path: str, body: Any, key: str | None = None, **more: Any) -> M:
        """Posts with a *key*, by default a new one, so that a repeated call creates nothing twice."""
        return await self._ask(model, "POST", path, body, key=key or str(uuid4()), **more)

    async def _get(self, model: type[M], path: str, query: Query | None = None) -> M:
        return await self._ask(model, "GET", path, query=query)

    async def _all(self, model: type[M], path: str, query: Query | None = None) -> AsyncGenerator[M, None]:
        """Yields the items of a list, page by page."""
        try:
            async for item in self._caller.items(path, query):
                yield self._read(model, item)
        except KeyError as error:
            raise self._unexpected(f"no {error}") from None

    def _read(self, model: type[M], plain: Any) -> M:
        from pydantic import ValidationError

        from runrig.wire.json import read

        try:
            return read(model, plain)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise self._unexpected(f"not a {model.__name__}: {where} {first['msg']}") from None

    def _unexpected(self, what: str) -> ServerFault:
        return ServerFault(
            f"unexpected response from {self._caller.address.url} ({what}). Check the server address and version"
        )


def said(edit: "BaseModel") -> Any:
    """Returns only the fields that were set; the others stay unchanged."""
    return edit.model_dump(mode="json", exclude_unset=True)


class call(Generic[P, T]):  # noqa: N801 - a decorator
    """A call with one response."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, calls: None, kind: type) -> Self: ...
    @overload
    def __get__(self, calls: Calls[Blocking], kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, calls: Calls[Awaiting], kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, calls: Calls[Any] | None, kind: type) -> Any:
        return self if calls is None else _bound(self.function, calls, done)


class stream(Generic[P, T]):  # noqa: N801 - a decorator
    """A call with a stream of items."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, calls: None, kind: type) -> Self: ...
    @overload
    def __get__(self, calls: Calls[Blocking], kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, calls: Calls[Awaiting], kind: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, calls: Calls[Any] | None, kind: type) -> Any:
        return self if calls is None else _bound(self.function, calls, each)


def _bound(function: Callable[..., Any], calls: Calls[Any], blocking: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns *function* as a method of *calls*. *blocking*: makes a blocking result of an awaiting one."""

    @wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Any:
        answer = function(calls, *args, **kwargs)
        return blocking(answer) if calls.blocks else answer

    return bound
