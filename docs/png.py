"""Makes pictures of screens small: fewer colours, in a palette, and rows as they are, which flat areas compress best as."""

import struct
import zlib

import numpy as np

_HEAD = b"\x89PNG\r\n\x1a\n"


def smaller(png: bytes) -> bytes:
    """*png*, of eight bits for each of red, green and blue, without transparency, with at most 256 colours: the closest frequent ones."""
    width, height, pixels = _read(png)
    packed = (pixels.astype(np.uint32) * np.array([65536, 256, 1], np.uint32)).sum(axis=2, dtype=np.uint32).ravel()
    values, places, counts = np.unique(packed, return_inverse=True, return_counts=True)  # noqa: TID251 - no server
    kept = values[np.argsort(-counts, kind="stable")[:256]]
    near = np.array([_nearest(value, kept) for value in values], np.uint8)
    rows = np.hstack([np.zeros((height, 1), np.uint8), near[places].reshape(height, width)])
    palette = b"".join(int(value).to_bytes(3, "big") for value in kept)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return _HEAD + b"".join(_chunk(*each) for each in chunks)


def _nearest(value: int, kept: np.ndarray) -> int:
    parts = [(kept >> shift & 255).astype(np.int32) - int(value >> shift & 255) for shift in (16, 8, 0)]
    return int(np.argmin(sum(part * part for part in parts)))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _read(png: bytes) -> tuple[int, int, np.ndarray]:
    """Width, height, and pixels as (row, column, colour)."""
    at, data, head = len(_HEAD), b"", b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        head, data = (body, data) if name == b"IHDR" else (head, data + body) if name == b"IDAT" else (head, data)
        at += length + 12
    width, height, depth, kind = struct.unpack(">IIBB", head[:10])
    assert (depth, kind) == (8, 2), "a screenshot has three bytes for each pixel"
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + 3 * width)
    rows = np.zeros((height + 1, width, 3), np.uint8)
    for number, line in enumerate(lines):
        rows[number + 1] = _unfiltered(int(line[0]), line[1:].reshape(width, 3), rows[number])
    return width, height, rows[1:]


def _unfiltered(kind: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    """A row as it was before its filter; *above*: the row above it."""
    if kind == 0:
        return line
    if kind == 1:
        return np.asarray(np.cumsum(line, axis=0, dtype=np.uint8))
    if kind == 2:
        return np.asarray(line + above)
    found = np.zeros_like(line)
    for channel in range(3):
        left = corner = 0
        for at, (value, up) in enumerate(zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True)):
            guess = (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
            left, corner = (value + guess) & 255, up
            found[at, channel] = left
    return found


def _paeth(left: int, up: int, corner: int) -> int:
    """The one of the three that is closest to left + up - corner."""
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
