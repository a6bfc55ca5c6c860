"""Code that was sent with workflows: contents by their SHA-256, once per user."""

import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, func, insert, select, update

from runrig.domain.code import LARGEST, LARGEST_MANIFEST, LARGEST_OF_USER, MIB, Manifest, read_manifest, sha256
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.ports.code import StoredCode
from runrig.store import schema
from runrig.store.dialect import put_rows
from runrig.store.transactions import Tables, in_parts

RENEWED_S = 3600.0
"""Code that was sent within this time is not renewed, so that submissions write nothing."""

_CODE = schema.codes.c
_PIECE = schema.code_pieces.c
_SPEC = schema.specifications.c
_WORKFLOW = schema.workflows.c

_USED = (
    exists()
    .where(_SPEC.code == _CODE.id, _WORKFLOW.spec_hash == _SPEC.hash, _WORKFLOW.submitted_by == _CODE.user)
    .correlate(schema.codes)
)


class SqlCode(Tables):
    """`ports.code.CodeStore`."""

    def missing(self, user: str, manifest: Manifest) -> tuple[str, ...]:
        with self._transactions.reading() as connection:
            there = _there(connection, user, manifest.contents)
        return tuple(hash for hash in manifest.contents if hash not in there)

    def put(self, user: str, manifest: Manifest, contents: Mapping[str, Sequence[bytes]], now: float) -> None:
        id, text = manifest.id, manifest.written()
        contents = {**contents, id: pieces(zlib.compress(text))}
        with self._transactions.writing() as connection:
            there = _there(connection, user, [*manifest.contents, id])
            if not there.issuperset(manifest.contents.keys() - contents.keys()):
                raise Conflict("some contents of the code are missing. Send the code again")
            _insert(connection, user, {hash: data for hash, data in contents.items() if hash not in there})
            put_rows(connection, schema.codes, [(user, id, now)])

    def renew(self, user: str, id: str, now: float) -> bool:
        whose = and_(_CODE.user == user, _CODE.id == id)
        sent_at = self._value(select(_CODE.sent_at).where(whose))
        if sent_at is None or now - sent_at < RENEWED_S:
            return sent_at is not None
        with self._transactions.writing() as connection:
            return connection.execute(update(schema.codes).where(whose).values(sent_at=now)).rowcount > 0

    def adopt(self, user: str, id: str, giver: str, now: float) -> None:
        if self.renew(user, id, now):
            return
        manifest = self.code(giver, id).manifest
        lacking = self.missing(user, manifest)
        with self._transactions.reading() as connection:
            contents = {hash: _pieces_of(connection, giver, hash) for hash in lacking}
        self.put(user, manifest, contents, now)

    def code(self, user: str, id: str) -> StoredCode:
        with self._transactions.reading() as connection:
            whose = and_(_CODE.user == user, _CODE.id == id)
            if connection.execute(select(_CODE.id).where(whose)).first() is None:
                raise NotFound(f"unknown code {id:.80}")
            manifest = _manifest(connection, user, id)
        return StoredCode(manifest, lambda hash: self._read(user, hash, manifest.contents[hash]))

    def prune(self, before: float) -> Collection[str]:
        unused = select(_CODE.user, _CODE.id).where(_CODE.sent_at < before, ~_USED)
        found = self._rows(unused.order_by(_CODE.sent_at, _CODE.user, _CODE.id).limit(1))
        if not found:
            return ()
        ((user, id),) = found
        with self._transactions.writing() as connection:
            whose = and_(_CODE.user == user, _CODE.id == id)
            if not connection.execute(delete(schema.codes).where(whose, _CODE.sent_at < before, ~_USED)).rowcount:
                return ()
            gone = _only_in(connection, user, id)
            for some in in_parts(sorted(gone)):
                connection.execute(delete(schema.code_pieces).where(_PIECE.user == user, _PIECE.hash.in_(some)))
        return (id,)

    def _read(self, user: str, hash: str, size: int) -> bytes:
        with self._transactions.reading() as connection:
            return _content(connection, user, hash, min(size, LARGEST))


def pieces(data: bytes) -> list[bytes]:
    """Returns *data*, which is not empty, in pieces of at most 1 MiB."""
    return [data[start : start + MIB] for start in range(0, len(data), MIB)]


def _there(connection: Connection, user: str, hashes: Collection[str]) -> set[str]:
    """Returns those of *hashes* whose contents *user* has."""
    found: set[str] = set()
    for some in in_parts(list(hashes)):
        which = and_(_PIECE.user == user, _PIECE.hash.in_(some), _PIECE.place == 0)
        found.update(connection.execute(select(_PIECE.hash).where(which)).scalars())
    return found


def _insert(connection: Connection, user: str, contents: Mapping[str, Sequence[bytes]]) -> None:
    """Raises Conflict if *user* would have too much."""
    kept = connection.execute(select(func.sum(func.length(_PIECE.data))).where(_PIECE.user == user)).scalar_one() or 0
    new = sum(len(piece) for data in contents.values() for piece in data)
    if kept + new > LARGEST_OF_USER:
        raise Conflict(
            f"the new files have {new:,} bytes, but {user} has only {max(0, LARGEST_OF_USER - kept):,} of "
            f"{LARGEST_OF_USER:,} bytes left for code. Send less, or wait until old workflows expire"
        )
    rows: list[dict[str, Any]] = [
        {"user": user, "hash": hash, "place": place, "data": piece}
        for hash, data in contents.items()
        for place, piece in enumerate(data)
    ]
    for some in in_parts(rows):
        connection.execute(insert(schema.code_pieces), some)


def _pieces_of(connection: Connection, user: str, hash: str) -> list[bytes]:
    which = and_(_PIECE.user == user, _PIECE.hash == hash)
    return list(connection.execute(select(_PIECE.data).where(which).order_by(_PIECE.place)).scalars())


def _content(connection: Connection, user: str, hash: str, size: int) -> bytes:
    """Raises NotFound unless it is what *hash* says, with at most *size* bytes: damaged code fails only what uses it."""
    unpacker, data = zlib.decompressobj(), b""
    with suppress(zlib.error):
        data = unpacker.decompress(b"".join(_pieces_of(connection, user, hash)), size + 1)
    if sha256(data) != hash:
        raise NotFound(
            f"stored code is damaged: {hash} of {user}. Send it again after the workflows that use it are deleted"
        )
    return data


def _manifest(connection: Connection, user: str, id: str) -> Manifest:
    try:
        return read_manifest(_content(connection, user, id, LARGEST_MANIFEST))
    except InvalidInput as error:
        raise NotFound(f"stored code {id} of {user} is damaged ({error.message})") from None


def _only_in(connection: Connection, user: str, id: str) -> set[str]:
    """Returns the contents of the code *id*, no longer in `codes`, that no other code of *user* has.

    Damaged code does not stop the others: the contents of *id* then stay, and those of others no longer count, since they
    cannot be used. O(files of the user's codes) at worst; the newest are looked at first, since they have most in common.
    """
    gone = {id}
    with suppress(NotFound):
        gone.update(_manifest(connection, user, id).contents)
    others = select(_CODE.id).where(_CODE.user == user).order_by(_CODE.sent_at.desc(), _CODE.id)
    for other in connection.execute(others).scalars().all():
        gone.discard(other)
        if not gone:
            break
        with suppress(NotFound):
            gone.difference_update(_manifest(connection, user, other).contents)
    return gone
