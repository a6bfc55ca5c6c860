"""Kept output, from a source that a test holds in its hands: what comes, when, and what breaks."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig.backends.kubernetes import logs
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.logs import KeptLogs
from runrig.domain.errors import Unavailable
from runrig.domain.workflows import TaskKey
from tests.patience import PATIENCE_S, until

KEY = TaskKey("w-1", "train-0", 2)
POD = "train-0-6a"
NOT_STARTED = ApiRefusal(400, "BadRequest", 'container "main" in pod "p" is waiting to start')


class Said:
    """What a container has said so far.  *problem*: why nobody can have it; *silent*: who asks waits."""

    def __init__(self, text: bytes = b"") -> None:
        self.text = text
        self.problem: Exception | None = None
        self.silent = False
        self.ended = False
        self.open: set[Output] = set()
        self.asked: list[bool] = []

    def read(self, pod: str, follow: bool) -> "Output":
        assert pod == POD
        self.asked.append(follow)
        if self.problem is not None:
            raise self.problem
        return Output(self, follow=follow)


class Output:
    """In pieces of 7 bytes; one that follows goes on until the container has ended."""

    def __init__(self, said: Said, *, follow: bool) -> None:
        self._said, self._follow = said, follow
        self._closed = threading.Event()
        said.open.add(self)

    def __iter__(self) -> Iterator[bytes]:
        at = 0
        while not self._closed.is_set():
            if self._said.problem is not None and at:
                raise self._said.problem
            piece = b"" if self._said.silent else self._said.text[at : at + 7]
            at += len(piece)
            if piece:
                yield piece
            elif not self._said.silent and (not self._follow or self._said.ended):
                return
            else:
                self._closed.wait(0.005)

    def close(self) -> None:
        self._closed.set()
        self._said.open.discard(self)


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def kept(tmp_path: Path, said: Said) -> Iterator[KeptLogs]:
    here = KeptLogs(tmp_path / "logs", said.read)
    yield here
    here.close()


def content(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


# ---------------------------------------------------------------- readers


def test_first_reader_gets_all_output_so_far_and_then_the_file_grows(kept: KeptLogs, said: Said) -> None:
    said.text = b"one\ntwo\n"
    path = kept.file(KEY, POD)
    assert content(path) == b"one\ntwo\n"
    said.text += b"three\n"
    until(lambda: content(path) == b"one\ntwo\nthree\n")
    assert kept.file(KEY, POD) == path
    assert said.asked == [False, True]


def test_folders_and_files_are_private(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    said.text = b"secret\n"
    path = kept.file(KEY, POD)
    assert path == tmp_path / "logs" / "w-1" / "train-0" / "2" / f"{POD}.part"
    assert kept.keep(KEY, POD)
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in (tmp_path / "logs").rglob("*") if each.is_file()}
    assert modes == {f"{POD}.log": "0o600"}
    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"


def test_follower_that_was_let_go_creates_no_file(
    kept: KeptLogs, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again in the moment in which the output is complete."""
    looks, kept_all, ask = threading.Event(), threading.Event(), logs._Follower._said

    def late(follower: logs._Follower, *, follow: bool) -> Iterator[bytes]:
        if follow:
            looks.set()
            kept_all.wait()
        return ask(follower, follow=follow)

    monkeypatch.setattr(logs._Follower, "_said", late)
    said.text = b"done\n"
    kept.file(KEY, POD)
    assert looks.wait(PATIENCE_S)
    assert kept.keep(KEY, POD)
    kept_all.set()
    until(lambda: f"log-{POD}" not in {each.name for each in threading.enumerate()})
    assert [each.name for each in (tmp_path / "logs").rglob("*.*")] == [f"{POD}.log"]


def test_container_that_has_not_started_has_no_output_and_is_retried(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_AGAIN_S", 0.01)
    said.problem = NOT_STARTED
    assert kept.file(KEY, POD) is None or content(kept.file(KEY, POD)) == b""
    said.text, said.problem = b"up\n", None
    until(lambda: content(kept.file(KEY, POD)) == b"up\n")


def test_broken_connection_loses_and_repeats_nothing(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_AGAIN_S", 0.01)
    said.text = b"a line that is longer than a piece\nanother\n"
    path = kept.file(KEY, POD)
    said.problem = Unavailable("reset")
    said.text += b"while nobody listened\n"
    asked = len(said.asked)
    until(lambda: len(said.asked) > asked + 2)
    said.problem = None
    said.text += b"and after\n"
    until(lambda: content(path) == said.text)
    assert content(path) == said.text


def test_killed_server_continues_where_it_stopped(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    said.text = b"0123456789\nabc\n"
    folder = tmp_path / "logs" / "w-1" / "train-0" / "2"
    folder.mkdir(parents=True)
    (folder / f"{POD}.part").write_bytes(said.text[:9])
    assert content(kept.file(KEY, POD)) == said.text


def test_output_that_lost_its_beginning_is_marked_and_continues(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "w-1" / "train-0" / "2"
    folder.mkdir(parents=True)
    (folder / f"{POD}.part").write_bytes(b"old\nolder\n")
    said.text = b"new\n"
    note = b"[runrig: the beginning of the output is no longer on its node; the following lines may be duplicates]\n"
    path = kept.file(KEY, POD)
    assert content(path) == b"old\nolder\n" + note + b"new\n"
    said.text += b"and more\n"
    until(lambda: (content(path) or b"").endswith(b"and more\n"))
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, POD)) == b"old\nolder\n" + note + b"new\nand more\n"


def test_wait_for_a_silent_server_is_limited(kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CAUGHT_UP_S", 0.05)
    said.silent = True
    assert content(kept.file(KEY, POD)) in (None, b"")


def test_output_without_readers_is_dropped_and_resumed(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "UNREAD_S", 0.1)
    said.text = b"one\n"
    path = kept.file(KEY, POD)
    until(lambda: said.asked[-1] and said.open)
    until(lambda: not said.open)
    said.text += b"two\n"
    assert content(kept.file(KEY, POD)) == b"one\ntwo\n"
    assert kept.file(KEY, POD) == path


def test_deleted_pod_has_the_saved_output_of_the_latest_one(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    assert kept.file(KEY, None) is None
    folder = tmp_path / "logs" / "w-1" / "train-0" / "2"
    folder.mkdir(parents=True)
    (folder / "train-0-1b.log").write_bytes(b"the one before\n")
    said.text = b"mine\n"
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, None)) == b"mine\n"
    assert not said.open


def test_names_that_are_paths_have_no_file(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    odd = TaskKey("..", "train-0", 0)
    (tmp_path / "kept").write_text("not ours")
    assert (kept.file(odd, POD), kept.file(odd, None), kept.keep(odd, POD)) == (None, None, True)
    kept.discard("..")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept"]
    assert said.asked == []


def test_later_reader_sees_the_note_about_a_lost_beginning(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "w-1" / "train-0" / "2"
    folder.mkdir(parents=True)
    (folder / f"{POD}.part").write_bytes(b"old\nhalf a li")
    said.text = b"new\n"
    kept.file(KEY, POD)
    kept.close()
    later = KeptLogs(tmp_path / "logs", said.read)
    said.text += b"and more\n"
    note = b"[runrig: the beginning of the output is no longer on its node; the following lines may be duplicates]\n"
    assert content(later.file(KEY, POD)) == b"old\nhalf a li" + note + b"new\nand more\n"
    assert later.keep(KEY, POD)
    assert content(later.file(KEY, POD)) == b"old\nhalf a li" + note + b"new\nand more\n"


# ---------------------------------------------------------------- many readers


class Gang:
    """Several pods that talk."""

    def __init__(self, folder: Path, pods: int) -> None:
        self.said = {f"p{number}": Said(f"{number}: words\n".encode()) for number in range(pods)}
        self.kept = KeptLogs(folder, lambda pod, follow: Output(self.said[pod], follow=follow))

    def read(self, pod: str, *, ended: bool = False) -> bytes | None:
        return content(self.kept.file(TaskKey("w-1", pod, 0), pod, ended=ended))

    def speak(self) -> None:
        for each in self.said.values():
            each.text += b"more of them\n"

    @property
    def followed(self) -> set[str]:
        return {pod for pod, said in self.said.items() if any(each._follow for each in tuple(said.open))}


@pytest.fixture
def gang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gang]:
    monkeypatch.setattr(logs, "MOST_FOLLOWED", 3)
    monkeypatch.setattr(logs, "REST_S", 0.0)
    here = Gang(tmp_path, 10)
    yield here
    here.kept.close()


def test_many_outputs_lose_and_repeat_nothing_while_few_are_followed(gang: Gang) -> None:
    for _ in range(5):
        assert {pod: gang.read(pod) for pod in gang.said} == {pod: said.text for pod, said in gang.said.items()}
        until(lambda: gang.followed == {"p7", "p8", "p9"})
        gang.speak()
    assert [gang.kept.keep(TaskKey("w-1", pod, 0), pod) for pod in gang.said] == [True] * 10
    assert {pod: gang.read(pod) for pod in gang.said} == {pod: said.text for pod, said in gang.said.items()}
    assert gang.followed == set()


def test_many_concurrent_readers_lose_and_repeat_nothing(gang: Gang) -> None:
    def read_all() -> None:
        for _ in range(10):
            for pod in gang.said:
                gang.read(pod)

    readers = [threading.Thread(target=read_all) for _ in range(4)]
    for each in readers:
        each.start()
    while any(each.is_alive() for each in readers):
        if len(gang.said["p0"].text) < 2000:
            gang.speak()
        readers[-1].join(0.01)
    said = {pod: each.text for pod, each in gang.said.items()}
    until(lambda: {pod: gang.read(pod) for pod in gang.said} == said)


def test_least_recently_read_output_is_dropped(gang: Gang) -> None:
    for pod in ("p0", "p1", "p2", "p0", "p3"):
        gang.read(pod)
    until(lambda: gang.followed == {"p0", "p2", "p3"})


def test_dropped_output_pauses_unless_its_pod_has_ended(gang: Gang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "REST_S", 60.0)
    for pod in ("p0", "p1", "p2", "p3", "p4"):
        gang.read(pod)
    before = gang.said["p0"].text
    gang.speak()
    assert (gang.read("p0"), gang.read("p1", ended=True)) == (before, gang.said["p1"].text)
    gang.said["p0"].ended = True
    assert gang.kept.keep(TaskKey("w-1", "p0", 0), "p0")
    assert gang.read("p0") == gang.said["p0"].text


# ---------------------------------------------------------------- keeping


def test_output_without_readers_is_saved_once(kept: KeptLogs, said: Said) -> None:
    said.text = b"all of it\n"
    assert (kept.keep(KEY, POD), kept.keep(KEY, POD)) == (True, True)
    assert said.asked == [False]
    assert content(kept.file(KEY, POD)) == b"all of it\n"
    assert said.asked == [False]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"", b""),
        (b"0123456789abcdef", b"0123456789abcdef"),
        (b"x" + b"0123456789\nbcdef", b"bcdef"),
        (b"0123\n" + b"5678901234\nabcd\n", b"5678901234\nabcd\n"),
        (b"y" * 100, b"y" * 16),
        (b"line\n" * 100, b"line\nline\nline\n"),
    ],
    ids=["nothing", "just as much", "one more", "a line begins there", "no line at all", "much"],
)
def test_output_without_readers_is_saved_from_its_end_in_whole_lines(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch, text: bytes, end: bytes
) -> None:
    monkeypatch.setattr(logs, "MOST_KEPT", 16)
    said.text = text
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, POD)) == end


def test_followed_output_is_saved_completely_and_its_file_only_grows(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_KEPT", 4)
    said.text = b"from the beginning\n"
    before = content(kept.file(KEY, POD))
    said.silent = True  # its follower does not see the end
    said.text += b"to the end\n"
    said.silent = False
    said.ended = True
    assert kept.keep(KEY, POD)
    after = content(kept.file(KEY, POD))
    assert before == b"from the beginning\n"
    assert after == b"from the beginning\nto the end\n"
    assert not said.open


def test_transient_failure_still_saves_everything(kept: KeptLogs, said: Said) -> None:
    said.text, said.problem = b"fine\n", Unavailable("restarting")
    assert not kept.keep(KEY, POD)
    said.problem = None
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, POD)) == b"fine\n"


def test_permanent_failure_releases_the_pod_and_is_noted_in_the_file(kept: KeptLogs, said: Said) -> None:
    said.problem = Unavailable("the node n1 does not answer")
    assert [kept.keep(KEY, POD) for _ in range(logs.TRIES)] == [False] * (logs.TRIES - 1) + [True]
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, None)) == b"[runrig: output is not available: the node n1 does not answer]\n"


def test_refusal_is_not_retried(kept: KeptLogs, said: Said) -> None:
    said.problem = NOT_STARTED
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, None)) == (
        b"[runrig: output is not available: the API server refused the request (400 BadRequest): "
        b'container "main" in pod "p" is waiting to start]\n'
    )


def test_reader_keeps_its_output_when_the_rest_is_lost(kept: KeptLogs, said: Said) -> None:
    said.text = b"the first half\n"
    kept.file(KEY, POD)
    said.problem = ApiRefusal(404, "NotFound", "nodes n1 not found")
    assert kept.keep(KEY, POD)
    assert content(kept.file(KEY, POD)) == (
        b"the first half\n"
        b"[runrig: output is incomplete: the API server refused the request (404 NotFound): nodes n1 not found]\n"
    )


def test_silent_server_does_not_hold_a_pod_for_long(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "KEPT_S", 0.05)
    said.silent = True
    assert [kept.keep(KEY, POD) for _ in range(logs.TRIES)] == [False] * (logs.TRIES - 1) + [True]
    assert content(kept.file(KEY, None)) == b"[runrig: output is not available: no response within 0.05 s]\n"
    until(lambda: not said.open)


def test_late_output_changes_nothing(kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "KEPT_S", 0.05)
    monkeypatch.setattr(logs, "TRIES", 1)
    answered = threading.Event()

    def read(pod: str, follow: bool) -> Output:
        answered.wait()
        return said.read(pod, follow)

    late = KeptLogs(kept._folder, read)
    assert late.keep(KEY, POD)
    before = content(late.file(KEY, None))
    said.text = b"late\n"
    answered.set()
    until(lambda: said.asked and not said.open)
    assert content(late.file(KEY, None)) == before == b"[runrig: output is not available: no response within 0.05 s]\n"


def test_output_in_transit_when_dropped_changes_nothing(
    kept: KeptLogs, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a file that a reader has begun with, which the late one holds open."""

    class Late(Output):
        def __iter__(self) -> Iterator[bytes]:
            self._closed.wait()
            yield b"words\nlate\n"
            said.text = b"it has come"

    monkeypatch.setattr(logs, "KEPT_S", 0.05)
    monkeypatch.setattr(logs, "TRIES", 1)
    said.text = b"words\n"
    kept.file(KEY, POD)
    kept.close()
    last = KeptLogs(kept._folder, lambda _, follow: Late(said, follow=follow))
    assert last.keep(KEY, POD)
    until(lambda: said.text == b"it has come")
    assert content(last.file(KEY, None)) == (b"words\n[runrig: output is incomplete: no response within 0.05 s]\n")


def test_output_is_not_followed_while_it_is_being_saved(kept: KeptLogs, said: Said) -> None:
    said.text, said.silent = b"once\n", True
    keeper = threading.Thread(target=kept.keep, args=(KEY, POD))
    keeper.start()
    until(lambda: said.open)
    assert (kept.keep(KEY, POD), kept.file(KEY, POD)) == (False, None)
    said.silent = False
    keeper.join()
    assert content(kept.file(KEY, POD)) == b"once\n"
    assert said.asked == [False]


# ---------------------------------------------------------------- the end


def test_discarded_workflow_leaves_nothing(kept: KeptLogs, said: Said, tmp_path: Path) -> None:
    said.text = b"words\n"
    kept.file(KEY, POD)
    other = TaskKey("w-2", "train-0", 0)
    assert kept.keep(other, POD)
    kept.discard("w-1")
    until(lambda: not said.open)
    assert [each.name for each in (tmp_path / "logs").iterdir()] == ["w-2"]


def test_nothing_is_read_after_the_end(kept: KeptLogs, said: Said) -> None:
    said.text = b"words\n"
    path = kept.file(KEY, POD)
    until(lambda: said.asked == [False, True] and said.open)
    kept.close()
    until(lambda: not said.open)
    said.text += b"more\n"
    asked = len(said.asked)
    assert content(kept.file(KEY, POD)) == b"words\n"
    assert (kept.file(KEY, POD), len(said.asked)) == (path, asked)
