"""A backup may come from anywhere: each field of each row is checked before the first row is stored."""

import gzip
import hashlib
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.store import SqlStore, plain_rows
from runrig.wiring.backup import check_backup, restore_backup, write_backup
from tests.exploring import tries
from tests.store.backups import everything, some_users
from tests.worlds.service import desk

Lines = list[Any]

pytestmark = pytest.mark.explored


@cache
def whole() -> str:
    """The lines of a backup with something in most tables."""
    with TemporaryDirectory() as folder, desk(Path(folder) / "made") as it:
        some_users(it)
        it.service.subpools.create("pool1", "a", 1, user="ann")
        for number in range(3):
            it.submit(f"low{number}", priority=Priority.LOW)
        it.later(0)
        it.submit("firm", pool="pool2", gpus=2, priority=Priority.HIGH)
        it.later(0)
        out = Path(folder) / "out"
        write_backup(Path(folder) / "made" / "runrig.db", Path(folder) / "made", out, log_files=True)
        return gzip.decompress(out.read_bytes()).decode()


def lines() -> Lines:
    return [json.loads(line) for line in whole().splitlines()]


def rows(lines: Lines) -> Iterator[tuple[str, int, list[str], list[Any]]]:
    """(table, number of the row in it, columns, the row itself) of each row."""
    for entry in lines:
        if isinstance(entry, dict):
            table, columns, number = entry.get("table", ""), entry.get("columns", []), 0
        elif isinstance(entry, list):
            number += 1
            yield table, number, columns, entry


def write(lines: Lines, file: Path) -> Path:
    """As a backup whose counts and checksum are right."""
    counts: dict[str, int] = {}
    for entry in lines[:-1]:
        if isinstance(entry, dict) and "table" in entry:
            table = entry["table"]
            counts[table] = 0
        elif isinstance(entry, list):
            counts[table] += 1
    body = "".join(f"{json.dumps(entry)}\n" for entry in lines[:-1]).encode()
    end = {**lines[-1], "rows": counts, "sha256": hashlib.sha256(body).hexdigest()}
    file.write_bytes(gzip.compress(body + f"{json.dumps(end)}\n".encode()))
    return file


def changed(table: str, column: str, value: Any, *, number: int = 1) -> Lines:
    found = lines()
    for name, at, columns, row in rows(found):
        if (name, at) == (table, number):
            row[columns.index(column)] = value
    return found


def test_columns_may_be_named_in_another_order(tmp_path: Path) -> None:
    """As in a backup of another release with the same tables."""
    turned = [
        {**entry, "columns": entry["columns"][::-1]}
        if isinstance(entry, dict) and "table" in entry
        else entry[::-1]
        if isinstance(entry, list)
        else entry
        for entry in lines()
    ]
    for name, found in (("as-it-was", lines()), ("turned", turned)):
        restore_backup(write(found, tmp_path / f"{name}.gz"), tmp_path / f"{name}.db", tmp_path / "restored")
    was, is_now = (SqlStore.look(tmp_path / f"{name}.db") for name in ("as-it-was", "turned"))
    with closing(was), closing(is_now):
        assert everything(is_now) == everything(was)


@pytest.mark.parametrize(
    ("table", "column", "value", "says"),
    [
        ("workflows", "status", "RUNING", 'row 1 (firm-1): status: "RUNING" is not a WorkflowStatus'),
        ("tasks", "status", "DONE", 'row 1 (firm-1, main, 0): status: "DONE" is not a Status'),
        ("workflows", "id", "../../etc-1", "row 1 (../../etc-1): id: '../../etc-1' does not match number 1 of 'firm'"),
        ("tasks", "name", "../x", "row 1 (firm-1, ../x, 0): name: invalid name '../x'"),
        ("groups", "name", "a/b", "row 1 (firm-1, a/b): name: invalid name 'a/b'"),
        ("gangs", "id", "firm-1/../x", "row 1 (firm-1/../x): id: 'firm-1/../x' does not match a group of 'firm-1'"),
        ("nodes", "name", "..", "row 1 (..): name: invalid name '..'"),
        ("workflows", "pool", "pool9", "pool 'pool9': no such row in pools"),
        ("workflows", "number", "1", "number: '1' is not int"),
        ("workflows", "submit_time", "soon", "submit_time: 'soon' is not a time"),
        ("workflows", "submit_time", "2026-13-31 12:00:00.000000", "submit_time: month must be in 1..12"),
        ("workflows", "submit_time", None, "submit_time: None is not str"),
        ("workflows", "end_time", "2026-01-31 12:00:00.000000", "end_time: a workflow has one if it has ended"),
        ("workflows", "uuid", "firm", "uuid: 'firm' is not a UUID"),
        ("workflows", "labels", {"a": "\0"}, "is not text that can be stored"),
        ("tasks", "gpus", [0.5], "gpus: [0.5] is not a tuple"),
        ("pools", "name", "Pool", "name: pool name 'Pool' must be lower-case letters"),
        ("pools", "weight", 0, "weight: 0 is out of range"),
        ("events", "kind", "Explode", "'Explode' is not an action that this version knows"),
        ("events", "workflow", "low0-1", "workflow, pool: do not match the action"),
        ("events", "revision", 10**6, "revision: 1000000 is not from 1 to"),
        ("meta", "revision", 10**6, "revision: 1000000 differs from"),
        ("tokens", "user", "eve", "user 'eve': no such row in users"),
        ("specifications", "spec", {}, "spec: {} is not a WorkflowSpec"),
    ],
)
def test_invalid_field_is_named_with_file_table_and_row(
    tmp_path: Path, table: str, column: str, value: Any, says: str
) -> None:
    file = write(changed(table, column, value), tmp_path / "forged")
    with pytest.raises(InvalidInput) as caught:
        restore_backup(file, tmp_path / "new" / "runrig.db", tmp_path / "restored")
    assert str(caught.value).startswith(f"{file} is damaged (table {table}, row 1 (")
    assert says in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_duplicate_row_missing_table_and_duplicate_table_are_refused(tmp_path: Path) -> None:
    whole = lines()
    at = next(index for index, entry in enumerate(whole) if isinstance(entry, dict) and entry.get("table") == "flavors")
    harmed = {
        "duplicate or in the wrong place": [*whole[: at + 2], whole[at + 1], *whole[at + 2 :]],
        "in the wrong place": whole[:at] + whole[at + 2 :],
        "is in the wrong place": whole[: at + 2] + whole[at:],
        "unexpected line": [*whole[:at], 5, *whole[at:]],
    }
    for says, found in harmed.items():
        with pytest.raises(InvalidInput) as caught:
            check_backup(write(found, tmp_path / "forged"))
        assert says in str(caught.value)


@pytest.mark.parametrize("line", [b"[" * 200_000, bytes(50_000_000), b"[" + b"[]," * 2_000_000])
def test_line_that_no_backup_has_is_refused_before_it_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(plain_rows, "LONGEST_LINE", 8_000_000)
    (tmp_path / "forged").write_bytes(gzip.compress(line, 1))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="is damaged"):
            check_backup(tmp_path / "forged")
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "..", "a/b", "/etc/passwd", "\0", "\ud800", "9999-12-31 23:59:59.999999", "pool1", "low0-1"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@settings(max_examples=tries(60), deadline=None)
@given(st.data())
def test_any_changed_field_is_refused_or_gives_a_working_server(data: st.DataObject) -> None:
    found = lines()
    every = list(rows(found))
    _, _, columns, row = every[data.draw(st.integers(0, len(every) - 1))]
    index = data.draw(st.integers(0, len(columns) - 1))
    row[index] = data.draw(VALUES)
    with TemporaryDirectory() as folder:
        file, database = write(found, Path(folder) / "forged"), Path(folder) / "new" / "runrig.db"
        try:
            restore_backup(file, database, Path(folder) / "restored")
        except InvalidInput:
            return
        store = SqlStore.open(database)
        store.load()
        store.close()
