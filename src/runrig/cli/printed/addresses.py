"""Addresses of the pages on which people look at what a command is about."""

from typing import Literal
from urllib.parse import quote


def page(url: str, kind: Literal["workflow", "pool", "node"], name: str) -> str:
    """*url*: of the server."""
    return f"{url}/{kind}/{quote(name, safe='')}"
