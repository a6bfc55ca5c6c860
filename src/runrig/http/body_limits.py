"""How large the body of a request may be, by its path."""

LARGEST_BODY = 2 * 1024 * 1024
"""Bytes. Larger workflow files are refused by their parser in any case."""
LARGEST_CODE = 40 * 1024 * 1024
"""Bytes of sent code, with its manifest, compressed."""
CODE_PATH = "/api/v1/code"


def limit_of(path: str) -> int:
    return LARGEST_CODE if path == CODE_PATH else LARGEST_BODY


def too_large(limit: int) -> str:
    return f"the request is larger than {limit // 1024 // 1024} MiB. Send less"
