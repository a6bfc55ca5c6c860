"""`runrig events`, against the application on a port, with a clock that stands still."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from runrig.api.app import create_app
from runrig.cli.commands.events import KINDS
from runrig.domain.gangs import Priority
from runrig.domain.shown.events import ClusterEvent
from runrig.service.queries.event_kinds import Kind
from runrig.spec.cluster import read_cluster
from runrig.wire.base import example_of
from tests.client.scripted import HANG_UP, answer, scripted
from tests.worlds.command_line import Done, lines, runrig
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk

_TOKEN = "0123456789abcdef" * 2
CLUSTER = """
backend: {name: lab, type: simulated}
nodes: [{name: n0, resources: {gpu: 3}}, {name: n1, resources: {gpu: 2}}]
cohorts: [{name: lab}]
pools:
- {name: speech, cohort: lab, quota: 2}
- {name: vision, cohort: lab, quota: 2}
- {name: audio, cohort: lab, quota: 1}
"""


@dataclass(frozen=True)
class World:
    url: str
    desk: Desk

    def runrig(self, *args: str, width: int | None = None) -> Done:
        return runrig("events", *args, env={"RUNRIG_SERVER": self.url, "RUNRIG_TOKEN": _TOKEN}, width=width)

    def json(self, *args: str) -> Any:
        return self.runrig(*args, "-t", "json").json


@contextmanager
def _utc() -> Iterator[None]:
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ") if zone is None else os.environ.update(TZ=zone)
        time.tzset()


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A night in which `speech` reclaimed from `vision`, and stopping its latest work alone would not have helped."""
    with (
        _utc(),
        desk(tmp_path_factory.mktemp("night"), nodes=read_cluster(CLUSTER).nodes, cluster=CLUSTER) as it,
        listening(lambda port: create_app(it.service, token=_TOKEN, port=port, user="root")) as port,
    ):
        it.submit("sweep", "vision", Priority.LOW, gpus=3, duration=9_000)
        it.later(60)
        it.submit("tagger", "audio", Priority.LOW, gpus=1, duration=9_000)
        it.later(60)
        it.submit("late", "vision", Priority.LOW, gpus=1, duration=9_000)
        it.later(60)
        it.submit("asr", "speech", gpus=2, duration=9_000)
        it.later(60)
        yield World(f"http://127.0.0.1:{port}", it)


_40 = """\
2027-01-15 08:04:04
  sweep-1/main-group was preempted by
  asr-1/main-group, whose pool reclaimed
  borrowed quota (Reclaim, rule R2);
  lower-cost candidates ruled out:
  late-1/main-group (stopping it would
  not have helped)
"""
_80 = """\
2027-01-15 08:04:04  sweep-1/main-group was preempted by asr-1/main-group, whose
                     pool reclaimed borrowed quota (Reclaim, rule R2);
                     lower-cost candidates ruled out: late-1/main-group
                     (stopping it would not have helped)
"""
_120 = """\
2027-01-15 08:04:04  sweep-1/main-group was preempted by asr-1/main-group, whose pool reclaimed borrowed quota (Reclaim,
                     rule R2); lower-cost candidates ruled out: late-1/main-group (stopping it would not have helped)
"""


@pytest.mark.parametrize(("width", "picture"), [(40, _40), (80, _80), (120, _120)])
def test_a_preemption_names_its_cause_and_the_cheaper_candidates(there: World, width: int, picture: str) -> None:
    assert there.runrig("--kind", "preempted", width=width).out == picture


@pytest.mark.parametrize("command", ["why sweep-1 -v", "workflow events sweep-1", "plan --drain n0"])
def test_text_fits_a_narrow_terminal(there: World, command: str) -> None:
    env = {"RUNRIG_SERVER": there.url, "RUNRIG_TOKEN": _TOKEN}
    lines = runrig(*command.split(), env=env, width=40).out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 40 and not line.startswith("Overview")] == []


def test_json_has_the_preemptor_and_the_candidates_by_name(there: World) -> None:
    (event,) = there.json("--kind", "preempted")
    assert (event["workflow"], event["law"], event["preemptor"]) == ("sweep-1", "R2", "asr-1/main-group")
    assert event["ruled_out"] == [
        {"gang": "late-1/main-group", "law": "R3", "reason": "stopping it would not have helped"}
    ]


def test_the_head_of_the_chain_can_be_shown_alone(there: World) -> None:
    head = there.desk.store.log.head()
    assert there.runrig("--head").out == f"{head}\n"
    assert there.json("--head") == {"revision": there.desk.revision, "head": head}


def test_a_filter_searches_the_whole_log(there: World) -> None:
    whole = there.json()
    assert there.json("--workflow", "asr-1") == [each for each in whole if each["workflow"] == "asr-1"]
    assert there.json("--pool", "audio") == [each for each in whole if each["pool"] == "audio"]
    assert there.json("--user", "ann") == [
        each for each in whole if each["workflow"] is not None or each["actor"] == "apply by ann"
    ]
    assert there.json("--user", "bob") == []
    named = {"Preempt": "preempted", "Submit": "submitted", "PutNode": "nodes"}
    assert there.json("--kind", "preempted,submitted", "--kind", "NODES") == [
        each for each in whole if each["kind"] in named
    ]
    assert there.json("--grep", "asr-1/main-group.*rule R") == [
        each for each in whole if "asr-1/main-group" in each["text"] and "rule R" in each["text"]
    ]
    middle = whole[len(whole) // 2]["time"]
    assert there.json("--since", middle + "Z") == [each for each in whole if each["time"] >= middle]
    assert there.json("--until", middle + "Z") == [each for each in whole if each["time"] <= middle]


def test_events_of_a_node_include_those_of_work_placed_there(there: World) -> None:
    whole = there.json()
    assert there.json("--node", "n1") == [
        each for each in whole if "node n1" in each["text"] or _moved(each, "tagger-1", "late-1")
    ]
    assert there.json("--node", "n0", "--kind", "preempted") == there.json("--kind", "preempted")


def _moved(event: Any, *workflows: str) -> bool:
    """Whether it is of one of *workflows*, since its admission."""
    return event["workflow"] in workflows and event["kind"] not in ("Submit", "Queue")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--kind", "premepted"], "unknown kind 'premepted'. Did you mean 'preempted'?"),
        (["--kind", "started,eaten"], f"unknown kind 'eaten'. Kinds: {', '.join(KINDS)}"),
        (["--pool", "visoin"], "unknown pool 'visoin'. Did you mean 'vision'?"),
        (["--workflow", "asr-2"], "workflow 'asr-2' not found. Did you mean 'asr-1'?"),
        (["--grep", "("], "--grep ( is not a regular expression: missing ), unterminated subpattern at position 0"),
        (["--since", "soon"], "'soon' is not a time. Use 2026-01-31, 2026-01-31T13:00, 2h (ago), today or yesterday."),
        (["-f", "--until", "1h"], "--until cannot be combined with -f, which does not end"),
    ],
)
def test_an_invalid_filter_is_refused_in_one_sentence(there: World, args: list[str], message: str) -> None:
    done = there.runrig(*args)
    assert (done.code, done.out, message in done.err) == (2, "", True), done


def test_an_empty_answer_says_whether_a_filter_is_the_reason(there: World) -> None:
    assert there.runrig("--until", "2020-01-01").out == "no events match\n"


def test_the_command_line_accepts_every_kind_of_event() -> None:
    assert tuple(Kind) == KINDS


# ---------------------------------------------------------------- following


def _event(revision: int) -> dict[str, Any]:
    return {**example_of(ClusterEvent), "revision": revision, "text": f"event {revision}"}


def _page(*events: Any, revision: int) -> bytes:
    return answer(json.dumps({"items": events, "next_cursor": None, "revision": revision}))


def _stream(*messages: str) -> bytes:
    return ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: welcome\n\n" + "".join(messages)).encode()


def _commit(revision: int) -> str:
    return f"id: {revision}\nevent: commit\ndata: {json.dumps([_event(revision)])}\n\n"


_END = answer(json.dumps({"detail": "the token has expired", "code": "FORBIDDEN"}), "401 Unauthorized")


def test_following_continues_from_the_last_revision_whatever_breaks() -> None:
    """A broken stream, a server that is away, a sign of life, too long a pause, another log."""
    quiet = ": still here\nid: 9\n\n"
    turns = (
        _page(_event(3), revision=4),
        _stream(_commit(6)),
        HANG_UP,
        _stream(quiet),
        _stream('id: 40000\nevent: reset\ndata: {"revision": 40000}\n\n', _commit(50000)),
        _page(_event(40001), revision=40001),
        _stream('id: 7\nevent: reset\ndata: {"revision": 7}\n\n', _commit(8)),
        _END,
    )
    with scripted(*turns) as server:
        env = {"RUNRIG_SERVER": server.url, "RUNRIG_TOKEN": "t"}
        done = runrig("events", "-f", "--since", "2026-01-01", "--kind", "failed", env=env)
    assert [line[21:] for line in lines(done.out)] == [f"event {n}" for n in (3, 6, 40001, 8)]
    assert (done.code, "The server has another event log" in done.err) == (4, True), done
    assert [headers.get("last-event-id") for *_, headers in server.asked] == [
        None, "4", "6", "6", "9", None, "40001", "8"
    ]  # fmt: skip
    assert all("kind=failed" in line for _, line, _ in server.asked)
    assert "after=6" in server.asked[5][1]


def test_following_without_a_time_begins_now() -> None:
    with scripted(_page(_event(3), revision=4), _page(revision=4), _stream(_commit(5)), _END) as server:
        done = runrig("events", "-f", "-t", "json", env={"RUNRIG_SERVER": server.url, "RUNRIG_TOKEN": "t"})
    first, _, error = done.out.partition("\n")
    assert (done.code, json.loads(first)["text"], json.loads(error)["code"]) == (4, "event 5", "FORBIDDEN")
    assert "limit=1" in server.asked[0][1]
    assert "after=4" in server.asked[1][1]
