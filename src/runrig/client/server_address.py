"""Finds the server's address and the token for it.

Address: ``--server``, else RUNRIG_SERVER, else the last login, else the address that a server wrote to its data folder,
else the default. Token: RUNRIG_TOKEN, else that of the login at this address, else the file in the data folder. Data
folder: ``--data``, else RUNRIG_DATA, else the user's. If one is set, its server is used and saved logins are ignored.
"""

import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runrig.client import folders, saved
from runrig.domain.errors import InvalidInput
from runrig.spec.regular_file import regular_file

DEFAULT_URL = "http://127.0.0.1:8700"
_HOST_AND_PORT = re.compile(r"(?!https?:)(\[[0-9a-fA-F:]+\]|[^/:@?#\s]+):[0-9]+/?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Address:
    """*source*: where *url* comes from, for messages. *missing*: why nothing may be asked there; it is said at the first call, because
    what is wrong with the call itself comes first.
    """

    url: str
    source: str
    missing: str | None = None

    @property
    def loopback(self) -> bool:
        return urlsplit(self.url).hostname in _LOOPBACK


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Options of the command line; None if not given."""

    server: str | None = None
    data: str | None = None

    def or_else(self, server: str | None = None, data: str | None = None) -> "ServerAddress":
        """Returns the address with what is given here instead."""
        return ServerAddress(server or self.server, data or self.data)

    @property
    def _chosen_data(self) -> str | None:
        return self.data or os.environ.get("RUNRIG_DATA")

    def data_folder(self) -> Path:
        if self._chosen_data:
            return Path(os.path.expanduser(self._chosen_data))
        return folders.data_folder()

    def database(self) -> Path:
        return self.data_folder() / "runrig.db"

    def address(self) -> Address:
        """Raises InvalidInput for an invalid address."""
        if self.server:
            return checked(self.server, "--server")
        if in_environment := os.environ.get("RUNRIG_SERVER"):
            return checked(in_environment, "RUNRIG_SERVER")
        if not self._chosen_data and (current := saved.read().current):
            return checked(current, "runrig login")
        record = self.data_folder() / "server.json"
        if url := _written(record):
            return checked(url, str(record))
        missing = (
            f"no server is running on the data folder {str(self.data_folder())!r}. Start one with "
            f"`runrig up --data {shlex.quote(str(self.data_folder()))}`, or set --server"
        )
        return Address(DEFAULT_URL, "the default", missing if self._chosen_data else None)

    def token(self, address: Address) -> str | None:
        """Returns the token, or None. The token of a data folder is sent only to this machine."""
        if in_environment := os.environ.get("RUNRIG_TOKEN"):
            return one_line(in_environment, "RUNRIG_TOKEN")
        if not (self._chosen_data and address.loopback) and (kept := saved.read().token(address.url)):
            return one_line(kept, str(saved.file()))
        if not address.loopback:
            return None
        file = self.data_folder() / "token"
        try:
            return one_line(regular_file(file).read_text(encoding="ascii"), str(file))
        except (OSError, UnicodeDecodeError):
            return None


def checked(url: str, source: str) -> Address:
    """Returns the address *url*; HOST:PORT is enough for loopback. Raises InvalidInput unless it is an HTTP address."""
    bare = _HOST_AND_PORT.fullmatch(url) is not None
    whole = f"http://{url}" if bare else url
    try:
        parts = urlsplit(whole)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        known = False
    if not known or not url.isascii() or any(character.isspace() for character in url):
        raise InvalidInput.one(f"{url!r} (from {source}) is not a server address. Use http://HOST:PORT")
    address = Address(whole.rstrip("/"), source)
    if bare and not address.loopback:
        raise InvalidInput.one(
            f"{url!r} (from {source}) is not on this machine. Use https://{url}, or http:// without TLS"
        )
    return address


def _written(record: Path) -> str | None:
    """Returns the address in *record*; None if there is none, or only half of one."""
    try:
        url = json.loads(regular_file(record).read_text(encoding="utf-8"))["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if isinstance(url, str) else None


def one_line(text: str, source: str) -> str | None:
    """Returns the token in *text*, None if it is empty. Raises InvalidInput if it does not fit in a header."""
    token = text.strip()
    if not token.isascii() or any(not character.isprintable() for character in token):
        raise InvalidInput.one(f"the token in {source} contains invalid characters. Copy it again")
    return token or None
