"""Code as a client sends it."""

import gzip
import json
from collections.abc import Collection, Mapping

from runrig.domain.code import CodeFile, CodeLink, Manifest, sha256


def manifest(
    files: Mapping[str, bytes], links: Mapping[str, str] | None = None, *, scripts: Collection[str] = ()
) -> Manifest:
    """*scripts*: the executable ones."""
    return Manifest(
        tuple(CodeFile(path, path in scripts, sha256(data), len(data)) for path, data in sorted(files.items())),
        tuple(CodeLink(*pair) for pair in sorted((links or {}).items())),
    )


def packed(
    code: Manifest, contents: Collection[bytes] | None = None, *, hashes: Collection[str] | None = None
) -> bytes:
    """The body of a request.  *contents* None: the manifest alone.  *hashes*: said of *contents*, if not the right ones."""
    body = code.written()
    if contents is not None:
        said = [sha256(each) for each in contents] if hashes is None else list(hashes)
        body += b"\n" + json.dumps(said).encode() + b"\n" + b"".join(contents)
    return gzip.compress(body, mtime=0)
