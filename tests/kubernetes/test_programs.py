"""Where programs are looked for, and what is said of one that is not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import programs


def executable(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    return place


def test_given_program_is_preferred_to_a_built_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(programs.CACHE, str(tmp_path / "cache"))
    monkeypatch.delenv(programs.GIVEN, raising=False)
    assert programs.find("etcd") is None
    built = executable(programs.BUILT["etcd"].place)
    assert programs.find("etcd") == built
    monkeypatch.setenv(programs.GIVEN, str(tmp_path / "given"))
    assert programs.find("etcd") == built
    given = executable(tmp_path / "given" / "etcd")
    assert programs.find("etcd") == given


def test_kai_is_installed_with_its_programs_and_kinds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(programs.GIVEN, str(tmp_path))
    for name in programs.KAI:
        executable(tmp_path / name)
    assert not programs.kai()
    executable(tmp_path / programs.KAI_KINDS / "queues.yaml")
    assert programs.kai()


def test_edited_pin_causes_a_new_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = programs.BUILT["etcd"].place.parent.name
    (tmp_path / "etcd").mkdir()
    for name in ("go.mod", "go.sum"):
        (tmp_path / "etcd" / name).write_bytes((programs.TOOLS / "etcd" / name).read_bytes())
    monkeypatch.setattr(programs, "TOOLS", tmp_path)
    assert programs.BUILT["etcd"].place.parent.name == before
    with (tmp_path / "etcd" / "go.sum").open("a") as file:
        file.write("more\n")
    assert programs.BUILT["etcd"].place.parent.name != before


def test_without_go_it_says_what_to_do(tmp_path: Path) -> None:
    environment = os.environ | {programs.CACHE: str(tmp_path), programs.GIVEN: "", "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "e2e.programs"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "no Go to build etcd with: run `make e2e`, which brings one, or name a folder that has the program with RUNRIG_E2E_BIN\n",
    )


def test_messages_of_a_failed_go_build_are_shown(tmp_path: Path) -> None:
    go = executable(tmp_path / "go")
    go.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    environment = os.environ | {programs.CACHE: str(tmp_path / "c"), programs.GIVEN: "", "PATH": f"{tmp_path}:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "e2e.programs"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "Go cannot build etcd:\nno such module\n\n")
    assert list((tmp_path / "c").rglob("etcd")) == []
