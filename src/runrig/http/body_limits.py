"""Bodies of requests: how large one may be, by its path, and one that was read and is read again."""

from starlette.types import Message, Receive

LARGEST_BODY = 2 * 1024 * 1024
"""Bytes. Larger workflow files are refused by their parser in any case."""
LARGEST_CODE = 40 * 1024 * 1024
"""Bytes of sent code, with its manifest, compressed."""
CODE_PATH = "/api/v1/code"


def limit_of(path: str) -> int:
    return LARGEST_CODE if path == CODE_PATH else LARGEST_BODY


def too_large(limit: int) -> str:
    return f"the request is larger than {limit // 1024 // 1024} MiB. Send less"


def again(read: list[Message], receive: Receive) -> Receive:
    """Returns a *receive* that starts with the messages *read*, which came from the original."""

    async def message() -> Message:
        return read.pop(0) if read else await receive()

    return message
