"""Credentials as they are kept: sealed, bound to whose they are, under keys that can be changed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.credentials import CredentialKind, read_keys, written_keys
from runrig.domain.errors import Conflict, ServerFault
from runrig.ports.access import AccessChange
from runrig.service.access.access import Access
from tests.service.access.people import People, people

VALUES = {"api_key": "s3cr3t-canary", "other": "Grüße\n"}
ONE, TWO, THREE = (bytes([number]) * 32 for number in (1, 2, 3))


@contextmanager
def keeping(url: str, folder: Path) -> Iterator[People]:
    """*people* with a key file, *folder*/key."""
    keys(folder, ONE)
    with people(url) as it:
        it.access = Access(it.store.access, now=lambda: it.time[0], credential_key=folder / "key")
        yield it


def keys(folder: Path, *found: bytes) -> None:
    (folder / "key").write_text(written_keys(found))
    (folder / "key").chmod(0o600)


def put(it: People, user: str = "bob", name: str = "wandb") -> None:
    it.access.credentials.set(user, name, CredentialKind.GENERIC, VALUES, actor=user)


def tampered(it: People, **changes: Any) -> None:
    """Somebody who can write the database changes the row of bob's credential."""
    (row,) = it.store.access.load().credentials
    it.store.access.write(AccessChange(credentials=[replace(row, **changes)]))
    it.access = Access(it.store.access, now=lambda: it.time[0], credential_key=it.access.credentials._keys)


def test_stored_credential_can_be_opened_after_a_restart(any_store: str, tmp_path: Path) -> None:
    with keeping(any_store, tmp_path) as it:
        put(it)
        assert it.access.credentials.opened("bob", "wandb") == VALUES
        later = Access(it.store.access, credential_key=tmp_path / "key")
        assert later.credentials.opened("bob", "wandb") == VALUES
        (row,) = it.store.access.load().credentials
        assert (row.keys, "canary" in row.sealed, "canary" in repr(row)) == (("api_key", "other"), False, False)
        assert it.trail() == [("bob", "credential set", "bob", "wandb")]


def test_equal_values_are_sealed_differently(any_store: str, tmp_path: Path) -> None:
    with keeping(any_store, tmp_path) as it:
        put(it, name="a")
        put(it, name="b")
        put(it, "eve", "a")
        assert len({row.sealed for row in it.store.access.load().credentials}) == 3


@pytest.mark.parametrize("changes", [{"user": "eve"}, {"name": "other"}, {"kind": CredentialKind.DATA}])
def test_sealed_value_moved_to_another_row_does_not_open(tmp_path: Path, changes: dict[str, Any]) -> None:
    with keeping(str(tmp_path / "data"), tmp_path) as it:
        put(it)
        (row,) = it.store.access.load().credentials
        moved = replace(row, **changes)
        it.store.access.write(AccessChange(dropped=[row], credentials=[moved]))
        later = Access(it.store.access, credential_key=tmp_path / "key")
        with pytest.raises(Conflict, match="cannot be decrypted"):
            later.credentials.opened(moved.user, moved.name)


@pytest.mark.parametrize("place", [0, 1, 5, 20, -1, -20])
def test_tampered_value_does_not_open(tmp_path: Path, place: int) -> None:
    with keeping(str(tmp_path / "data"), tmp_path) as it:
        put(it)
        (row,) = it.store.access.load().credentials
        letters = list(row.sealed)
        letters[place] = "A" if letters[place] != "A" else "B"
        tampered(it, sealed="".join(letters))
        with pytest.raises(Conflict, match="cannot be decrypted"):
            it.access.credentials.opened("bob", "wandb")


def test_keys_are_rotated_in_three_steps_without_loss(any_store: str, tmp_path: Path) -> None:
    with keeping(any_store, tmp_path) as it:
        put(it)
        keys(tmp_path, TWO, ONE)
        assert it.access.credentials.opened("bob", "wandb") == VALUES
        put(it, "eve")
        assert it.access.credentials.reseal(actor="root") == (2, 0)
        keys(tmp_path, TWO)
        assert [it.access.credentials.opened(user, "wandb") for user in ("bob", "eve")] == [VALUES, VALUES]
        assert it.trail()[-1] == ("root", "credentials resealed", "root", "2")
        keys(tmp_path, THREE)
        with pytest.raises(Conflict, match="`runrig credential set wandb`"):
            it.access.credentials.opened("bob", "wandb")
        assert it.access.credentials.reseal(actor="root") == (0, 2)
        keys(tmp_path, TWO)
        assert it.access.credentials.opened("bob", "wandb") == VALUES


def test_without_a_valid_key_file_no_credential_is_set_or_opened(tmp_path: Path) -> None:
    with keeping(str(tmp_path / "data"), tmp_path) as it:
        put(it)
        file = tmp_path / "key"
        for mode in (0o644, 0o604, 0o660, 0o666):
            file.chmod(mode)
            with pytest.raises(ServerFault, match="that only its owner can read"):
                put(it)
        for text in ("", "\n\n", "not-one-of-them\n", written_keys((ONE,)) + "short\n", "AAAA\n", "\u00e9\n"):
            file.write_text(text)
            file.chmod(0o600)
            with pytest.raises(ServerFault, match="cannot be used") as told:
                it.access.credentials.opened("bob", "wandb")
            assert text.strip() == "" or text.strip() not in str(told.value)
        file.unlink()
        with pytest.raises(ServerFault, match="Restore it, or create one"):
            put(it)
        os.mkfifo(file)
        with pytest.raises(ServerFault, match="Not a regular file"):
            put(it)
        nowhere = Access(it.store.access)
        with pytest.raises(Conflict, match="credentials are not enabled"):
            nowhere.credentials.set("bob", "x", CredentialKind.GENERIC, VALUES, actor="bob")
        assert [each.name for each in nowhere.credentials.of("bob")] == ["wandb"]


def test_only_registry_credentials_pull_images_and_the_latest_comes_last(any_store: str, tmp_path: Path) -> None:
    with keeping(any_store, tmp_path) as it:
        put(it)
        for name, registry in (("b", "https://nvcr.io/"), ("a", None), ("c", "ghcr.io"), ("b", "nvcr.io/team/")):
            values = {"auth": "s3cr3t-canary"} | ({} if registry is None else {"registry": registry})
            it.access.credentials.set("bob", name, CredentialKind.REGISTRY, values, actor="bob")
            it.time[0] += 1
        assert list(it.access.credentials.pulls("bob").items()) == [("a", ""), ("c", "ghcr.io"), ("b", "nvcr.io/team")]
        assert it.access.credentials.pulls("ann") == {}


def test_key_file_is_read_back_as_written() -> None:
    assert read_keys(written_keys((TWO, ONE))) == (TWO, ONE)
