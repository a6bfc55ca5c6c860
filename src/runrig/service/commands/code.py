"""Code that is sent along with workflows: receiving it, checking that a submission may use it, and handing it out."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import IO

from runrig.domain.code import LARGEST, LARGEST_MANIFEST, LARGEST_PACKED, MIB, MOST_FILES, Manifest, read_manifest
from runrig.domain.code_archive import archive
from runrig.domain.errors import InvalidInput, NotFound
from runrig.ports.backend import Backend
from runrig.ports.clock import Clock
from runrig.ports.code import CodeStore, StoredCode
from runrig.service.commands.packed_code import PackedCode
from runrig.service.mirror.turns import Turns

MOST_AT_ONCE = 16
"""Codes being received or waiting, each in its own thread; more are refused. The same for pods that fetch code."""
MOST_REMEMBERED = 10_000
"""Codes whose size is remembered."""
_LARGEST_LIST = 100 * MOST_FILES
_NO_CODE = "unknown code {id:.80}: you have not sent it, or it has expired. Send it again with `runrig run`"


class Codes:
    def __init__(self, store: CodeStore, clock: Clock, backend: Backend) -> None:
        self._store = store
        self._clock = clock
        self._backend = backend
        self._turns = Turns("codes", at_once=2, of_one_user=4, of_all=MOST_AT_ONCE)
        self._fetches = Turns("fetches of code", at_once=4, of_one_user=MOST_AT_ONCE, of_all=MOST_AT_ONCE)
        self._fits: dict[tuple[str, str], bool] = {}
        self._packed = PackedCode(self.code)

    def renew(self, user: str, id: str) -> None:
        """Protects the code from deletion for a day more. Raises NotFound unless *user* has sent it."""
        if not self._store.renew(user, id, self._clock.now()):
            raise NotFound(_NO_CODE.format(id=id))

    def check(self, user: str, id: str | None) -> None:
        """Checks the code that a submission names, if any, and renews it.

        Raises InvalidInput if *user* has not sent it, or the backend cannot pass it to tasks. O(the code) for a backend with a
        limit, once.
        """
        if id is None:
            return
        try:
            self.renew(user, id)
        except NotFound as error:
            raise InvalidInput.one(error.message, "workflow.code") from None
        most = self._backend.largest_code
        if most is None or self._known_to_fit(user, id, most):
            return
        raise InvalidInput.one(
            f"the code is too large for the {self._backend.name} backend, which can pass at most {most // 1024:,} KiB of compressed "
            "code to a task. Leave files out with .runrigignore, or use --code none and an image that has the code. An admin can "
            "allow more with backend.code_url",
            "workflow.code",
        )

    def _known_to_fit(self, user: str, id: str, most: int) -> bool:
        if (user, id) not in self._fits:
            if len(self._fits) > MOST_REMEMBERED:
                self._fits.clear()
            self._fits[user, id] = _fits(self._store.code(user, id), most)
        return self._fits[user, id]

    def receive(self, user: str, body: IO[bytes]) -> tuple[str, tuple[str, ...]]:
        """Returns the id of the sent code, and the SHA-256 of contents that *user* has yet to send. Stores it if there are none.

        *body*: a manifest; after its line, possibly a line with a list of SHA-256 and their contents in that order. All of
        it may be compressed with gzip. Unpacks one per user at a time, to at most `LARGEST` bytes, and needs as much
        memory as *body*. Raises InvalidInput, Conflict as `CodeStore.put`, and Unavailable if too many wait.
        """
        with self._turns.turn(user):
            manifest, contents = _unpacked(body)
            missing = tuple(each for each in self._store.missing(user, manifest) if each not in contents)
            if not missing:
                self._store.put(user, manifest, contents, self._clock.now())
            return manifest.id, missing

    def code(self, user: str, id: str) -> StoredCode:
        """Returns the manifest and contents of code that *user* sent. Raises NotFound, also for the code of others."""
        return self._store.code(user, id)

    def fetched(self, token: str) -> tuple[str, Iterator[bytes]]:
        """Returns the owner of the pod with *token*, and the archive of its code.

        Raises NotLoggedIn for any other token; NotFound, OSError, Unavailable.
        """
        with self._fetches.turn(""):
            user, id = self._backend.code_for(token)
            return user, self._packed.pieces(user, id)

    def adopt(self, user: str, giver: str, id: str | None) -> None:
        """Gives *user*, who repeats a workflow of *giver*, its code, if any. Raises Conflict if *user* has no room for it."""
        if id is not None and user != giver:
            self._store.adopt(user, id, giver, self._clock.now())


def _fits(code: StoredCode, most: int) -> bool:
    if sum(file.size for file in code.manifest.files) > LARGEST_PACKED:  # Packing this much would delay other users.
        return False
    size = 0
    for piece in archive(code.manifest, code.read):
        size += len(piece)
        if size > most:
            return False
    return True


# ---------------------------------------------------------------- receiving


def _unpacked(body: IO[bytes]) -> tuple[Manifest, dict[str, Sequence[bytes]]]:
    """Returns the manifest and the contents that follow it, each compressed with zlib, in pieces."""
    packed = body.read(2) == b"\x1f\x8b"
    body.seek(0)
    stream: IO[bytes] = gzip.GzipFile(fileobj=body, mode="rb") if packed else body  # type: ignore[assignment]
    try:
        manifest = read_manifest(stream.readline(LARGEST_MANIFEST + 1))
        listed = stream.readline(_LARGEST_LIST)
        contents = {hash: _content(stream, hash, size) for hash, size in _sizes(manifest, listed)} if listed else {}
        if stream.read(1):
            raise InvalidInput.one("the sent code has more contents than it lists. Send it again")
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput.one(f"the sent code is damaged ({error}). Send it again") from None
    return manifest, contents


def _sizes(manifest: Manifest, listed: bytes) -> Iterator[tuple[str, int]]:
    """Yields (SHA-256, size) of each of the *listed* contents."""
    try:
        hashes = json.loads(listed)
    except (ValueError, RecursionError):
        hashes = None
    sizes = manifest.contents
    if not isinstance(hashes, list) or not all(isinstance(hash, str) and hash in sizes for hash in hashes):
        raise InvalidInput.one("invalid list of contents: must be a JSON list of SHA-256 hashes from the manifest")
    if len(set(hashes)) < len(hashes):
        raise InvalidInput.one("invalid list of contents: one is listed twice")
    for hash in hashes:
        yield hash, sizes[hash]


def _content(stream: IO[bytes], hash: str, size: int) -> Sequence[bytes]:
    """Returns the next *size* bytes, compressed, in pieces of at most 1 MiB. Raises InvalidInput unless they have *hash*."""
    assert size <= LARGEST, "the manifest was checked"
    found, packer, packed, left = hashlib.sha256(), zlib.compressobj(1), bytearray(), size
    while left:
        piece = stream.read(min(left, MIB))
        if not piece:
            raise EOFError("its end is missing")
        left -= len(piece)
        found.update(piece)
        packed += packer.compress(piece)
    packed += packer.flush()
    if found.hexdigest() != hash:
        raise InvalidInput.one(f"the sent contents do not have the SHA-256 {hash}. Send them again")
    return [bytes(packed[start : start + MIB]) for start in range(0, len(packed), MIB)]
