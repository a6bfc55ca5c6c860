"""Events of a cluster: whose they are, when they were, and what of them is still there after whatever has happened."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runrig.backends.kubernetes import eventfile
from runrig.backends.kubernetes.eventfile import EventFile
from runrig.backends.kubernetes.events import NAME, REMEMBERED_S, KeptEvents, Subject, noted, subject_of
from runrig.domain.observed import ClusterEvent
from runrig.domain.workflows import TaskKey

Object = dict[str, Any]

POD = "main-0a"
GANG = "0c5e"
MAIN = TaskKey("w-1", "main", 0)
NOON = 1_800_000_000.0
"""2027-01-15T08:00:00Z"""


def meta(name: str, **annotations: str) -> Object:
    return {"metadata": {"name": name, "annotations": {f"runrig/{key}": value for key, value in annotations.items()}}}


MAIN_POD = meta(POD, **{"key": "w-1/main/0", "gang-id": "w-1/main-group"})
MAIN_GROUP = meta(GANG, **{"gang-id": "w-1/main-group"})
SUBJECT = Subject("w-1", "main-group", MAIN)


def told(uid: str = "u1", version: int = 1, *, about: tuple[str, str] = ("Pod", POD), **more: Any) -> Object:
    """As the API server has it, of the kind with a first and a last time."""
    return {
        "metadata": {"uid": uid, "resourceVersion": str(version), "creationTimestamp": "2027-01-15T08:00:00Z"},
        "involvedObject": {"kind": about[0], "name": about[1]},
        "reason": "Pulling",
        "message": "image",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 1,
    } | more


def event(time: float = NOON, **more: Any) -> ClusterEvent:
    return ClusterEvent(time, MAIN, "main-group", "kubelet", "Pulling", "image", **more)


def kept(folder: Path) -> list[Any]:
    """Returns the events of the workflow, as another server would find them."""
    return list(KeptEvents(folder).of("w-1"))


# ---------------------------------------------------------------- one event

ONE_TIME = {"firstTimestamp": None, "lastTimestamp": None, "eventTime": "2027-01-15T08:00:01.500000Z"}
SERIES = {"count": 7, "lastObservedTime": "2027-01-15T08:00:09.250000Z"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, event()),
        ({"lastTimestamp": "2027-01-15T08:00:09Z", "count": 7}, event(NOON + 9, count=7)),
        (ONE_TIME | {"count": None}, event(NOON + 1.5)),
        (ONE_TIME | {"series": SERIES}, event(NOON + 9.25, count=7)),
        ({"firstTimestamp": None, "lastTimestamp": None}, event()),
        ({"lastTimestamp": "0000-01-01T00:00:00Z"}, event()),
        ({"lastTimestamp": "0001-01-01T00:00:00Z"}, event()),
        ({"source": None, "reportingComponent": "kubelet"}, event()),
        ({"message": " image\n\u2028 "}, event()),
    ],
)  # fmt: skip
def test_event_of_either_kind_has_its_last_time_and_count(said: Mapping[str, Any], expected: ClusterEvent) -> None:
    assert noted(told(**said), SUBJECT) == expected


def test_sparse_or_oversized_event_becomes_one_short_line() -> None:
    bare = {name: told()[name] for name in ("metadata", "involvedObject")}
    assert noted(bare, SUBJECT) == ClusterEvent(NOON, MAIN, "main-group", "unknown", "", "")
    assert len(noted(told(message="word " * 10_000), SUBJECT).text) == 1001


def test_whole_seconds_may_be_as_late_as_their_end() -> None:
    assert [event(NOON).latest, event(NOON + 0.5).latest] == [NOON + 0.999999, NOON + 0.5]


@pytest.mark.parametrize(
    ("each", "kind", "expected"),
    [
        (MAIN_POD, "Pod", SUBJECT),
        (MAIN_GROUP, "PodGroup", Subject("w-1", "main-group")),
        (meta(POD), "Pod", None),
        ({"metadata": {"name": POD}}, "Pod", None),
        ({"metadata": {"name": GANG, "annotations": None}}, "PodGroup", None),
        (meta(POD, key="../main/0"), "Pod", None),
        (meta(GANG, **{"gang-id": "../main-group"}), "PodGroup", None),
    ],
)
def test_events_are_assigned_to_their_objects_and_nothing_else_gets_a_folder(
    each: Object, kind: str, expected: Subject | None
) -> None:
    assert subject_of(each, kind) == expected


# ---------------------------------------------------------------- the owners of events


def test_events_of_pods_and_groups_are_stored_and_others_are_not(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path)
    others = [told("u3", about=("Pod", "other")), told("u4", about=("Deployment", POD)), told("u5", about=("", ""))]
    group = told("u2", 2, about=("PodGroup", GANG), reason="Unschedulable")
    here.take([told(), group, *others], [MAIN_POD], [MAIN_GROUP], 0)
    here.write(0)
    of_group = ClusterEvent(NOON, None, "main-group", "kubelet", "Unschedulable", "image")
    assert list(here.of("w-1")) == kept(tmp_path) == [event(), of_group]
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*")] == [Path("w-1"), Path("w-1") / NAME]
    assert [here.of("w-2"), here.of(".."), here.of("")] == [(), (), ()]


def test_event_can_arrive_before_its_pod_is_seen_and_after_it_is_gone(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path)
    here.take([told()], [], [], 0)
    assert (here.of("w-1"), here.waits) == ((), True)
    here.meet([MAIN_POD], [], 0)
    here.take([told()], [MAIN_POD], [], 1)
    assert (here.of("w-1"), here.waits) == ((event(),), False)
    here.take([], [], [], 2)
    late = told("u2", 2, reason="Killing", message="")
    here.take([late], [], [], REMEMBERED_S)
    assert [each.reason for each in here.of("w-1")] == ["Pulling", "Killing"]
    here.take([], [], [], REMEMBERED_S + 3)
    here.take([told("u3", 3)], [], [], REMEMBERED_S + 4)
    assert len(here.of("w-1")) == 2


def test_recently_deleted_pod_is_remembered_even_after_a_long_silence(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path)
    here.take([], [MAIN_POD], [], 0)
    here.take([told()], [], [], 100 * REMEMBERED_S)
    assert here.of("w-1") == (event(),)


def test_nothing_more_is_written_about_a_discarded_workflow(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path)
    here.take([told()], [MAIN_POD], [], 0)
    here.discard("w-1")
    here.take([told(), told("u2", 2), told("u1", 3, count=2)], [MAIN_POD], [], 1)
    here.write(math.inf)
    assert (here.of("w-1"), list(tmp_path.iterdir())) == ((), [])


def test_events_that_the_api_server_forgets_stay_and_are_not_written_twice(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path)
    here.take([told()], [MAIN_POD], [], 0)
    here.write(0)
    here.take([], [MAIN_POD], [], 1)
    assert here.of("w-1") == (event(),)
    for again in (here, KeptEvents(tmp_path)):  # a list after a restart reports all of them again
        again.take([told()], [MAIN_POD], [], 2)
        again.write(math.inf)
    assert (tmp_path / "w-1" / NAME).read_bytes().count(b"\n") == 1


def test_older_state_that_arrives_late_changes_nothing(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path)
    here.take([told("u1", 5, count=3)], [MAIN_POD], [], 0)
    here.take([told("u1", 4, count=2)], [MAIN_POD], [], 0)
    assert here.of("w-1") == (event(count=3),)


def test_the_later_state_of_two_servers_wins(tmp_path: Path) -> None:
    one, other = KeptEvents(tmp_path), KeptEvents(tmp_path)
    one.take([told("u1", 4, count=2)], [MAIN_POD], [], 0)
    other.take([told("u1", 5, count=3)], [MAIN_POD], [], 0)
    other.write(0)
    one.write(0)
    assert kept(tmp_path) == [event(count=3)]


# ---------------------------------------------------------------- the file


def read(path: Path) -> list[int]:
    return [each.count for each in EventFile(path).all()]


def test_repetitions_are_written_once_a_minute_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = EventFile(path)
    written: list[object] = []
    for second in range(180):
        file.note("u", event(version=second + 1, count=second + 1))
        file.write(second)
        written += [] if written[-1:] == read(path) else read(path)
    assert written == [1, 61, 121]
    assert [each.count for each in file.all()] == [180]
    file.write(math.inf)
    assert (read(path), file.written) == ([180], True)


@pytest.mark.parametrize(
    "torn", [b"", b"{", b'{"uid": "u2", "version": 2, "time"', b"[]\n", b"7\n", b"\xff\n", b"{}\n"]
)
def test_incomplete_line_affects_no_other(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "f"
    for uid, half in (("u1", torn), ("u3", b"")):
        file = EventFile(path)
        file.note(uid, event(version=1))
        file.write(0)
        with path.open("ab") as opened:
            opened.write(half)
    assert EventFile(path).all() == (event(), event())


def test_oldest_events_are_dropped_and_counted_even_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventfile, "MOST", 10)
    path = tmp_path / "f"
    seen = []
    for life in range(3):  # each reader gets all of them
        file = EventFile(path)
        for number in range(20 * (life + 1)):
            file.note(f"u{number}", event(version=number + 1, time=NOON + number))
            file.write(number)
        seen.append(EventFile(path).all())
        assert file.all() == seen[-1]
        assert path.read_bytes().count(b"\n") <= 2 * 10 + 1
    for life, (first, *rest) in enumerate(seen):
        last = 20 * (life + 1)
        assert [each.time - NOON for each in rest] == list(range(last - 10, last))
        assert first == ClusterEvent(
            rest[0].time, None, "", "runrig", "Dropped",
            f"{last - 10} older events of the cluster were dropped",
        )  # fmt: skip


def test_repetitions_of_few_events_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventfile, "MOST", 10)
    path = tmp_path / "f"
    file = EventFile(path)
    for number in range(1000):
        file.note("u", event(version=number + 1, count=number + 1))
        file.write(number * 60)
        assert path.read_bytes().count(b"\n") <= 21
    assert read(path) == [1000]


def test_write_to_a_full_disk_is_retried(tmp_path: Path) -> None:
    here = KeptEvents(tmp_path / "logs")
    (tmp_path / "logs").write_text("")  # no folder can be created below it
    here.take([told()], [MAIN_POD], [], 0)
    here.write(0)
    here.take([], [MAIN_POD], [], 1)
    assert here.of("w-1") == (event(),)
    (tmp_path / "logs").unlink()
    here.write(2)
    assert kept(tmp_path / "logs") == [event()]


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        file = EventFile(tmp_path / "w" / "f")
        file.note("u", event(version=1))
        file.write(0)
    finally:
        os.umask(old)
    assert [oct(path.stat().st_mode)[-3:] for path in (tmp_path / "w", tmp_path / "w" / "f")] == ["700", "600"]
    assert json.loads((tmp_path / "w" / "f").read_text())["uid"] == "u"
