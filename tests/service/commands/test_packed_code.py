"""Archives of code for pods: packed once for all pods of a gang, and a few are kept."""

import io
import tarfile

from runrig.domain.code import sha256
from runrig.ports.code import StoredCode
from runrig.service.commands.packed_code import MOST_KEPT, PackedCode
from tests.worlds.code import manifest


def test_pods_that_fetch_the_same_code_share_one_archive_and_the_latest_archives_are_cached() -> None:
    asked: list[str] = []

    def code(user: str, id: str) -> StoredCode:
        asked.append(f"{user} {id}")
        data = f"{user} {id}".encode()
        return StoredCode(manifest({"who": data}), {sha256(data): data}.__getitem__)

    def who(archive: bytes) -> bytes:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            file = tar.extractfile("who")
            assert file is not None
            return file.read()

    packed = PackedCode(code)
    first = packed.pieces("ann", "c0")
    assert [who(b"".join(packed.pieces(user, "c0"))) for user in ("ann", "ann", "bob")] == [
        b"ann c0",
        b"ann c0",
        b"bob c0",
    ]
    assert asked == ["ann c0", "bob c0"]
    for number in range(1, MOST_KEPT + 1):
        list(packed.pieces("ann", f"c{number}"))
    assert who(b"".join(first)) == b"ann c0", "a pod that is slow gets all of it"
    list(packed.pieces("ann", "c0"))
    assert asked[-1] == "ann c0"
