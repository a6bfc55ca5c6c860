"""Both streams of attempts, merged by the notes of their supervisors."""

import os
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.workflows import TaskKey
from runrig.ports.backend import LogFile, Output
from runrig.service.queries import output
from runrig.service.queries.output import OPEN_S, STDERR, STDOUT, Lines, Tail, merged, one_by_one

KEY = TaskKey("w-1", "main", 0)


class Writer:
    """An attempt's folder, and what its supervisor notes there.  *order* False: an older release, which noted nothing."""

    def __init__(self, folder: Path, *, order: bool = True) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.output = Output(self._file("out"), self._file("err"), self._file("order") if order else None)
        self.write("", "")

    def _file(self, name: str) -> LogFile:
        return LogFile(str(self._folder), name)

    def write(self, out: str = "", err: str = "") -> None:
        for name, text in (("out", out), ("err", err)):
            with (self._folder / name).open("ab") as file:
                file.write(text.encode())

    def note(self, at: float) -> None:
        sizes = ((self._folder / name).stat().st_size for name in ("out", "err"))
        self.raw(f"{round(at * 1e6)} {' '.join(map(str, sizes))}\n")

    def raw(self, text: str) -> None:
        with (self._folder / "order").open("a") as file:
            file.write(text)

    def tail(
        self, key: TaskKey = KEY, last_lines: int | None = None, streams: tuple[str, ...] = (STDOUT, STDERR)
    ) -> Tail:
        return Tail(key, lambda _: self.output, streams, last_lines)


def texts(lines: Iterable[Lines]) -> list[str]:
    return [line.data.decode() for line in one_by_one(lines)]


def test_lines_of_both_streams_are_in_the_order_of_writing(tmp_path: Path) -> None:
    task = Writer(tmp_path)
    for at, out, err in (
        (1, "step 1\n", ""),
        (2, "", "a warning\n"),
        (3, "step 2\nstep 3\n", ""),
        (4, "", "Traceback\nKeyError\n"),
    ):
        task.write(out, err)
        task.note(at)
    found = list(one_by_one(task.tail().rest()))
    assert [(line.time, line.stream, line.data) for line in found] == [
        (1.0, STDOUT, b"step 1"),
        (2.0, STDERR, b"a warning"),
        (3.0, STDOUT, b"step 2"),
        (3.0, STDOUT, b"step 3"),
        (4.0, STDERR, b"Traceback"),
        (4.0, STDERR, b"KeyError"),
    ]
    assert texts(task.tail(streams=(STDERR,)).rest()) == ["a warning", "Traceback", "KeyError"]
    assert texts(task.tail(last_lines=1).rest()) == ["step 3", "KeyError"]
    assert texts(task.tail(last_lines=0).rest()) == []


def test_unrecorded_output_comes_last_and_without_records_stdout_comes_first(tmp_path: Path) -> None:
    task = Writer(tmp_path / "new")
    task.write("one\n")
    task.note(1)
    task.write("three\nfo", "two\n")
    assert texts(task.tail().rest()) == ["one", "three", "two", "fo"]
    old = Writer(tmp_path / "old", order=False)
    old.write("x\n" * 50_000, "y\n")
    assert texts(old.tail().rest()) == ["x"] * 50_000 + ["y"]


def test_several_tasks_are_merged_by_time_and_each_keeps_its_order(tmp_path: Path) -> None:
    tasks = [Writer(tmp_path / name) for name in ("a", "b")]
    for at in range(1, 7):
        tasks[at % 2].write(f"{at}\n")
        tasks[at % 2].note(at)
    keys = [TaskKey("w-1", name, 0) for name in ("a", "b")]
    lines = list(merged(task.tail(key).rest() for task, key in zip(tasks, keys, strict=True)))
    assert [(line.key.task, line.data) for line in lines] == [("ba"[at % 2 == 0], b"%d" % at) for at in range(1, 7)]


def test_follower_gets_an_incomplete_line_after_a_while(tmp_path: Path) -> None:
    task = Writer(tmp_path)
    tail = task.tail()
    task.write("10 %\r20 %")
    task.note(1)
    assert tail.more(0.0) == []
    assert tail.more(OPEN_S / 2) == []
    assert [(line.data, line.whole) for line in tail.more(OPEN_S)] == [(b"10 %\r20 %", False)]
    assert tail.more(OPEN_S * 3) == []
    task.write(" done\nnext\n")
    task.note(2)
    assert texts(tail.more(OPEN_S * 3)) == [" done", "next"]


@pytest.mark.parametrize(
    "notes",
    [
        "nonsense\n",
        "1 2\n",
        "1 99999999 99999999\n",
        "5 0 0\n3 0 0\n",
        "1 -5 2\n",
        "\x00" * 300_000,
        "9" * 40 + " 1 1\n",
    ],
)
def test_notes_written_by_a_task_itself_lose_no_line(tmp_path: Path, notes: str) -> None:
    task = Writer(tmp_path)
    task.write("one\ntwo\n", "three\n")
    task.raw(notes)
    assert sorted(texts(task.tail().rest())) == ["one", "three", "two"]


def test_log_that_is_not_a_regular_file_is_empty(tmp_path: Path) -> None:
    task = Writer(tmp_path / "task")
    task.write("", "here\n")
    (tmp_path / "task/out").unlink()
    os.mkfifo(tmp_path / "task/out")
    assert texts(task.tail().rest()) == ["here"]


@settings(max_examples=60)
@given(st.integers(min_value=0), st.sampled_from([7, 64, output.CHUNK]))
def test_no_line_is_lost_or_repeated_however_output_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, chunk: int
) -> None:
    """Several readers, some of which begin late, as after a server was killed."""
    dice = random.Random(seed)
    task = Writer(tmp_path_factory.mktemp("task"))
    written: dict[str, str] = {STDOUT: "", STDERR: ""}
    readers: list[tuple[Tail, list[Lines]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "CHUNK", chunk)
        for at in range(30):
            stream = dice.choice((STDOUT, STDERR))
            text = "".join(f"{at}.{number}{dice.choice((chr(10), '', ' '))}" for number in range(dice.randint(1, 9)))
            task.write(**{"out" if stream == STDOUT else "err": text})
            written[stream] += text
            if dice.random() < 0.7:
                task.note(at)
            if dice.random() < 0.2:
                readers.append((task.tail(), []))
            for tail, seen in readers:
                seen += tail.more(0.0) if dice.random() < 0.5 else []
        readers.append((task.tail(), []))
        for tail, seen in readers:
            seen += tail.rest()
            for stream, text in written.items():
                own = "".join(line.data.decode() + "\n" * line.whole for line in seen if line.stream == stream)
                assert Counter(own.split("\n")) == Counter(text.split("\n"))
                if chunk == output.CHUNK:
                    assert own == text
            assert [line.time for line in seen] == sorted(line.time for line in seen)


def test_last_lines_are_those_of_a_full_read_and_most_records_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, task, count = random.Random(7), Writer(tmp_path), 2_000
    for at in range(count):
        task.write(**{dice.choice(("out", "err")): "".join(f"{at}.{number}\n" for number in range(dice.randint(1, 3)))})
        task.note(at * 1_000)
    every = [(line.time, line.stream, line.data) for line in one_by_one(task.tail().rest())]
    assert count < len(every) < count * 3
    monkeypatch.setattr(output, "CHUNK", 512)
    read: list[int] = []
    pread = os.pread

    def noted(descriptor: int, size: int, offset: int) -> bytes:
        read.append(size)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", noted)
    for last in (0, 1, 2, 40):
        read.clear()
        found = [(line.time, line.stream, line.data) for line in one_by_one(task.tail(last_lines=last).rest())]
        left = Counter({STDOUT: last, STDERR: last})
        expected = [each for each in reversed(every) if left[each[1]] > 0 and not left.subtract([each[1]])]
        assert found == expected[::-1]
        assert sum(read) < 40 * output.CHUNK, "of about 100 that the records have"


@pytest.mark.parametrize("seconds", ["", ".5", ".123456789"])
def test_timestamped_lines_are_read_without_their_times(tmp_path: Path, seconds: str) -> None:
    """As Kubernetes gives them; what was kept by an older release has none."""
    (tmp_path / "pod.log").write_text(f"old\n2026-01-31T12:00:00{seconds}Z new  one\n2026-01-31T12:00:01Z \n")
    found = Output(LogFile(str(tmp_path), "pod.log"), stamped=True)
    lines = list(Tail(KEY, lambda _: found, (STDOUT, STDERR), None).rest())
    assert texts(lines) == ["old", "new  one", ""]
    assert lines[1].time <= lines[2].time
