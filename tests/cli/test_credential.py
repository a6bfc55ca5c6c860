"""`runrig credential`, the keys that seal them, and what a backup leaves out, against a real server."""

import stat
from pathlib import Path

import pytest

from runrig.domain.credentials import read_keys
from tests.worlds.command_line import runrig, up, written

pytestmark = pytest.mark.slow

CANARY = "s3cr3t-canary"


def test_credentials_are_set_from_files_and_stdin_and_their_key_is_changed(tmp_path: Path) -> None:
    key = tmp_path / "data" / "credential.key"
    with up(tmp_path / "data", "--backend", "simulated") as it:
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert it.runrig("credential", "list").out == "no credentials\n"
        file = written(tmp_path, f"{CANARY}\n", "key.txt")
        done = it.runrig("credential", "set", "wandb", f"api_key={file}", "other=-", stdin="two\nlines\n")
        assert (done.code, done.out) == (0, "credential wandb is set: api_key, other\n")
        bucket = f"access_key_id: me\naccess_key: {CANARY}\nendpoint: s3://bucket/\nregion: 1\n"
        done = it.runrig("credential", "set", "bucket", "--type", "data", "-f", "-", stdin=bucket)
        assert (done.code, done.out) == (0, "credential bucket is set: access_key, access_key_id, endpoint, region\n")
        shown = it.json("credential", "list")["credentials"]
        assert [(each["name"], each["type"], each["profile"]) for each in shown] == [
            ("bucket", "DATA", "s3://bucket"),
            ("wandb", "GENERIC", ""),
        ]
        assert CANARY not in it.runrig("credential", "list").out
        before = read_keys(key.read_text())
        done = it.runrig("admin", "credential-key", str(key))
        assert (done.code, done.out.partition(";")[0]) == (0, f"{key} has 2 keys")
        assert it.runrig("admin", "reseal-credentials").out == "2 credentials are encrypted with the newest key\n"
        assert it.runrig("admin", "credential-key", str(key), "--drop-old").out == f"{key} has 1 key\n"
        assert (len(read_keys(key.read_text())), read_keys(key.read_text()) == before) == (1, False)
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert it.runrig("admin", "reseal-credentials").out == "2 credentials are encrypted with the newest key\n"
        assert it.runrig("credential", "delete", "bucket", "--yes").out == "credential bucket is deleted\n"
        assert it.runrig("credential", "delete", "bucket", "--yes").code == 2


def test_invalid_value_is_refused_without_quoting_it(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--backend", "simulated") as it:
        for args, stdin, said in (
            (("wandb",), "", "no value given. Use KEY=FILE or -f FILE."),
            (("wandb", CANARY), "", "Use for example api_key=key.txt"),
            (("wandb", f"api_key={tmp_path / 'none'}"), "", "no such file"),
            (("wandb", "-f", "-"), CANARY, "the file <stdin> is not a list of values. Use lines KEY: VALUE."),
            (("wandb", "-f", "-"), f"a: [{CANARY}]", "the file <stdin> is not a list of values. Use lines KEY: VALUE."),
            (("wandb", "-f", "-"), f"a: '{CANARY}", "the file <stdin> is not a list of values. Use lines KEY: VALUE."),
            (
                ("wandb", "-f", "-"),
                f"a: {CANARY}\nb: x\na: y",
                "the file <stdin> has the key 'a' twice. Keep one of them.",
            ),
            (("wandb", "a=-", "a=none"), CANARY, "the key 'a' has two values. Keep one of them."),
            (("wandb", "--type", "DATA", "access_key=-"), CANARY, "a credential of type DATA needs"),
        ):
            done = it.runrig("credential", "set", *args, stdin=stdin)
            assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
            assert said in done.err
            assert CANARY not in done.err or CANARY in args
        assert it.runrig("credential", "list").out == "no credentials\n"


def test_a_backup_has_no_value_and_restore_says_which_are_missing(tmp_path: Path) -> None:
    backup = tmp_path / "b.backup"
    with up(tmp_path / "data", "--backend", "simulated") as it:
        it.runrig("credential", "set", "wandb", "api_key=-", stdin=CANARY)
        assert it.runrig("backup", "--data", str(it.data), "-o", str(backup)).code == 0
    missing = "credentials without values, which their users must set again: "
    for args in (("restore", str(backup), "--check"), ("restore", str(backup), "--data", str(tmp_path / "new"))):
        first, second = runrig(*args).out.splitlines()
        assert "revision" in first
        assert (second.startswith(missing), second.endswith("/wandb")) == (True, True)
    assert not (tmp_path / "new" / "credential.key").exists()
    with up(tmp_path / "new", "--backend", "simulated") as it:
        (shown,) = it.json("credential", "list")["credentials"]
        assert (shown["name"], shown["lost"]) == ("wandb", True)
        assert "set them again: wandb" in it.runrig("credential", "list").out
        it.runrig("credential", "set", "wandb", "api_key=-", stdin=CANARY)
        assert it.json("credential", "list")["credentials"][0]["lost"] is False


def test_key_file_is_created_once_and_never_over_another_file(tmp_path: Path) -> None:
    file = tmp_path / "k"
    assert runrig("admin", "credential-key", str(file)).out == f"{file} has 1 key\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = Path(written(tmp_path, "important\n", "notes"))
    done = runrig("admin", "credential-key", str(other))
    assert (done.code, other.read_text()) == (2, "important\n")
    assert "is not a key file: line 1 is not a key" in done.err
    assert runrig("admin", "credential-key", str(tmp_path / "none"), "--drop-old").code == 2
    assert not (tmp_path / "none").exists()
