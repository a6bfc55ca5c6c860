"""Followers of events share what they are told: all of it, in order, once, and no more than each of them sees."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runrig.api.v1 import events, following
from runrig.api.v1.following import Followers
from runrig.domain.access import Identity, role_named
from runrig.domain.errors import ServerFault
from runrig.service.pulse import Pulse
from runrig.service.queries.event_filter import EventFilter
from runrig.service.queries.event_kinds import Kind
from runrig.service.queries.feed import FeedPage
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.rights import STILL_S
from runrig.service.runtime import transactor
from runrig.wire.json import to_plain
from tests.patience import PATIENCE_S
from tests.worlds.service import TWO_POOLS, Desk, desk

ROLES = ("pool1-user", "pool2-viewer", "user", "viewer")


def seeing(*roles: str) -> Visibility:
    return Visibility(Identity("eve", tuple(role_named(each) for each in roles)))


@contextmanager
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for module in (following, events):
        monkeypatch.setattr(module, "PAUSE_S", 0.01)
    monkeypatch.setattr(following, "FOLLOWER_S", 0.0)
    with desk(folder, cluster=TWO_POOLS) as it:
        yield it


def happens(it: Desk, times: int = 1) -> int:
    """Work comes to both pools and starts; returns the revision afterwards."""
    for _ in range(times):
        it.submit("a", "pool1")
        it.submit("b", "pool2")
        it.service.settle()
        it.later(1)
    return it.service.stored


Stream = AsyncIterator[bytes]


def follow(followers: Followers, revision: int, visibility: Visibility = ALL) -> Stream:
    return events._stream(followers, lambda: visibility, revision, reset=False)


async def heard(stream: Stream, whole: Callable[[list[Any], int], bool]) -> tuple[list[Any], int]:
    """(the events that *stream* tells, the last id), until *whole* says that this is all."""
    found: list[Any] = []
    last = 0
    async with asyncio.timeout(PATIENCE_S):
        async for message in stream:
            if message.startswith(b"id:"):
                id, kind, data = message.decode().rstrip("\n").split("\n")
                assert kind == "event: commit"
                assert int(id[4:]) > last
                last = int(id[4:])
                found += json.loads(data[len("data: ") :])
                if whole(found, last):
                    break
    return found, last


def up_to(revision: int) -> Callable[[list[Any], int], bool]:
    return lambda found, _: bool(found) and found[-1]["revision"] >= revision


def log(it: Desk, after: int, visibility: Visibility = ALL) -> list[Any]:
    """What the feed has, in one page."""
    page = it.service.feed.page(after, visibility, most=100_000)
    return [to_plain(each) for each in page.events]


def test_many_followers_get_every_event_in_order_and_the_log_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, monkeypatch) as it:

        async def run() -> None:
            followers, begun = Followers(it.service, Pulse(it.service)), it.service.stored
            streams = [follow(followers, begun) for _ in range(40)]
            for stream in streams:
                assert await anext(stream) == b": welcome\n\n"
            for _ in range(5):
                after = followers.made
                newest = happens(it)
                told = await asyncio.gather(*(heard(stream, up_to(newest)) for stream in streams))
                assert {json.dumps(each) for each in told} == {json.dumps((log(it, begun), told[0][1]))}
                assert followers.made - after <= 2  # the first tick may have come in the middle
                begun = newest
            for stream in streams:
                await stream.aclose()  # type: ignore[attr-defined]

        asyncio.run(run())


def test_follower_can_start_anywhere_and_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as it:
        happens(it, 3)

        async def run() -> None:
            followers = Followers(it.service, Pulse(it.service))
            newest = it.service.stored
            begins = range(newest)
            told = await asyncio.gather(*(_all_of(followers, at, newest) for at in begins))
            assert [found for found, _ in told] == [log(it, at) for at in begins]
            async with aclosing(follow(followers, 0)) as stream:  # type: ignore[type-var]
                first, last = await heard(stream, lambda *_: True)
            newest = happens(it, 2)
            rest, _ = await _all_of(followers, last, newest)
            assert first + rest == log(it, 0)

        asyncio.run(run())


async def _all_of(followers: Followers, at: int, newest: int, visibility: Visibility = ALL) -> tuple[list[Any], int]:
    async with aclosing(follow(followers, at, visibility)) as stream:  # type: ignore[type-var]
        return await heard(stream, up_to(newest))


def test_slow_follower_gets_what_was_written_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as it:

        async def run() -> None:
            followers, begun = Followers(it.service, Pulse(it.service)), it.service.stored
            slow, quick = follow(followers, begun), follow(followers, begun)
            assert await anext(slow) == await anext(quick)
            at = begun
            for _ in range(4):
                newest = happens(it)
                await heard(quick, up_to(newest))
                at = newest
            made = followers.made
            found, _ = await heard(slow, up_to(at))
            assert (found, followers.made) == (log(it, begun), made)

        asyncio.run(run())


def test_followers_get_only_what_they_may_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of every pool sees all work, but not events that belong to no pool."""
    with world(tmp_path, monkeypatch) as it:

        async def run() -> None:
            followers = Followers(it.service, Pulse(it.service))
            happens(it, 3)
            whole = {role: log(it, 0, seeing(role)) for role in ROLES}
            ends = {role: found[-1]["revision"] for role, found in whole.items()}
            told = await asyncio.gather(
                *(_all_of(followers, 0, ends[role], seeing(role)) for role in ROLES for _ in range(3))
            )
            assert [found for found, _ in told] == [whole[role] for role in ROLES for _ in range(3)]
            assert len({json.dumps(found) for found in whole.values()}) == len(ROLES)
            assert followers.made == len(ROLES)

        asyncio.run(run())


def test_filtered_followers_get_matching_events_and_learn_how_far_nothing_matched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.0)
    with world(tmp_path, monkeypatch) as it:

        async def run() -> None:
            followers = Followers(it.service, Pulse(it.service))
            newest = happens(it, 3)
            query = EventFilter(pool="pool2", kinds=frozenset({Kind.STARTED}))
            wanted = [each for each in log(it, 0) if each["pool"] == "pool2" and each["kind"] == "Admit"]
            stream = events._stream(followers, lambda: ALL, 0, reset=False, query=query)
            async with aclosing(stream):  # type: ignore[type-var]
                found, _ = await heard(stream, lambda found, _: len(found) == len(wanted))
            assert found == wanted != []
            nobody = EventFilter(user="nobody")
            quiet = events._stream(followers, lambda: ALL, 0, reset=False, query=nobody)
            async with aclosing(quiet), asyncio.timeout(PATIENCE_S):  # type: ignore[type-var]
                while f"id: {newest}\n" not in (await anext(quiet)).decode():
                    pass

        asyncio.run(run())


def test_page_that_cannot_be_read_ends_the_streams_and_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, monkeypatch) as it:
        page = it.service.feed.page

        def fails(*_: Any, **__: Any) -> FeedPage:
            raise ServerFault("the disk is gone")

        async def run() -> None:
            followers, begun = Followers(it.service, Pulse(it.service)), it.service.stored
            newest = happens(it)
            monkeypatch.setattr(it.service.feed, "page", fails)
            told = await asyncio.gather(*(_all_of(followers, begun, newest) for _ in range(3)), return_exceptions=True)
            assert [type(each) for each in told] == [ServerFault] * 3
            monkeypatch.setattr(it.service.feed, "page", page)
            found, _ = await _all_of(followers, begun, newest)
            assert found == log(it, begun)

        asyncio.run(run())


def test_follower_that_leaves_does_not_cancel_a_shared_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as it:

        async def run() -> None:
            followers, begun = Followers(it.service, Pulse(it.service)), it.service.stored
            followers.newest = newest = happens(it)
            first, second = (asyncio.create_task(followers.after(begun, ALL)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).revision == newest
            assert (first.cancelled(), followers.made) == (True, 1)

        asyncio.run(run())


@pytest.mark.parametrize("kept", [1, 4, 5, 6, 1_000])
def test_older_events_are_read_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """Wherever the part that is in memory begins, also in the middle of a revision."""
    monkeypatch.setattr(transactor, "LATEST", kept)
    with world(tmp_path, monkeypatch) as it:
        for _ in range(4):
            at = it.service.stored
            it.service.feed.page(at, ALL)
            newest = happens(it)
            page = it.service.feed.page(at, ALL, most=100_000)
            stored = [(each.revision, each.seq) for each in it.store.log.events(after=at)]
            assert [(each.revision, each.seq) for each in page.events] == stored
            assert page.revision == newest


def test_number_of_cached_pages_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST_KEPT", 3)
    with world(tmp_path, monkeypatch) as it:

        async def run() -> None:
            followers = Followers(it.service, Pulse(it.service))
            followers.newest = happens(it, 3)
            for at in range(followers.newest):
                await followers.after(at, ALL)
            assert len(followers._pages) <= 4
            assert followers._bytes == sum(len(each.result().message) for each in followers._pages.values())

        asyncio.run(run())


def test_pause_between_messages_grows_with_the_number_of_followers(tmp_path: Path) -> None:
    with desk(tmp_path, cluster=TWO_POOLS) as it:

        async def run() -> None:
            followers = Followers(it.service, Pulse(it.service))
            assert followers.pause_s == following.PAUSE_S
            followers._waiting |= {asyncio.Event() for _ in range(200)}
            assert followers.pause_s == 200 * following.FOLLOWER_S == 3.0
            followers._waiting |= {asyncio.Event() for _ in range(200)}
            assert followers.pause_s == following.LONGEST_PAUSE_S < STILL_S

        asyncio.run(run())
