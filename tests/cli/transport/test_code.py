"""Which files of a folder are sent as code, and what of them."""

import io
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import pytest

from runrig.api.app import create_app
from runrig.cli.transport import code, code_files
from runrig.cli.transport.code import choose, send
from runrig.client.server_address import Address
from runrig.client.transport import Transport
from runrig.domain.errors import Conflict, InvalidInput
from tests.api.client import TOKEN
from tests.worlds.command_line import runrig
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk, one_task, submit


def fill(folder: Path, **files: str) -> Path:
    for name, text in {"train.py": "pass\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def paths(folder: Path) -> list[str]:
    found = choose(folder).manifest
    return sorted([each.path for each in found.files] + [each.path for each in found.links])


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidInput) as refused:
        choose(folder)
    return refused.value.message


def test_code_outside_git_has_everything_but_caches_and_ignored_files(tmp_path: Path) -> None:
    fill(
        tmp_path,
        **{".env": "", ".venv/x": "", "a/__pycache__/y": "", "a/node_modules/z": "", "a/b.py": "", "runs/old/1": ""},
    )
    fill(
        tmp_path,
        **{"runs/new": "", "m.pt": "", "a/n.pt": "", "data/1": "", ".runrigignore": "\ufeff*.pt\ndata/\n/runs/old\n\n"},
    )
    assert paths(tmp_path) == [".env", ".runrigignore", "a/b.py", "runs/new", "train.py"]


@pytest.mark.slow
def test_code_in_git_has_tracked_and_unignored_files_and_the_commit(tmp_path: Path) -> None:
    fill(tmp_path, **{".gitignore": "out/\n*.log\n", "out/1": "", "gone": "", "sub/in.py": "", "kept.log": ""})
    git(tmp_path, "init", "-q")
    assert choose(tmp_path).labels == {}
    git(tmp_path, "add", ".")
    git(tmp_path, "add", "-f", "kept.log")
    git(tmp_path, "commit", "-qm", "first")
    assert choose(tmp_path).labels == {"git.commit": git(tmp_path, "rev-parse", "HEAD"), "git.dirty": "0"}
    (tmp_path / "gone").unlink()
    (tmp_path / "sub").rename(tmp_path / "moved")
    fill(tmp_path, sub="")  # sub/in.py is still tracked
    assert paths(tmp_path) == [".gitignore", "kept.log", "moved/in.py", "sub", "train.py"]
    (tmp_path / "sub").unlink()
    (tmp_path / "moved").rename(tmp_path / "sub")
    fill(tmp_path, **{"train.py": "changed", "new file é": ""})
    assert paths(tmp_path) == [".gitignore", "kept.log", "new file é", "sub/in.py", "train.py"]
    assert choose(tmp_path).labels["git.dirty"] == "3"
    assert paths(tmp_path / "sub") == ["in.py"]
    git(fill(tmp_path / "inner"), "init", "-q")
    assert "inner/train.py" in paths(tmp_path)


def test_links_are_kept_unless_they_lead_out_of_the_folder(tmp_path: Path) -> None:
    fill(tmp_path / "a", **{"d/x": "1"})
    (tmp_path / "a/d/up").symlink_to("../train.py")
    (tmp_path / "a/dir").symlink_to("d")
    assert {(each.path, each.target) for each in choose(tmp_path / "a").manifest.links} == {
        ("d/up", "../train.py"),
        ("dir", "d"),
    }
    for target in ("/etc", "../other"):
        (tmp_path / "a/out").unlink(missing_ok=True)
        (tmp_path / "a/out").symlink_to(target)
        assert (
            refusal(tmp_path / "a")
            == "'out' is a link that leads out of the folder. Remove it, or add it to .runrigignore"
        )


def test_home_folder_and_root_and_non_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(fill(tmp_path / "home")))
    for folder in (tmp_path / "home", tmp_path, Path("/")):
        assert "contains your home folder" in refusal(folder)
    assert paths(fill(tmp_path / "home/project")) == ["train.py"]
    assert refusal(tmp_path / "nope").endswith("no such folder")
    assert "is not a folder" in refusal(tmp_path / "home/train.py")
    (tmp_path / "empty").mkdir()
    assert "has no files to send" in refusal(tmp_path / "empty")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (fill(tmp_path) / "train.py").chmod(0)
    assert refusal(tmp_path).startswith("'train.py' cannot be read: Permission denied")


def test_names_with_control_characters_are_refused_and_shown_safely(tmp_path: Path) -> None:
    (fill(tmp_path) / "a\x1b[31m\nb").write_text("")
    message = refusal(tmp_path)
    assert message.isprintable()
    assert "contains a control character" in message


def test_too_much_code_lists_the_largest_files_and_how_to_exclude_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "LARGEST_PACKED", 5_000)
    noise = {f"data/{n:02}.bin": os.urandom(500 * n).hex() for n in range(12)}
    lines = refusal(fill(tmp_path, **noise)).splitlines()
    assert lines[0].startswith(f"{tmp_path} is too large to send as code: ")
    assert lines[1:-1] == [f"  {code.shown_size(1000 * n):>9}  data/{n:02}.bin" for n in range(11, 1, -1)]
    assert lines[-1] == "To leave one out: echo '/data/11.bin' >> .runrigignore"
    monkeypatch.setattr(code, "MOST_FILES", 5)
    lines = refusal(tmp_path).splitlines()
    assert lines[1:] == ["        12  data/", "To leave one out: echo '/data/' >> .runrigignore"]


# ---------------------------------------------------------------- sending


@contextmanager
def server(folder: Path) -> Iterator[tuple[Transport, Desk]]:
    with desk(folder) as it, listening(lambda port: create_app(it.service, token=TOKEN, port=port, user="ann")) as port:
        yield Transport(Address(f"http://127.0.0.1:{port}", "a test"), TOKEN), it


def sent(client: Transport, folder: Path) -> tuple[str, str]:
    err = io.StringIO()
    with redirect_stderr(err):
        return send(client, choose(folder)), err.getvalue()


@pytest.mark.slow
def test_only_changed_files_are_sent_and_reported(tmp_path: Path) -> None:
    folder = fill(tmp_path / "mine", **{"a.py": "1\n", "b.py": "2\n"})
    with server(tmp_path / "data") as (client, it):
        id, said = sent(client, folder)
        assert said.startswith("Sent 3 files (")
        assert said.endswith(" B) of 3\n")
        assert id == choose(folder).id
        assert sent(client, folder) == (id, "")
        fill(folder, **{"a.py": "changed\n"})
        id, said = sent(client, folder)
        assert said.startswith("Sent 1 file (")
        assert it.service.codes.code("ann", id).manifest == choose(folder).manifest


@pytest.mark.slow
def test_files_that_change_during_the_upload_are_sent_as_they_then_are(tmp_path: Path) -> None:
    folder = fill(tmp_path / "mine", **{"a.py": "1\n", "b.py": "2\n", "run.log": "line 1\n", "gone.tmp": ""})
    with server(tmp_path / "data") as (client, it):
        chosen = choose(folder)
        fill(folder, **{"b.py": "newer", "run.log": "line 1\nline 2\n"})
        (folder / "gone.tmp").unlink()
        id = send(client, chosen)
        assert it.service.codes.code("ann", id).manifest == choose(folder).manifest
        chosen = choose(fill(folder, **{"run.log": "line 1\nline 2\n3"}))
        fill(folder, **{"run.log": "line 1\nline 2\n345"})
        assert send(client, chosen) == chosen.id, "what was appended is left out"


@pytest.mark.slow
def test_file_that_never_stops_changing_is_named_with_the_line_that_excludes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, state = fill(tmp_path / "mine", **{"state.db": "0"}), iter(range(1, 100))
    chosen_as_is = code.choose

    def choose_then_change(at: Path) -> code.Chosen:
        chosen = chosen_as_is(at)
        fill(folder, **{"state.db": str(next(state))})
        return chosen

    monkeypatch.setattr(code, "choose", choose_then_change)
    with server(tmp_path / "data") as (client, _), pytest.raises(Conflict) as refused:
        send(client, code.choose(folder))
    assert refused.value.message == (
        "state.db keeps changing while it is sent. Wait until it is complete, or leave it out: "
        "echo '/state.db' >> .runrigignore"
    )


def test_data_folder_of_a_server_is_never_sent(tmp_path: Path) -> None:
    lab = {f"lab/{name}": "" for name in ("token", "credential.key", "runrig.db", "tasks/a/out")}
    fill(tmp_path, **lab, **{"keys/credential.key": "", "keys/a.py": "", "token": ""})
    assert paths(tmp_path) == ["keys/a.py", "keys/credential.key", "token", "train.py"]
    assert not [each for each in code_files._walk(tmp_path) if each.startswith("lab/")], "a server changes it"


@pytest.mark.slow
def test_code_of_a_workflow_is_downloaded_as_it_was_sent(tmp_path: Path) -> None:
    folder = fill(tmp_path / "mine", **{"lib/a.py": "1\n", "run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("lib")
    with server(tmp_path / "data") as (client, it):
        id, _ = sent(client, folder)
        submit(it.service, f"{one_task('w')}  code: {id}\n", "pool1", "ann")
        env = {"RUNRIG_SERVER": client.url, "RUNRIG_TOKEN": TOKEN}
        back = tmp_path / "back"
        done = runrig("code", "w-1", "-o", str(back), env=env)
        assert (done.code, done.out, done.err) == (0, "", f"Wrote 4 files to {back}\n")
        assert choose(back).manifest == choose(folder).manifest
        again = runrig("code", "-o", str(back), env=env)
        assert (again.code, again.err.splitlines()[-1]) == (
            2,
            f"Error: {back} is not an empty folder. Choose another one with -o",
        )
        submit(it.service, one_task("bare"), "pool1", "ann")
        assert runrig("code", "bare-1", "-o", str(tmp_path / "no"), env=env).err == (
            "Error: bare-1 has no code: none was sent with it\n"
        )
