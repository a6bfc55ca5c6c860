"""The rules of who may hold a connection, without any."""

import asyncio
from collections.abc import Awaitable, Callable

from runrig.http.crowd import Crowd, Guest

MOST = 200
OF_USER = MOST // 2


def in_a_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await test()

    asyncio.run(whole())


def enters(crowd: Crowd, number: int, said: list[tuple[int, int]]) -> Guest:
    """The connection with descriptor *number*; *said*: (number, status) of those that are ended."""
    return crowd.enter(number, f"10.0.0.{number % 250}", lambda status, _: said.append((number, status)))


def test_new_connection_is_refused_when_all_others_are_authenticated() -> None:
    async def test() -> None:
        crowd, said = Crowd(MOST), list[tuple[int, int]]()
        for number in range(MOST):
            enters(crowd, number, said).shows("ann" if number < OF_USER else "bob")
        late = enters(crowd, MOST, said)
        assert late.refusal == "200 connections are open, which is the limit. Try again later"
        assert (crowd.open, said) == (MOST + 1, [])
        late.leaves()
        crowd.leave(MOST)
        crowd.leave(0)
        assert enters(crowd, 0, said).refusal is None

    in_a_loop(test)


def test_oldest_unauthenticated_connection_is_closed_when_all_are_in_use() -> None:
    async def test() -> None:
        crowd, said = Crowd(MOST), list[tuple[int, int]]()
        for number in range(MOST):
            guest = enters(crowd, number, said)
            if number not in (5, 7):
                guest.shows(f"user-{number % 4}")
        assert enters(crowd, MOST, said).refusal is None
        assert (said, crowd.open, len(crowd.guests)) == ([(5, 503)], MOST, MOST + 1)

    in_a_loop(test)


def test_closed_connections_are_not_counted() -> None:
    async def test() -> None:
        crowd, said = Crowd(MOST), list[tuple[int, int]]()
        for number in range(1000):
            guest = enters(crowd, number, said)
            if number % 3:
                guest.shows("ann")
            if number % 3 == 2:
                guest.shows("bob")
            guest.answered()
            crowd.leave(number)
            guest.leaves()
            guest.shows("ann")
        assert (crowd.open, crowd.guests, crowd.strangers, said) == (0, {}, {}, [])
        enters(crowd, 0, said).shows("ann")

    in_a_loop(test)
