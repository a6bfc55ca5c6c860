"""Sealing of values with AES-256-GCM, with the newest key in a file.

A sealed value names its key and is bound to its owner: it does not open in another row.
"""

import base64
import binascii
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runrig.domain.credentials import Credential, read_keys
from runrig.domain.errors import Conflict, ServerFault
from runrig.spec.regular_file import regular_file

_FORMAT = "1"
_NONCE_BYTES = 12


def keys_in(path: Path | None) -> tuple[bytes, ...]:
    """Returns the keys, newest first. Reads the file each time, so that a new key takes effect immediately.

    Raises Conflict if there is no file, ServerFault if it is not usable.
    """
    if path is None:
        raise Conflict(
            "credentials are not enabled on this server. An administrator can set credential_key in the server file to a key file"
        )
    try:
        with regular_file(path).open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise ServerFault(
                    f"key file {path} must be a regular file that only its owner can read. Run `chmod 600` on it"
                )
            return read_keys(file.read(64 * 1024).decode("ascii"))
    except FileNotFoundError:
        raise ServerFault(
            f"key file {path} not found. Restore it, or create one with `runrig admin credential-key {path}`"
        ) from None
    except OSError as error:
        raise ServerFault(f"key file {path} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ServerFault(f"key file {path} cannot be used: {error}") from None


def seal(keys: tuple[bytes, ...], values: Mapping[str, str], about: Credential) -> str:
    """Returns *values* sealed for *about*, with the first of *keys*."""
    nonce = os.urandom(_NONCE_BYTES)
    text = json.dumps(dict(values), sort_keys=True).encode()
    content = nonce + AESGCM(keys[0]).encrypt(nonce, text, _bound(about))
    return f"{_FORMAT}.{_id_of(keys[0])}.{base64.b64encode(content).decode()}"


def opened(keys: tuple[bytes, ...], credential: Credential) -> dict[str, str]:
    """Returns the values. Raises Conflict if none of *keys* opens it."""
    found = {_id_of(key): key for key in keys}
    written, _, rest = credential.sealed.partition(".")
    id, _, text = rest.partition(".")
    try:
        if written != _FORMAT or id not in found:
            raise ValueError
        content = base64.b64decode(text, validate=True)
        plain = AESGCM(found[id]).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _bound(credential))
        values: dict[str, str] = json.loads(plain)
    except (InvalidTag, ValueError, binascii.Error):
        raise Conflict(
            f"the values of credential {credential.name!r} of {credential.user} cannot be decrypted: their key is not in the key file, or "
            f"a backup excluded them. Set it again with `runrig credential set {credential.name}`"
        ) from None
    return values


def _bound(about: Credential) -> bytes:
    return "\0".join(("runrig credential", about.user, about.name, about.kind.value)).encode()


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"runrig key\0" + key).hexdigest()[:16]
