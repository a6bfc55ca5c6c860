"""Code as archives in temporary files, for the pods of a gang: they start together and fetch the same."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile

from runrig.domain.code import MIB
from runrig.domain.code_archive import archive
from runrig.ports.code import StoredCode

MOST_KEPT = 4


class PackedCode:
    """*code*: (user, id) → the code; raises NotFound."""

    def __init__(self, code: Callable[[str, str], StoredCode]) -> None:
        self._code = code
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _Archive] = OrderedDict()

    def pieces(self, user: str, id: str) -> Iterator[bytes]:
        """Returns the archive, packed at the first call; others wait for it. Raises NotFound, OSError."""
        with self._lock:
            packed = self._kept.pop((user, id), None) or self._packed(user, id)
            self._kept[user, id] = packed
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return packed.pieces()

    def _packed(self, user: str, id: str) -> "_Archive":
        code, packed = self._code(user, id), _Archive()
        for piece in archive(code.manifest, code.read):
            packed.file.write(piece)
        packed.file.flush()
        return packed


class _Archive:
    """A temporary file, which is closed after its last reader."""

    def __init__(self) -> None:
        self.file = TemporaryFile()  # noqa: SIM115 - see __del__

    def __del__(self) -> None:
        self.file.close()

    def pieces(self) -> Iterator[bytes]:
        at = 0
        while piece := os.pread(self.file.fileno(), MIB, at):
            yield piece
            at += len(piece)
