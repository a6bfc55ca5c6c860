"""The files that the checker reads, and its messages about files that it cannot read."""

import gzip
import json
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

import runrig.verify
from runrig.domain.gangs import Priority
from runrig.store import schema
from runrig.verify.chain import Unreadable
from runrig.verify.court import Commit
from runrig.verify.reading import NEWEST, commits
from runrig.verify.verify import Checker, Numbers, check, known_laws, main
from runrig.wiring.backup import write_backup
from tests.verify.logs import pool
from tests.worlds.service import desk

FOLDER = Path(runrig.verify.__file__).parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server in which LOW work borrowed, and was preempted."""
    folder = tmp_path_factory.mktemp("server")
    with desk(folder) as server:
        server.submit("low", "pool1", Priority.LOW, gpus=4)
        server.later(5)
        server.submit("firm", "pool2", Priority.NORMAL, gpus=2)
        for _ in range(3):
            server.later(60)
    return folder


def judged(path: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    return check(str(path), since=0, laws=(), head="", as_json=False, say=said.append), said


def test_database_of_a_server_is_lawful_and_counted(server: Path) -> None:
    code, said = judged(server / "runrig.db")
    assert code == 0
    assert said[-1].startswith("8 decisions of 2.1 minutes, 0 unlawful, 0 not proven; "), said


@pytest.mark.parametrize(
    ("seconds", "shown"), [(59, "59.0 seconds"), (3599, "60.0 minutes"), (5400, "1.5 hours"), (9_676_800, "112.0 days")]
)
def test_span_of_a_log_has_a_fitting_unit(seconds: float, shown: str) -> None:
    assert f" of {shown}, " in Numbers(first=1.0, last=1.0 + seconds).text(0)


def test_a_backup_gives_the_same_commits_as_its_database(server: Path, tmp_path: Path) -> None:
    write_backup(server / "runrig.db", server, tmp_path / "a.backup", log_files=False)
    assert list(commits(str(tmp_path / "a.backup"))) == list(commits(str(server / "runrig.db")))


def test_unlawful_decision_in_a_database_is_named_and_the_file_is_not_changed(server: Path, tmp_path: Path) -> None:
    copy = shutil.copy(server / "runrig.db", tmp_path / "copy.db")
    with closing(sqlite3.connect(copy)) as database:
        database.execute("UPDATE events SET action = replace(action, 'RECLAIM', 'PRIORITY') WHERE kind = 'Preempt'")
        database.commit()
    before = Path(copy).read_bytes()
    code, said = judged(Path(copy))
    assert (code, len(said)) == (1, 3)
    assert said[0].endswith(
        "R1: low-1/main-group: firm-1/main-group of pool pool2 preempts it in pool pool1 by PRIORITY"
    )
    assert Path(copy).read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.db"]


def test_decisions_before_the_given_revision_are_not_checked(server: Path) -> None:
    said: list[str] = []
    check(str(server / "runrig.db"), since=10_000, laws=(), head="", as_json=True, say=said.append)
    found = json.loads(said[-1])
    assert found.pop("chain").keys() == {"from", "broken", "head"}
    assert found == {"decisions": 8, "unlawful": 0, "not_proven": 8, "rests": 0, "snapshot": None}


def test_decisions_before_a_gap_are_read_but_not_checked(server: Path) -> None:
    whole = [each for each in commits(str(server / "runrig.db")) if isinstance(each, Commit)]
    assert not any(each.gap for each in whole)
    at = next(place for place, each in enumerate(whole) if any(kind == "Preempt" for kind, _ in each.events))
    wrong = whole[at]._replace(events=[each for each in whole[at].events if each[0] != "Nominate"])
    checker = Checker()
    assert {each.law for each in checker.read([*whole[:at], wrong, *whole[at + 1 :]])} >= {"R4"}
    after = whole[at + 1]._replace(gap=True)
    checker = Checker()
    assert checker.read([*whole[:at], wrong, after, *whole[at + 2 :]]) == []
    assert 0 < checker.numbers.not_proven < checker.numbers.decisions


def test_newest_tables_are_known() -> None:
    assert NEWEST == schema.HEAD


def test_rule_that_is_not_checked_is_refused() -> None:
    assert known_laws("p4, R3") == ["P4", "R3"]
    with pytest.raises(Unreadable, match=r"^Z9 cannot be checked. Rules: A1, A3, "):
        known_laws("P4,Z9")


def unreadable(path: Path, content: bytes | None) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Unreadable) as caught:
        Checker().read(commits(str(path)))
    return str(caught.value).replace(str(path), "FILE")


HEADER = b'{"runrig_events": 2}\n'
BACKUP = f'{{"runrig_backup": 1, "tables": "{NEWEST}"}}\n'.encode()
LINE = json.dumps([1, 0, 1_000_000, "ann", pool("a", 2)[0], "", pool("a", 2)[1]]).encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "FILE does not exist. Name a SQLite database, a backup or an export"),
        (b"", "FILE is not a SQLite database, backup or export of runrig"),
        (b"hello", "FILE is not a SQLite database, backup or export of runrig"),
        (b"{}\n", "FILE is not an export of runrig's event log"),
        (b'{"runrig_events": 3}\n', "FILE has format 3, but this release supports up to 2"),
        (HEADER + LINE, "FILE is cut off: it ends after 1 event"),
        (HEADER + LINE[:40], "FILE is damaged, or from another release: JSONDecodeError "),
        (
            HEADER + LINE + LINE.replace(b"[1, 0", b"[2 0") + b'{"events": 2}\n',
            "FILE is damaged, or from another release: JSONDecodeError Expecting ',' delimiter at '0, 1000000, ",
        ),
        (
            HEADER + LINE.replace(b"PutPool", b"PutMoon") + b'{"events": 1}\n',
            "FILE: revision 1 has an event of unknown kind 'PutMoon'.",
        ),
        (
            HEADER + LINE.replace(b'"pool"', b'"bowl"') + b'{"events": 1}\n',
            "revision 1 is damaged, or from another release: ",
        ),
        (
            gzip.compress(b'{"runrig_backup": 1, "tables": "9999"}\n'),
            "FILE has schema 9999, but this release supports up",
        ),
        (gzip.compress(HEADER), "FILE is not a backup of runrig"),
        (gzip.compress(HEADER)[:12], "FILE cannot be read: "),
        (gzip.compress(b""), "FILE is not a backup of runrig"),
        (gzip.compress(b'{"runrig_backup": 1}\n'), "FILE is damaged, or from another release: KeyError "),
        (gzip.compress(BACKUP + b"[" * 200_000), "FILE is damaged, or from another release: RecursionError "),
        (gzip.compress(BACKUP + b"[" * 2_000_001), "FILE is damaged: a line is too long"),
        (
            gzip.compress(
                BACKUP
                + b'{"table": "snapshots", "columns": ["revision", "time", "content"]}\n[7, "", "\\\\x'
                + zlib.compress(bytes(50_000_000)).hex().encode()
                + b'"]\n{"sha256": ""}\n'
            ),
            "FILE is damaged: a snapshot is too large or incomplete",
        ),
        (b"SQLite format 3\0" + b"x" * 4096, "FILE cannot be read: file is not a database"),
    ],
)
def test_unreadable_input_gets_one_sentence(content: bytes | None, message: str, tmp_path: Path) -> None:
    found = unreadable(tmp_path / "file", content)
    assert found.startswith(message)
    assert "\n" not in found


def test_names_with_control_characters_are_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where runrig is not installed; its command line quotes them too."""
    file = tmp_path / "events.jsonl"
    gang = b'[2,0,2000000,"engine","Admit","",{"gang":"\\u001b[31m\\ud800/g","placement":[]}]\n'
    file.write_bytes(HEADER + LINE + gang + b'{"events":2}\n')
    assert main([str(file)]) == 1
    assert capsys.readouterr().out.startswith(r"revision 2, W1: \x1b[31m\ud800/g: Admit of a gang")
    file.write_bytes(HEADER + LINE + LINE.replace(b"[1, 0", b"[2, 0").replace(b"ann", b"\x1b[2J"))
    assert main([str(file)]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_databases_of_newer_releases_and_other_programs_are_not_read(server: Path, tmp_path: Path) -> None:
    newer = shutil.copy(server / "runrig.db", tmp_path / "newer.db")
    with closing(sqlite3.connect(newer)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    assert unreadable(Path(newer), None).startswith("FILE has schema 9999, but this release supports up to")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE things (name TEXT)")
    assert unreadable(tmp_path / "other.db", None) == "FILE is not a database of runrig"
    assert unreadable(tmp_path, None) == "FILE is a folder. Name a SQLite database, a backup or an export"
