"""Two ways to run calls that are written once: `Client` blocks, `AsyncClient` is awaited.

Calls are coroutines. `call` and `stream` return them as they are for `AsyncClient`, and run them to the end for
`Client`.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from runrig.client.caller import Caller, Query, Request
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

    async def _ask(self, model: type[M], request: Request) -> M:
        """Raises the server's error, NoAnswer, or ServerFault if the response is not a valid *model*."""
        answer = await self._caller.answer(request)
        read = self._read(model, answer.json)
        if answer.etag is not None and "etag" in getattr(model, "UNTOLD", ()):
            return replace(read, etag=answer.etag)  # type: ignore[type-var]  # a `Shown`
        if answer.etag is not None and "_etag" in getattr(model, "__private_attributes__", ()):
            read._etag = answer.etag  # type: ignore[union-attr]  # of models that are edited
        return read

    async def _get(self, model: type[M], path: str, query: Query | None = None) -> M:
        return await self._ask(model, Request("GET", path, query))

    async def _all(self, model: type[M], path: str, query: Query | None = None) -> AsyncGenerator[M, None]:
        """Yields the items of a list, page by page."""
        cursor = None
        while True:
            answer = await self._caller.answer(
                Request("GET", path, {**(query or {}), "limit": self._caller.page, "cursor": cursor})
            )
            if "items" not in answer.json:
                raise self._unexpected("no 'items'")
            for item in answer.json["items"]:
                yield self._read(model, item)
            cursor = answer.json.get("next_cursor")
            if cursor is None:
                return

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


def matching(etag: str | None) -> dict[str, str]:
    """Returns headers that make an edit fail unless the object still has *etag*."""
    return {} if etag is None else {"If-Match": etag}


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
        if calls is None:
            return self

        @wraps(self.function)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> T:
            return done(self.function(calls, *args, **kwargs))

        @wraps(self.function)
        def awaiting(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return self.function(calls, *args, **kwargs)

        return blocking if calls.blocks else awaiting


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
        if calls is None:
            return self

        @wraps(self.function)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            return each(self.function(calls, *args, **kwargs))

        @wraps(self.function)
        def awaiting(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            return self.function(calls, *args, **kwargs)

        return blocking if calls.blocks else awaiting
