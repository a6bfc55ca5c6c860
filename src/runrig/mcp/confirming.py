"""Keys that a dry run returns and the change requires: they fit only the same call of the same caller, for ten minutes.

Nothing is stored. A key is its end, a number of its own, and a code over both, the caller and the call.
"""

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from runrig.domain.errors import InvalidInput

VALID_S = 600


class Keys:
    """Keys of one process; no other process accepts them."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def new(self, caller: str, tool: str, arguments: Mapping[str, Any]) -> str:
        begin = f"{int(time.time()) + VALID_S}.{secrets.token_hex(8)}"
        return f"{begin}.{self._code(begin, caller, tool, arguments)}"

    def check(self, key: str, caller: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """Returns a UUID of its own for *key*: a call that is repeated with it changes nothing again. Raises InvalidInput."""
        begin, _, code = key.rpartition(".")
        fits = hmac.compare_digest(code.encode(), self._code(begin, caller, tool, arguments).encode())
        again = f"Call {tool} again without key, look at the answer, and use the key in it"
        if not fits:
            raise InvalidInput.one(
                f"this key belongs to another call: it is valid only for the same arguments. {again}"
            )
        if int(begin.partition(".")[0]) < time.time():
            raise InvalidInput.one(f"this key has expired: it is valid for {VALID_S // 60} minutes. {again}")
        return str(UUID(bytes=hashlib.sha256(key.encode()).digest()[:16], version=4))

    def _code(self, begin: str, caller: str, tool: str, arguments: Mapping[str, Any]) -> str:
        text = json.dumps([begin, caller, tool, arguments], sort_keys=True)
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()[:32]
