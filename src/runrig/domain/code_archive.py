"""Code as one file, for those who download or unpack it."""

import tarfile
import zlib
from collections.abc import Callable, Iterator

from runrig.domain.code import Manifest

GZIP = 31
"""The window size by which zlib writes gzip."""
_BLOCK = 512
"""A tar file consists of blocks of this size."""


def archive(manifest: Manifest, read: Callable[[str], bytes]) -> Iterator[bytes]:
    """Yields the code as a tar file compressed with gzip, in pieces. Equal code gives equal bytes.

    *read*: returns the contents with a SHA-256.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    for file in manifest.files:
        entry = tarfile.TarInfo(file.path)
        entry.size, entry.mode = file.size, 0o755 if file.executable else 0o644
        yield packer.compress(_header(entry) + read(file.sha256) + bytes(-file.size % _BLOCK))
    for link in manifest.links:
        entry = tarfile.TarInfo(link.path)
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, link.target, 0o777
        yield packer.compress(_header(entry))
    yield packer.compress(bytes(2 * _BLOCK)) + packer.flush()


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
